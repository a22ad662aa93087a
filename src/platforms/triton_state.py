"""Whether Triton's kernels can run here, and why not: the one place that decides it.

Kernels run where Triton is installed and one of its drivers is active on the device in question, or where
its interpreter stands in for a device. Nothing is imported until that is asked.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, cast

from platforms.common import is_installed

TritonKind = Literal["cpu", "cuda", "hip", "xpu"]
"""Whose kernels are meant, as torch tells devices apart."""

INTERPRETER_VARIABLE: Final = "TRITON_INTERPRET"
"""Set to 1 before Triton is imported, its kernels run as Python on the host."""

_BACKENDS: Final[Mapping[str, tuple[str, ...]]] = {
    "cpu": ("cpu",),
    "cuda": ("nvidia",),
    "hip": ("amd",),
    "xpu": ("intel", "xpu"),
}
"""Triton's own names of its backends, by kind."""


class TritonState(NamedTuple):  # cheap to define: the first read of `current_platform` imports this
    """Whether kernels run.

    Args:
        usable: they do.
        interpreted: they run in Triton's interpreter, slowly, on tensors of the host.
        why: what decided it, as a phrase.
    """

    usable: bool
    interpreted: bool
    why: str


class _Driver(Protocol):
    def is_active(self) -> bool: ...


class _Backend(Protocol):
    @property
    def driver(self) -> _Driver: ...


def triton_state(kind: TritonKind) -> TritonState:
    """Return whether Triton's kernels run on a kind of device.

    The answer is kept for the process; a forked child, and a process whose interpreter variable has changed
    since, ask anew.

    Args:
        kind: the device.
    """
    return _state(kind, os.getpid(), os.environ.get(INTERPRETER_VARIABLE, ""))


def interpreted() -> bool:
    """Say whether kernels run in Triton's interpreter in this process."""
    return triton_state("cpu").interpreted


@functools.cache
def _state(kind: TritonKind, process: int, variable: str) -> TritonState:
    del process  # in the key only
    if not is_installed("triton"):
        return _no("Triton is not installed (pip install 'platform-abc[triton]')")
    named = [name for name in _BACKENDS[kind] if name in _installed_backends()]
    # Its import takes a third of a second, which a host that will not use it need not wait for.
    if not (named or variable or "triton" in sys.modules):
        return _no(f"this Triton has no backend for {kind}")
    try:
        language = importlib.import_module("triton.language")
        backends = cast(
            "Mapping[str, _Backend]", vars(importlib.import_module("triton.backends")).get("backends", {})
        )
    except Exception as error:  # noqa: BLE001  (a broken installation raises anything)
        return _no(f"Triton cannot be imported: {type(error).__name__}: {error}")
    # Set too late, the variable would give kernels that run as Python and call compiled ones.
    if type(vars(language).get("sum")).__name__ == "InterpretedFunction":
        if not is_installed("numpy"):
            return _no("Triton's interpreter needs numpy (pip install 'platform-abc[triton]')")
        return TritonState(True, True, f"{INTERPRETER_VARIABLE} was set when Triton was imported")
    return _compiled(kind, {name: backends[name] for name in named if name in backends})


def _compiled(kind: TritonKind, backends: Mapping[str, _Backend]) -> TritonState:
    reasons: list[str] = []
    for name, backend in backends.items():
        try:
            if backend.driver.is_active():
                return TritonState(True, False, f"the Triton driver {name} is active")
        except Exception as error:  # noqa: BLE001  (drivers load libraries of the system)
            reasons.append(f"the Triton driver {name} failed: {type(error).__name__}: {error}")
        else:
            reasons.append(f"the Triton driver {name} finds no device")
    return _no("; ".join(reasons) or f"this Triton has no backend for {kind}")


def _installed_backends() -> set[str]:
    """Return the names of the backends beside the installed Triton, without importing it."""
    found = {entry.name for entry in importlib.metadata.entry_points(group="triton.backends")}
    spec = importlib.util.find_spec("triton")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        found.update(path.parent.name for path in Path(folder, "backends").glob("*/driver.py"))
    return found


def _no(why: str) -> TritonState:
    return TritonState(False, False, why)
