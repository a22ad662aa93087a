"""The torch fallback: names that `torch.<device_type>` answers, live, typed where the engine reads them.

An instance asked for a name that no class defines answers with the object that `torch.<device_type>` has at
that moment, so a function that was replaced there is seen. Where torch has no such name the answer is None,
with one log line for each platform class and name; only dunder names raise. So `hasattr` is always true on a
platform; `has_runtime` says what it cannot.

The names that engines really read are declared in `TorchNames` with their types. A declared name is a
descriptor on the class, which is about four times as fast as the way through `__getattr__`.

A platform with a `__getattr__` of its own ends it with `return getattr(super(), "__getattr__")(name)`: checkers do
not see the one here, so that they find misspelt names.
"""

from __future__ import annotations

import logging
import sys
import threading
import weakref
from collections.abc import Callable, Container, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Protocol

from platform_abc._required import Required, find

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import torch
    from torch.types import Device as TorchDevice

_logger = logging.getLogger(__name__)
_MODULES: Final = sys.modules
_ABSENT: Final = object()


class TorchNames:
    """The names of `torch.<device_type>` that engines read through a platform, as a vendor sees them.

    A platform may override any of them with a method, a class method or a static method. Where torch has no
    such name for the device, reading it gives None in spite of the declared type; ask `has_runtime` first.
    """

    # `Callable[..., R]`, because a checker accepts every kind of method over it and still checks the result.
    # What the engine may pass is said in TorchNamesLike.
    current_device: Callable[..., int]
    device_count: Callable[..., int]
    get_device_properties: Callable[..., Any]
    synchronize: Callable[..., None]
    current_stream: Callable[..., torch.Stream]
    set_stream: Callable[..., None]
    stream: Callable[..., AbstractContextManager[object]]
    Stream: type[torch.Stream]
    Event: type[torch.Event]
    graph_pool_handle: Callable[..., object]
    cudart: Callable[..., Any]
    default_generators: Sequence[torch.Generator]
    empty_cache: Callable[..., None]
    mem_get_info: Callable[..., tuple[int, int]]
    memory_stats: Callable[..., dict[str, Any]]
    memory_allocated: Callable[..., int]
    memory_reserved: Callable[..., int]
    max_memory_allocated: Callable[..., int]
    reset_peak_memory_stats: Callable[..., None]


class TorchNamesLike(Protocol):
    """The same names as an engine uses them, with the arguments it may pass."""

    def current_device(self) -> int:
        """Return the visible id of the current device."""
        ...

    def device_count(self) -> int:
        """Return how many devices this process sees."""
        ...

    def get_device_properties(self, device: TorchDevice = None, /) -> Any:
        """Return the properties of a device, an object that differs by device type."""
        ...

    def synchronize(self, device: TorchDevice = None, /) -> None:
        """Wait for all work on a device."""
        ...

    def current_stream(self, device: TorchDevice = None, /) -> torch.Stream:
        """Return the stream that work is queued on."""
        ...

    def set_stream(self, stream: torch.Stream, /) -> None:
        """Queue work on another stream from now on."""
        ...

    def stream(self, stream: torch.Stream | None, /) -> AbstractContextManager[object]:
        """Queue work on another stream inside a `with` block."""
        ...

    @property
    def Stream(self) -> type[torch.Stream]:  # noqa: N802  torch's spelling
        """The class of streams."""
        ...

    @property
    def Event(self) -> type[torch.Event]:  # noqa: N802  torch's spelling
        """The class of events."""
        ...

    def graph_pool_handle(self) -> object:
        """Return a new handle for the memory that device graphs share."""
        ...

    def cudart(self) -> Any:
        """Return the bindings of the CUDA run-time library."""
        ...

    @property
    def default_generators(self) -> Sequence[torch.Generator]:
        """The random generators, one a device; empty until the device is initialised."""
        ...

    def empty_cache(self) -> None:
        """Give memory that no tensor uses back to the device."""
        ...

    def mem_get_info(self, device: TorchDevice = None, /) -> tuple[int, int]:
        """Return free and total memory of a device, in bytes."""
        ...

    def memory_stats(self, device: TorchDevice = None, /) -> dict[str, Any]:
        """Return the allocator's counters."""
        ...

    def memory_allocated(self, device: TorchDevice = None, /) -> int:
        """Return the bytes that tensors take."""
        ...

    def memory_reserved(self, device: TorchDevice = None, /) -> int:
        """Return the bytes that the allocator holds."""
        ...

    def max_memory_allocated(self, device: TorchDevice = None, /) -> int:
        """Return the peak of `memory_allocated`, in bytes."""
        ...

    def reset_peak_memory_stats(self, device: TorchDevice = None, /) -> None:
        """Start the peaks anew."""
        ...


TORCH_NAMES: Final = tuple(TorchNames.__annotations__)
"""The declared names, in the order of their declaration."""


class TorchName:
    """A declared name: reads `torch.<device_type>.<name>` each time, on an instance or on the class.

    It is no data descriptor, so an instance may carry a value of its own.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> object:
        """Return what torch has under the name now; None, with a log line, if nothing."""
        target: Any = owner if instance is None else instance
        try:
            value: object = getattr(getattr(_MODULES["torch"], target.device_type), self.name)
        except Exception:  # noqa: BLE001  the slow way finds out what it was, and says so
            value = None
        return _answer(target, self.name) if value is None else value


class CarefulTorchName(TorchName):
    """A declared name of a class whose device type is computed, which may itself read names."""

    __slots__ = ()

    def __get__(self, instance: object, owner: type | None = None) -> object:
        """Return what torch has under the name now, by the way that cannot recurse."""
        return _answer(owner if instance is None else instance, self.name)


class EveryName:
    """A collection of names that has every one."""

    def __contains__(self, name: object) -> bool:
        """Say yes."""
        return True


if not TYPE_CHECKING:
    for _name in TORCH_NAMES:
        setattr(TorchNames, _name, TorchName(_name))


class TorchFallback(TorchNames):
    """Gives a platform the names of `torch.<device_type>`; the class names the device in `device_type`."""

    # What the class and its bases define, for a quick look; the slow way looks at the classes themselves.
    _own_names: Container[str] = ()

    if TYPE_CHECKING:
        device_type: str
    else:
        # Hidden from type checkers, which would take it for the definition of every name.
        def __getattr__(self, name: str) -> object:
            if name[:1] == "_" and name[:2] == "__" and name[-2:] == "__":
                # pickle and copy look for optional dunder methods, and would call a None.
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            if name not in self._own_names:
                try:
                    value = getattr(getattr(_MODULES["torch"], self.device_type, None), name, None)
                except Exception:  # noqa: BLE001  the slow way finds out what it was, and says so
                    return _answer(self, name)
                if value is not None or name in _logged.get(type(self), ()):
                    return value
            return _answer(self, name)

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Note what the class defines."""
        super().__init_subclass__(**kwargs)
        cls._own_names = frozenset().union(*map(vars, cls.__mro__[:-1]))
        if not isinstance(find(cls, "device_type"), (str, Required, NoneType)):
            # Computed, against the contract. Such code may read names that end here again, so every read takes
            # the slow way, which notices.
            cls._own_names = EveryName()
            for name in TORCH_NAMES:
                if isinstance(find(cls, name), TorchName):
                    setattr(cls, name, CarefulTorchName(name))

    def has_runtime(self, name: str) -> bool:
        """Say whether reading `name` on this platform gives something of its own or of torch's.

        Unlike `hasattr`, which the fallback makes true for every name. A None that stands there in place of
        something does not count. It runs no property and logs nothing.
        """
        member = getattr(self, "__dict__", {}).get(name, _ABSENT)
        if member is _ABSENT:
            member = next((vars(base)[name] for base in type(self).__mro__ if name in vars(base)), _ABSENT)
        if member is _ABSENT or isinstance(member, TorchName):
            dunder = name[:2] == "__" and name[-2:] == "__"
            return not dunder and _look(self, name)[0] is not None
        return member is not None and not isinstance(member, Required)


def _look(target: object, name: str) -> tuple[object, str]:
    """Look a name up in `torch.<device_type>`, importing torch if need be.

    Args:
        target: a platform, or its class.
        name: the name.

    Returns:
        The object and nothing, or None and why there is none.
    """
    if getattr(_reading, "device_type", False):
        return None, "its device_type, which tells where in torch to look, is being computed"
    place = "torch"
    try:
        import torch

        device_type = _device_type(target)
        place = f"torch.{device_type}"
        module = getattr(torch, device_type, None) if isinstance(device_type, str) else None
        value: object = getattr(module, name, None)
    except Exception as error:  # noqa: BLE001  torch runs code when a name is read, and reading must not raise
        return None, f"{place} cannot be asked ({type(error).__name__}: {error})"
    if module is None:
        return None, f"there is no {place}"
    return value, f"{place} has none either"


_reading: Final = threading.local()


def _device_type(target: object) -> object:
    """Read the device type, marking that this thread is at it."""
    _reading.device_type = True
    try:
        device_type: object = getattr(target, "device_type")  # noqa: B009  any object may come here
        return device_type
    finally:
        _reading.device_type = False


# The names that were logged as missing, by class. Not kept on the class: what reads leave there would look like
# something that a hook of the vendor stored.
_logged: Final[weakref.WeakKeyDictionary[type, set[str]]] = weakref.WeakKeyDictionary()
_logging: Final = threading.Lock()


def _answer(target: object, name: str) -> object:
    """Return what torch has under the name, else None after saying so once for each class.

    Args:
        target: a platform, or its class.
        name: the name.

    Raises:
        AttributeError: the platform's class does define the name.
    """
    cls: Any = target if isinstance(target, type) else type(target)
    member = find(cls, name)
    if member is not None and not isinstance(member, TorchName):
        # What the class has under the name has raised AttributeError: a property's body, an unset slot, a
        # mandatory attribute. Python dropped that error on the way here; reading again brings it back.
        return object.__getattribute__(target, name)
    value, reason = _look(target, name)
    if value is not None:
        return value
    with _logging:
        names = _logged.setdefault(cls, set())
        if name in names:
            return None
        names.add(name)
    _logger.warning("%s has no attribute %r, and %s; reading it gives None", cls.__name__, name, reason)
    return None
