"""Notes when torch's device runtimes are initialised; the call itself goes on as it would."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_RUNTIMES: Final = ("cuda", "xpu", "mps", "npu", "hpu", "musa", "mtia")
_STARTS: Final = (
    "init",
    "_lazy_init",
    "set_device",
    "current_device",
    "current_stream",
    "synchronize",
    "mem_get_info",
    "empty_cache",
    "get_device_properties",
    "get_device_name",
    "get_device_capability",
    "manual_seed_all",
)
"""What initialises a runtime, in each of them; `is_available` and `device_count` are made not to."""

_PASSIVE: Final = ("empty_cache", "manual_seed_all")
"""Wait until the runtime is there, and do nothing before."""

_NEUTRAL: Final = (
    "current_device_index",
    "set_device_index",
    "set_device_idx",
    "current_stream",
    "synchronize",
    "get_memory_info",
)
"""The same in `torch.accelerator`, which speaks to whichever runtime there is."""


class Runtime:
    """The runtimes of torch in this process, watched from now on.

    Args:
        device_type: of the platform, whose runtime is one of them.
    """

    def __init__(self, device_type: str) -> None:
        self._calls: list[list[str]] = []
        self._before = initialised(device_type)
        self._device_type = device_type
        torch: Any = sys.modules.get("torch")
        self._inside = False
        if torch is None:
            return
        for name in dict.fromkeys((*_RUNTIMES, device_type)):
            module: Any = getattr(torch, name, None) if name != "cpu" else None
            for start in _STARTS:
                if start not in _PASSIVE:
                    self._watch(module, start, f"torch.{name}")
        for start in _NEUTRAL:
            self._watch(getattr(torch, "accelerator", None), start, "torch.accelerator")

    def _watch(self, module: Any, name: str, title: str) -> None:
        held: Any = getattr(module, "__dict__", {})
        original: Any = held.get(name)
        if not callable(original):
            return

        def noted(*args: Any, **kwargs: Any) -> Any:
            self._note(f"{title}.{name}")
            was, self._inside = self._inside, True
            try:
                return original(*args, **kwargs)
            finally:
                self._inside = was

        setattr(module, name, functools.update_wrapper(noted, original))

    def _note(self, name: str) -> None:
        if not self._inside:
            self._calls.append([name, _caller()])

    def take(self) -> list[list[str]]:
        """What has initialised a runtime since the last time: `[what, file:line]`, each once."""
        said = [one for number, one in enumerate(self._calls) if one not in self._calls[:number]]
        self._calls.clear()
        now = initialised(self._device_type)
        said += [[f"torch.{name}", ""] for name in now if name not in self._before and not said]
        self._before = now
        return said


def initialised(device_type: str) -> list[str]:
    """The runtimes of torch that say that they are initialised."""
    torch: Any = sys.modules.get("torch")
    found: list[str] = []
    for name in dict.fromkeys((*_RUNTIMES, device_type)) if torch is not None else ():
        ask: Callable[[], object] | None = getattr(getattr(torch, name, None), "is_initialized", None)
        if name == "cpu" or not callable(ask):
            continue
        try:
            if ask() is True:
                found.append(name)
        except Exception:  # noqa: S112  a runtime that cannot be asked is not initialised
            continue
    return found


def _caller() -> str:
    """`file:line` of the innermost frame outside this module and torch."""
    torch: Any = sys.modules.get("torch")
    folder = str(Path(str(getattr(torch, "__file__", "torch"))).parent)
    for frame in reversed(traceback.extract_stack()):
        if frame.filename != __file__ and not frame.filename.startswith((folder, "<frozen")):
            return f"{frame.filename}:{frame.lineno}"
    return ""
