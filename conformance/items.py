"""The kit's checks as pytest sees them: items and a folder of our own, which no naming rule of a suite reaches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import conformance
from conformance.model import Check


class CheckItem(pytest.Item):
    """One check as pytest sees it."""

    fixturenames: tuple[str, ...] = ()  # conftest files of users look for it on every item

    def __init__(self, *, check: Check, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # pyright: ignore[reportUnknownMemberType]
        self.check = check
        # What conftest files of users read from every item, as if each were a function of a module.
        self.obj = self.function = check.func
        self.module = conformance
        self.cls = self.instance = None

    def runtest(self) -> None:
        """Never called: the kit has a protocol of its own."""
        raise NotImplementedError("a check is run by the kit's own protocol")

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the check is, for pytest's listings."""
        return self.path, None, self.name


class CheckFolder(pytest.Directory):
    """The kit's folder, whose items are the checks of the plan."""

    def __init__(self, *, checks: Iterable[Check], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._checks = tuple(checks)

    def collect(self) -> Iterable[CheckItem]:
        """One item for each check that the selection keeps."""
        for check in self._checks:
            yield CheckItem.from_parent(  # pyright: ignore[reportUnknownMemberType]
                self, name=check.id, nodeid=f"conformance::{check.id}", check=check
            )
