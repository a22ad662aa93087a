"""Mutants of the fallback: own `__getattr__`, and properties that hide their errors."""

from __future__ import annotations

from typing import Any

from tests.mutants.good import Good


class RaisesUnknown(Good):
    """Raises for a name that nobody has."""

    def __getattr__(self, key: str) -> Any:
        value = super().__getattr__(key)
        if value is None:
            raise AttributeError(key)
        return value


class InventsAnswers(Good):
    """Answers every unknown name with an object."""

    def __getattr__(self, key: str) -> Any:
        value = super().__getattr__(key)
        return object() if value is None else value


class SoftDunders(Good):
    """Answers dunder names with None too."""

    def __getattr__(self, key: str) -> Any:
        return None if key.startswith("__") else super().__getattr__(key)


class DropsTorch(Good):
    """Answers None to everything, as copied from another project."""

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__") and key.endswith("__"):
            raise AttributeError(key)


class KeepsCopies(Good):
    """Keeps the first answer for ever."""

    _kept: dict[str, Any] = {}

    def __getattr__(self, key: str) -> Any:
        if key not in self._kept:
            self._kept[key] = super().__getattr__(key)
        return self._kept[key]


class Delegates(Good):
    """Adds one name of its own and leaves the rest to the base."""

    def __getattr__(self, key: str) -> Any:
        return "9.1" if key == "chip_version" else super().__getattr__(key)


class HidesError(Good):
    """Reads a name that does not exist in a property."""

    @property
    def pass_key(self) -> str:
        """Fail."""
        return self.device_name.no_such_name  # type: ignore[attr-defined, no-any-return]


class OwnKey(Good):
    """Computes a property without an error."""

    @property
    def pass_key(self) -> str:
        """Return a key."""
        return f"{self.device_name}_pass"
