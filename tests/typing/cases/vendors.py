"""Platforms in the styles of real vendors are clean for checkers, and warn of nothing when they are defined.

The exceptions are what a checker cannot know of: a cache around a class method has the type of the cache.
"""

from __future__ import annotations

import functools
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import attrs

from platform_abc import DeviceCapability, Platform, PlatformEnum

if TYPE_CHECKING:
    from argparse import ArgumentParser

    import torch

    from platform_abc.config import AttentionSelectorConfig, EngineConfig

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


def logged(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate with a wrapper that says what it wraps."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    return wrapper


def timed(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate with a wrapper that does not."""

    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    return wrapper


class Family(
    Platform["EngineConfig", "AttentionSelectorConfig", object, object, "ArgumentParser"], abstract=True
):
    """A base of several devices; the engine's types are imported for checkers only."""

    _enum = PlatformEnum.OOT
    device_type = "cpu"
    dist_backend = "gloo"
    supported_quantization: list[str] = ["fp8", "awq"]

    @classmethod
    @abstractmethod
    def firmware(cls) -> str:
        """An abstract method of the vendor's own."""

    @classmethod
    def pre_register_and_update(cls, parser: ArgumentParser | None = None) -> None:
        super().pre_register_and_update(parser)

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        super().check_and_update_config(vllm_config)
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = "acme.worker.Worker"

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: object,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        return "acme.attention.Backend"


class Acme(Family):
    """Decorated class methods, an own property, own public names."""

    device_name = "acme"
    acme_generation = 2

    @classmethod
    def firmware(cls) -> str:
        return "1.0"

    @classmethod
    @functools.cache
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability | None:  # E: p
        return DeviceCapability(9, device_id)

    @classmethod
    @logged
    def get_device_name(cls, device_id: int = 0) -> str:
        return f"Acme {device_id}"

    @classmethod
    @timed
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        return 1 << 30

    @classmethod
    @contextmanager
    def inference_mode(cls) -> Generator[None]:
        yield

    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        import torch

        return [torch.float32]

    @classmethod
    def set_additional_forward_context(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {"tokens": kwargs["num_tokens"]}

    def is_sleep_mode_available(self) -> bool:
        return super().is_sleep_mode_available()

    def acme_reset(self) -> None:
        """Do what only this vendor does."""


class AcmeLite(Acme):
    """A subclass of a subclass, which extends hooks."""

    device_name: str = "acme-lite"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return super().get_device_name(device_id) + " Lite"

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        super().check_and_update_config(vllm_config)

    @classmethod
    def verify_quantization(cls, quant: str) -> None:
        super().verify_quantization(quant)

    def get_max_output_tokens(self, prompt_len: int) -> int:
        return min(super().get_max_output_tokens(prompt_len), 4096)


class RuntimeMixin:
    """Helpers of a vendor's torch extension."""

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Select nothing: there is one device."""

    @staticmethod
    def current_device() -> int:
        return 0


class Mixed(RuntimeMixin, Acme):
    """Several bases."""


class Registering(ABCMeta):
    """A metaclass of the vendor."""

    registered: list[str] = []

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **keywords: Any
    ) -> None:
        super().__init__(name, bases, namespace)
        Registering.registered.append(name)


class Registered(Acme, metaclass=Registering):
    """Defined through it."""


class ForConfig(Platform[T], Generic[T], abstract=True):
    """A base that leaves the engine open."""

    _enum = PlatformEnum.OOT
    device_type = "cpu"

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: object, attn_selector_config: object, num_heads: int | None = None
    ) -> str:
        return "acme.attention.Backend"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return "Acme"


class ForOurConfig(ForConfig["EngineConfig"]):
    device_name = "acme"

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        vllm_config.parallel_config.worker_cls = "acme.worker.Worker"


class ForAnotherConfig(ForConfig["EngineConfig"], abstract=True):
    @classmethod
    def check_and_update_config(cls, vllm_config: str) -> None:  # E: mp
        """Take another config than the base was given."""


@dataclass
class Data(Acme):
    """State as a dataclass."""

    handles: list[int] = field(default_factory=lambda: [7])


@dataclass(slots=True)
class SlottedBase(Family, abstract=True):
    """A dataclass with slots is made a second time, without the keywords of the first."""

    handles: list[int] = field(default_factory=lambda: [7])


@dataclass(slots=True)
class SlottedData(Acme):
    handles: list[int] = field(default_factory=lambda: [7])


@attrs.define
class AttrsData(Acme):
    handles: list[int] = attrs.field(factory=lambda: [7])


class Slotted(Acme):
    __slots__ = ("handles",)
    handles: list[int]

    def __init__(self) -> None:
        self.handles = [7]


class WithState(Acme):
    """An instance may have its own values beside those of the class."""

    def __init__(self) -> None:
        super().__init__()
        self.handles = [7]
        self.device_name = "acme-0"


class OwnNames(Acme):
    """A platform may answer some names itself and leave the others to the fallback.

    A checker does not see the fallback, so it is asked for by its name.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "acme_serial":
            return "A-1"
        return getattr(super(), "__getattr__")(name)


CLASSES: list[type[Acme | ForOurConfig]] = [
    Acme,
    AcmeLite,
    Mixed,
    Registered,
    ForOurConfig,
    Data,
    SlottedData,
    AttrsData,
    Slotted,
    WithState,
    OwnNames,
]

WITH_HANDLES: set[type] = {Data, SlottedData, AttrsData, Slotted, WithState}


def use(platform: Acme) -> None:
    """What a checker knows of them, and what it does not."""
    platform.get_device_name(0).upper()
    platform.current_stream()
    print(platform.acme_generation, platform.firmware(), platform.device_name.upper())
    platform.acme_rest()  # E: mp
