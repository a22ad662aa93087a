"""Mutants with members that have no effect: stale, misspelt, hidden, or told apart by class and instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_abc.platform import Platform
from tests.mutants.good import HERE, Good

if TYPE_CHECKING:
    import torch


def yes() -> bool:
    """Say yes."""
    return True


class KeepsOldHook(Good):
    """Still has a hook that the interface gave up."""

    @classmethod
    def is_async_output_supported(cls, enforce_eager: bool | None) -> bool:
        """Say no."""
        return False


class KeepsOldHookForItself(Good):
    """Has names of its own that are near to members and to what members once were, and uses one of them."""

    cores_per_chip = 4

    @classmethod
    def get_compute_unit_names(cls) -> list[str]:
        """Name them."""
        return [f"unit {number}" for number in range(cls.num_compute_units())]

    @classmethod
    def supports_fp4(cls) -> bool:
        """Say no."""
        return False

    @classmethod
    def is_npu(cls) -> bool:
        """Say yes."""
        return True


class Misspells(Good):
    """Misspells a capability."""

    @classmethod
    def supports_static_graph_mode(cls) -> bool:
        """Say yes."""
        return True


class Swaps(Good):
    """Has two letters of a hook's name in the wrong order."""

    @classmethod
    def verify_quatnization(cls, quant: str) -> None:
        """Accept it."""


class TooPrivate(Good):
    """Makes a hook private, so that Python gives it another name."""

    @classmethod
    def __import_kernels(cls) -> None:
        """Import nothing."""


class Outside(Good):
    """Leaves a hook outside the class, by a wrong indentation."""

    @classmethod
    def log_warnings(cls) -> None:
        """Log nothing."""

        def validate_request(cls: Any, processed_inputs: Any, params: Any) -> None:
            """Accept it."""


class Inside(Good):
    """Has functions in its members that are none of the contract's."""

    @classmethod
    def log_warnings(cls) -> None:
        """Log nothing."""

        def level(cls: Any) -> int:
            """Give it."""
            return 1

        del level


class _Extras:
    """What several platforms of the vendor share."""

    @classmethod
    def supports_mx(cls) -> bool:
        """Say yes."""
        return True


class MixinLast(Good, _Extras):
    """Puts the mixin after the class that has the same member."""


class MixinFirst(_Extras, Good):
    """Puts the mixin before the class that has the same member."""


class WrittenTwice(Good):
    """Defines a hook twice."""

    @classmethod
    def verify_model_arch(cls, model_arch: str) -> None:
        """Refuse one model."""
        if model_arch == "GiantForCausalLM":
            raise ValueError(model_arch)

    @classmethod  # type: ignore[no-redef]
    def verify_model_arch(cls, model_arch: str) -> None:  # noqa: F811
        """Accept all."""


class AnswersForMembers(Good):
    """Answers members in `__getattr__`, which is never asked for them."""

    def __getattr__(self, key: str) -> Any:
        if key == "supports_fp8":
            return lambda: True
        return super().__getattr__(key)  # type: ignore[misc]


class AnswersForOthers(Good):
    """Answers a name that is none of the contract's in `__getattr__`."""

    def __getattr__(self, key: str) -> Any:
        return "9.1" if key == "chip_version" else super().__getattr__(key)  # type: ignore[misc]


class _Meta(type(Platform)):  # type: ignore[misc]
    """A metaclass with a member of platforms on it."""

    def supports_fp8(cls) -> bool:
        """Say yes."""
        return True


class OnTheMeta(Good, metaclass=_Meta):
    """Has a capability on the metaclass."""


class _Counting(type(Platform)):  # type: ignore[misc]
    """A metaclass with a name of its own."""

    def how_many(cls) -> int:
        """Say it."""
        return 1


class OwnMeta(Good, metaclass=_Counting):
    """Has a metaclass that says nothing of members."""


class OverInstance(Good):
    """Sets a hook on the instance, so that the class has another one."""

    def __init__(self) -> None:
        self.supports_fp8 = yes  # type: ignore[method-assign]


class Intercepts(Good):
    """Answers a hook for instances alone."""

    def __getattribute__(self, key: str) -> Any:
        if key == "get_punica_wrapper":
            return lambda: f"{HERE}.Lora"
        return super().__getattribute__(key)


class Watches(Good):
    """Looks at each access and changes none."""

    def __getattribute__(self, key: str) -> Any:
        return super().__getattribute__(key)


class CopiesBase(Good):
    """Has the base's code once more."""

    @classmethod
    def has_device_capability(cls, capability: tuple[int, int] | int, device_id: int = 0) -> bool:
        """Say whether a device has this capability or a later one."""
        current = cls.get_device_capability(device_id)
        if current is None:
            return False
        if isinstance(capability, tuple):
            return (current.major, current.minor) >= capability
        return current.to_int() >= capability


class AsksBase(Good):
    """Adds something to the base's code."""

    @classmethod
    def has_device_capability(cls, capability: tuple[int, int] | int, device_id: int = 0) -> bool:
        """Ask the base."""
        return super().has_device_capability(capability, device_id)


class ImportsEngine(Good):
    """Imports a part of the engine to answer what the engine asks while it is being imported."""

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        """Log it by the engine's helper."""
        from reference_engine import input_processor

        return not input_processor.__doc__


class AnswersAlone(Good):
    """Answers from what it knows."""

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        """Say no."""
        return False


class NeedsMainThread(Good):
    """Sets a signal handler, which Python allows in the main thread alone."""

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seed, with the handler set."""
        import signal

        import torch

        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        torch.manual_seed(seed)


class AnyThread(Good):
    """Seeds under a lock."""

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seed."""
        import threading

        import torch

        with threading.Lock():
            torch.manual_seed(seed)


def unused(device: torch.device) -> torch.device:
    """Give it back: a function of the module that has no member's name."""
    return device
