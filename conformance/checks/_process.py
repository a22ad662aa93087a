"""What a hook may not change in the process that runs it: a picture before, one after, and the differences."""

from __future__ import annotations

import concurrent.futures.thread
import locale
import logging
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, Final, cast

import attrs

from conformance.checks._configs import differences
from conformance.context import CheckContext, short

_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD", "SIGALRM", "SIGUSR1", "SIGUSR2")


def settings() -> Mapping[str, str]:
    """What belongs to the process, not to one platform, as text by name."""
    import torch

    default_device: Any = getattr(torch, "get_default_device", lambda: "cpu")
    found = {
        "the working directory": str(Path.cwd()),
        "the locale": locale.setlocale(locale.LC_ALL),
        "torch's default dtype": str(torch.get_default_dtype()),
        "torch's default device": str(default_device()),
        "torch's grad mode": str(torch.is_grad_enabled()),
        "threads that keep the process from ending": _threads(),
    }
    for name in _SIGNALS:
        number: Any = getattr(signal, name, None)
        if number is not None:
            found[f"the handler of {name}"] = short(signal.getsignal(number))
    return found


def habits() -> Mapping[str, str]:
    """What other code of the process sees and a library leaves alone, as text by name."""
    root = logging.getLogger()
    found = {
        "sys.path": short(sys.path, 2000),
        "logging.disable": str(root.manager.disable),
        "the root logger": f"{logging.getLevelName(root.level)} {[type(one).__name__ for one in root.handlers]}",
    }
    catch_all = [
        one[0] for one in warnings.filters if one[1] is None and one[2] is Warning and one[3] is None
    ]
    found["filters for every warning"] = str(catch_all)
    return found


def contents(module: object) -> dict[str, Any]:
    """What a module holds; nothing of what only stands in `sys.modules`, as None does to forbid an import."""
    held: object = getattr(module, "__dict__", None)
    return dict(cast("Mapping[str, Any]", held)) if isinstance(held, Mapping) else {}


def functions(packages: frozenset[str]) -> Mapping[str, object]:
    """The functions in the modules of packages, by dotted name; the modules loaded now only."""
    found: dict[str, object] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages:
            found.update(
                {
                    f"{name}.{key}": one
                    for key, one in contents(module).items()
                    if isinstance(one, FunctionType) and _is_own(one, name)
                }
            )
    return found


def replaced(before: Mapping[str, object]) -> Iterator[str]:
    """Names that were functions of the module itself and are now something else."""
    for name, one in before.items():
        module, _, key = name.rpartition(".")
        if getattr(sys.modules.get(module), key, None) is not one:
            yield name


@attrs.define
class Lent:
    """Functions and methods of the engine and torch that are the platform's code, looked for again and again."""

    ctx: CheckContext
    _seen: set[str] = attrs.field(factory=set[str])

    def __attrs_post_init__(self) -> None:
        self.new()

    @property
    def packages(self) -> frozenset[str]:
        """The packages whose modules are looked at."""
        engine = self.ctx.adapter.base_class().__module__.partition(".")[0]
        return frozenset({"torch", engine, "platforms", "reference_model", "reference_engine"})

    def new(self) -> list[str]:
        """The names that were not there before, sorted; also in modules imported since, and in classes."""
        own = self.ctx.platform_cls.__module__.partition(".")[0]
        packages = self.packages
        found = set[str]() if own in packages else set(_lent(packages, own))
        fresh = found - self._seen
        self._seen |= found
        return sorted(fresh)


def _lent(packages: frozenset[str], lender: str) -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in packages:
            continue
        for key, one in contents(module).items():
            # Never `isinstance`: objects of other people answer for their `__class__`.
            if issubclass(type(one), type) and one.__module__ == name:
                body = cast("Mapping[str, Any]", one.__dict__)
                yield from (f"{name}.{key}.{each}" for each, raw in body.items() if _is_of(raw, lender))
            elif _is_of(one, lender):
                yield f"{name}.{key}"


def _is_of(thing: Any, package: str) -> bool:
    """Say whether a function, method or property is code of a package, wrapped or wrapping."""
    if type(thing) in (classmethod, staticmethod):
        thing = thing.__func__
    elif type(thing) is property:
        thing = thing.fget
    if type(thing) is not FunctionType:
        return False
    places = (thing.__globals__.get("__name__", ""), thing.__module__)
    return any(str(one).partition(".")[0] == package for one in places)


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The differences of two pictures for a sentence; empty where there are none."""
    pairs = differences(before, after).items()
    return "; ".join(f"{name}: {old or 'none'} → {new or 'none'}" for name, (old, new) in pairs)


def _is_own(function: FunctionType, module: str) -> bool:
    return function.__module__ == module


def _threads() -> str:
    pools: Any = getattr(concurrent.futures.thread, "_threads_queues", {})
    return ", ".join(
        sorted(
            one.name
            for one in threading.enumerate()
            if not one.daemon and one.is_alive() and one is not threading.main_thread() and one not in pools
        )
    )
