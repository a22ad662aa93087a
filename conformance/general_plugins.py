"""The general plugins of the platform's own distribution: vendors make their device known to torch there.

An engine runs every installed one in each of its processes, once, after the platform and before the device.
The process that holds the platform does not: what is judged about imports has to find it without them, and a
runtime that a plugin starts would not survive the fork of a check. They are tried once, in a process that
ends with that, and then each check that an engine would come to after them runs them in its own process.
Plugins of other distributions stay out: what they do is no property of the platform.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from conformance import frames
from conformance.checks._runtime import Runtime
from conformance.engines import own_points
from conformance.engines.base import Adapter
from conformance.engines.scenery import SCENERY
from conformance.isolation.call import describe
from conformance.isolation.died import ChildDied

if TYPE_CHECKING:
    from platform_abc.plugins import Plugin

CHECK: Final = "activation.general-plugins"
"""The check that says what came of the trial; what would run after them does not run if it fails."""

LIMIT: Final = 60.0
"""Seconds for the trial at most."""

_LACKS: Final = frozenset({"MissingDependency", "DeviceUnavailable"})
_NO_LIBRARY: Final = ("cannot open shared object file", "image not found", "DLL load failed")
_ran: list[str] = []


@attrs.frozen
class Trial:
    """What running them in a process of their own showed.

    Args:
        plugin: the value of the one at fault; empty where all ran.
        did: what that one did, which completes the sentence "it …".
        place: `file:line` of that; empty where it cannot be told.
        lacks: what this machine lacks, where that is why it raised.
        missing: the device that is missing once they have run, see `missing_device`.
        started: the runtimes of devices that they have started, `[what, file:line]`.
    """

    plugin: str = ""
    did: str = ""
    place: str = ""
    lacks: str = ""
    missing: str = ""
    started: Sequence[Sequence[str]] = ()


@attrs.frozen
class GeneralPlugins:
    """Those of one platform.

    Args:
        points: in the order in which the engine runs them; `[name, value]`.
        trial: what came of them.
    """

    points: tuple[tuple[str, str], ...] = ()
    trial: Trial = attrs.field(factory=Trial)

    @property
    def to_run(self) -> tuple[tuple[str, str], ...]:
        """Those that checks run: all, where all of them ran when they were tried, else none."""
        return () if self.trial.plugin else self.points

    @property
    def wait(self) -> bool:
        """Say whether there are some to run that have not run in this process."""
        return any(value not in _ran for _, value in self.to_run)


def own(adapter: Adapter, cls: type) -> tuple[tuple[str, str], ...]:
    """The general plugins of the distribution that ships a platform, as far as the user lets them in.

    Reads metadata, imports nothing. A platform that the engine ships has none: its own are no vendor's.

    Returns:
        Name and value of each, in the order in which the engine runs them.
    """
    from platform_abc.plugins import discover  # here, for interpreters that must stay bare import this module

    if adapter.in_tree(cls):
        return ()
    scenery, module = SCENERY[adapter.name], cls.__module__
    ordered = adapter.name == "vllm"
    found = discover([scenery.group, scenery.general], as_found=ordered)
    package = own_points.home(module)
    named = [one for one in found if one.distribution]
    shipping = {one.distribution for one in named if own_points.ships(_distribution(one), module)}
    # Without a list of its files, as where it is installed for editing, a distribution is known by where it leads.
    ours = shipping or {one.distribution for one in named if own_points.leads_into(package, one.value)}
    chosen = [
        (one.name, one.value)
        for one in found
        if one.group == scenery.general and one.distribution in ours and adapter.allows_plugin(one.name)
    ]
    return tuple(dict(chosen).items()) if ordered else tuple(chosen)


def run(points: Iterable[Sequence[str]], tell: Callable[[str], object] = lambda value: None) -> None:
    """Import and call general plugins, as an engine does; each once in a process.

    Args:
        points: name and value of each.
        tell: told the value of each before it is imported, and again before it is called.

    Raises:
        BaseException: whatever one of them raises.
    """
    waiting = [(name, value) for name, value in points if value not in _ran]
    functions: list[tuple[str, Any]] = []
    for name, value in waiting:
        tell(value)
        functions.append((value, importlib.metadata.EntryPoint(name, value, "general").load()))
    for value, function in functions:
        tell(value)
        function()
        _ran.append(value)


def try_out(points: Iterable[Sequence[str]], cls: type, adapter: Adapter, note: Path) -> dict[str, Any]:
    """Run them in this process, which ends with that, and say what came of it, as JSON values.

    Args:
        note: a file for the value of the one that is being run, should this process die.
    """
    kind: object = getattr(cls, "device_type", "")
    runtime = Runtime(kind if isinstance(kind, str) else "")
    raised: dict[str, Any] = {}
    try:
        with adapter.active(cls()):
            run(points, lambda value: note.write_text(value, encoding="utf-8"))
    except BaseException as error:
        raised = {**describe(error), "lacks": _lack(error, cls)}
    return {"raised": raised, "missing": missing_device(cls), "started": runtime.take()}


def understand(told: Mapping[str, Any] | None, died: ChildDied | None, cls: type, note: Path) -> Trial:
    """What a trial was, from its answer, or from how its process died.

    Args:
        told: what `try_out` returned; None if it died.
        died: how, with its last lines.
        cls: the platform.
        note: the file that `try_out` was given.
    """
    value = ""
    with contextlib.suppress(OSError):
        value = note.read_text(encoding="utf-8")
    home = ""
    with contextlib.suppress(TypeError, OSError):
        home = f"{inspect.getfile(cls)}:1"
    if told is None:
        printed = died.output if died is not None else ""
        return Trial(value, _ending(died), frames.place(frames.read(printed), home))
    raised = told["raised"]
    if raised:
        place = frames.place(frames.read(raised["trace"]), home)
        return Trial(value, f"raised {raised['text']}", place, raised["lacks"], started=told["started"])
    return Trial(missing=told["missing"], started=told["started"])


def missing_device(cls: type) -> str:
    """Say which device this process lacks for a platform, as far as torch knows now; empty if it is here.

    The host's processor is always here. Another device is here when `torch.<device_type>` says that it is
    available.
    """
    import torch

    device_type = getattr(cls, "device_type", "")
    if not isinstance(device_type, str) or not device_type or device_type == "cpu":
        return ""
    runtime = getattr(torch, device_type, None)
    if runtime is None:
        return f"a {device_type} device (torch has no torch.{device_type} here)"
    with contextlib.suppress(Exception):
        if runtime.is_available():
            return ""
    return f"a {device_type} device (torch.{device_type} finds none here)"


def without_memory(cls: type) -> str:
    """Say that torch cannot put a tensor on the platform's device, which is then a simulated one; empty if it can.

    Asked of torch's table of kernels, so that no device is started.
    """
    import torch

    table: Any = torch._C  # pyright: ignore[reportPrivateUsage]
    device_type: object = getattr(cls, "device_type", "")
    try:
        mine = device_type == table._get_privateuse1_backend_name()
        if not mine or table._dispatch_has_kernel_for_dispatch_key(
            "aten::empty.memory_format", "PrivateUse1"
        ):
            return ""
    except (AttributeError, RuntimeError):  # a torch that has no such table
        return ""
    return f"a {device_type} device that holds tensors (no kernel of torch allocates on this one)"


def _ending(died: ChildDied | None) -> str:
    """How a plugin ended the process that it ran in, which completes the sentence "it …"."""
    if died is None:
        return "ended the process that it ran in"
    if died.how == "exit":
        return f"ended the process that it ran in, with status {died.detail}"
    if died.how == "timeout":
        return f"had not returned after {died.detail}"
    return f"ended the process that it ran in, which {died}"


def _distribution(plugin: Plugin) -> importlib.metadata.Distribution | None:
    return None if plugin.entry_point is None else plugin.entry_point.dist


def _lack(error: BaseException, cls: type) -> str:
    """What this machine lacks, where that is why a plugin raised; empty where it is no lack."""
    kinds = {one.__name__ for one in type(error).__mro__}
    text = describe(error)["text"]
    if kinds & _LACKS or (
        isinstance(error, ImportError | OSError) and any(one in text for one in _NO_LIBRARY)
    ):
        return str(text)
    if isinstance(error, ModuleNotFoundError) and error.name:
        top = error.name.partition(".")[0]
        if top != cls.__module__.partition(".")[0] and importlib.util.find_spec(top) is None:
            return str(text)
    return ""
