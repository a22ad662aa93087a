"""Pictures of a process before and after vendors' code has run in it, and what differs, in words.

The module imports the standard library alone, so that what it looks at is not its own doing.
"""

from __future__ import annotations

import builtins
import functools
import logging
import multiprocessing
import os
import re
import signal
import sys
import sysconfig
import tempfile
import threading
import types
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import attrs

_CODE: Final = (types.FunctionType, types.BuiltinFunctionType, type(functools.cache(lambda: None)))
_METHODS: Final = (types.FunctionType, classmethod, staticmethod, property)
_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGSEGV")
_SYSTEM: Final = ("warnings", "os", "sys", "builtins", "subprocess", "threading", "multiprocessing", "socket")
_UNSET: Final = "level NOTSET, handlers []"
_ADDRESS: Final = re.compile(r"@[0-9a-f]+")
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING: Final = frozenset(
    {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate"}
)
_PLAIN_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_PLAIN_FOLDERS: Final = ("/dev/pts/", "/dev/shm/", "/dev/mqueue/")  # noqa: S108
_MANY: Final = 4


@attrs.frozen
class Picture:
    """What other code of a process relies on.

    Args:
        env: the variables.
        logs: the root logger and every other one, as text by name.
        settings: what belongs to the whole process, as text by name.
        code: functions, classes and modules by the place that holds them.
        modules: the names of all modules.
    """

    env: Mapping[str, str]
    logs: Mapping[str, str]
    settings: Mapping[str, str]
    code: Mapping[tuple[str, str], object]
    modules: frozenset[str]


def take(tops: Iterable[str]) -> Picture:
    """Take a picture.

    Args:
        tops: the packages whose functions and classes are looked at, beside the standard library's.
    """
    return Picture(dict(os.environ), _logs(), _settings(), _code(frozenset(tops)), frozenset(sys.modules))


def env_changes(before: Picture, after: Picture) -> dict[str, list[str | None]]:
    """The variables that differ: name -> value before and after, None where it is unset."""
    names = {*before.env, *after.env}
    return {
        name: [before.env.get(name), after.env.get(name)]
        for name in sorted(names)
        if before.env.get(name) != after.env.get(name)
    }


def log_changes(before: Picture, after: Picture, own: Iterable[str], engine: Iterable[str]) -> list[str]:
    """What was changed of loggers that were there before and are not the vendor's own, in words.

    Args:
        own: the vendor's packages.
        engine: the engine's packages, whose loggers are there before anybody has asked for them.
    """
    mine, theirs = frozenset(own), frozenset(engine)
    said: list[str] = []
    off: list[str] = []
    for name, new in after.logs.items():
        top = name.partition(".")[0]
        old = before.logs.get(name, _UNSET if top in theirs else new)
        if new == old or top in mine or _is_default(name, old, new):
            continue
        if new == f"{old}, disabled" or new.replace(", disabled", "") == old:
            off.append(name)
        elif _ADDRESS.sub("", old) == _ADDRESS.sub("", new):
            said.append(f"{name}: its handlers are replaced ({_ADDRESS.sub('', new)})")
        else:
            said.append(f"{name}: {_ADDRESS.sub('', old)} → {_ADDRESS.sub('', new)}")
    if off:
        said.append(f"{len(off)} loggers that were there are disabled ({', '.join(off[:2])}, …)")
    return _some(said)


def setting_changes(before: Picture, after: Picture) -> list[str]:
    """What was changed of the process's settings, in words."""
    return _some(
        [
            f"{name}: {old} → {after.settings.get(name, 'gone')}"
            for name, old in before.settings.items()
            if after.settings.get(name, old) != old
        ]
    )


def code_changes(before: Picture, after: Picture) -> list[str]:
    """The functions, classes and modules that something else has replaced, in words."""
    said: list[str] = []
    for (holder, name), old in before.code.items():
        new = after.code.get((holder, name))
        if new is old or _is_submodule(holder, name, new):
            continue
        by = ".".join(filter(None, (getattr(new, "__module__", ""), getattr(new, "__qualname__", ""))))
        by = by or getattr(new, "__name__", type(new).__name__)
        said.append(f"{holder}.{name} is {'gone' if new is None else f'replaced by {by}'}")
    return _some(said)


def _some(said: list[str]) -> list[str]:
    rest = len(said) - _MANY
    return said if rest <= 0 else [*said[:_MANY], f"and {rest} more"]


# ------------------------------------------------------------------------------------------- code


def _code(tops: frozenset[str]) -> dict[tuple[str, str], object]:
    found: dict[tuple[str, str], object] = {}
    for name, module in list(sys.modules.items()):
        if name in _SYSTEM or name.startswith("logging") or name.partition(".")[0] in tops:
            found.update(_of_module(name, module))
    return found


def _of_module(name: str, module: object) -> Iterator[tuple[tuple[str, str], object]]:
    held: Any = getattr(module, "__dict__", None)
    items: Any = held.items() if hasattr(held, "items") else ()
    for key, value in list[tuple[str, Any]](items):
        kind = cast(
            "Any", type(value)
        )  # never `isinstance`: objects of other people answer for their `__class__`
        is_class = issubclass(kind, type)
        if kind in _CODE or is_class or kind is types.ModuleType:
            yield (name, key), value
        body: Any = value.__dict__ if is_class else {}
        if body.get("__module__") == name and module is not builtins:
            for member, raw in list[tuple[str, Any]](body.items()):
                if type(raw) in _METHODS:
                    yield (f"{name}.{key}", member), raw


def _is_submodule(holder: str, name: str, new: object) -> bool:
    """Say whether a name is new code's only because a module of that name was imported since."""
    return isinstance(new, types.ModuleType) and new.__name__ == f"{holder}.{name}"


# ---------------------------------------------------------------------------------------- logging


def _logs() -> dict[str, str]:
    manager = logging.root.manager
    found = {
        "logging itself": f"disabled up to {manager.disable}, class {_name(logging.getLoggerClass())}, "
        f"records by {_name(logging.getLogRecordFactory())}",
        "the root logger": _logger(logging.root),
    }
    for name, one in list(manager.loggerDict.items()):
        found[name] = _logger(one) if isinstance(one, logging.Logger) else _UNSET
    return found


def _logger(one: logging.Logger) -> str:
    handlers = [f"{type(handler).__name__}@{id(handler):x}" for handler in one.handlers]
    return (
        f"level {logging.getLevelName(one.level)}, handlers [{', '.join(handlers)}]"
        f"{', disabled' if one.disabled else ''}{'' if one.propagate else ', not propagating'}"
        f"{f', {len(one.filters)} filters' if one.filters else ''}"
    )


def _is_default(name: str, old: str, new: str) -> bool:
    """Say whether a call like `logging.warning()` gave the root logger Python's own default handler."""
    handlers = logging.root.handlers
    return (
        name == "the root logger"
        and "handlers []" in old
        and new.partition(",")[0] == old.partition(",")[0]
        and len(handlers) == 1
        and type(handlers[0]) is logging.StreamHandler
        and getattr(handlers[0].formatter, "_fmt", "") == logging.BASIC_FORMAT
    )


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', thing)}"


# --------------------------------------------------------------------------------------- settings


def _settings() -> dict[str, str]:
    found = {
        "the working directory": str(Path.cwd()),
        "sys.path": " ".join(sys.path),
        "sys.excepthook": _name(sys.excepthook),
        "threading.excepthook": _name(threading.excepthook),
        "sys.stdout": f"{type(sys.stdout).__name__}@{id(sys.stdout):x}",
        "sys.stderr": f"{type(sys.stderr).__name__}@{id(sys.stderr):x}",
        "the recursion limit": str(sys.getrecursionlimit()),
        "multiprocessing's start method": str(multiprocessing.get_start_method(allow_none=True)),
        "warning filters that hold for every module": str(_wide_filters()),
    }
    for name in _SIGNALS:
        number: Any = getattr(signal, name, None)
        if number is not None:
            found[f"the handler of {name}"] = _name(signal.getsignal(number))
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_default_dtype"):
        found["torch's default dtype"] = str(torch.get_default_dtype())
        found["torch's default device"] = str(getattr(torch, "get_default_device", lambda: "cpu")())
        found["torch's grad mode"] = str(torch.is_grad_enabled())
        found["torch's threads"] = str(torch.get_num_threads())
        found["torch's deterministic algorithms"] = str(torch.are_deterministic_algorithms_enabled())
    return found


def _wide_filters() -> list[str]:
    """The warning filters that name neither a text nor a module of their own."""
    return [
        f"{action} {category.__name__}"
        for action, message, category, module, _ in warnings.filters
        if message is None and module is None and category in (Warning, UserWarning, FutureWarning)
    ]


def threads() -> list[str]:
    """The names of the Python threads beside the main one."""
    return sorted(
        one.name for one in threading.enumerate() if one.is_alive() and one is not threading.main_thread()
    )


def resident() -> int:
    """Bytes of memory that this process holds; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_devices() -> list[str]:
    """The device nodes that this process holds open, beside those that every process may."""
    found: set[str] = set()
    try:
        open_files = list(Path("/proc/self/fd").iterdir())
    except OSError:
        return []
    for file in open_files:
        try:
            target = str(file.readlink())
        except OSError:
            continue
        if (
            target.startswith("/dev/")
            and target not in _PLAIN_DEVICES
            and not target.startswith(_PLAIN_FOLDERS)
        ):
            found.add(target)
    return sorted(found)


# ------------------------------------------------------------------------------------------ files


class Files:
    """Notes which files of the working directory and of installed packages are written from now on."""

    def __init__(self) -> None:
        self._on = False
        self._written: dict[str, str] = {}
        self._here = str(Path.cwd())
        places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path} - {""}
        self._installed = tuple(sorted({os.path.realpath(one) for one in places if Path(one).is_dir()}))
        self._passing = tuple(
            {
                os.path.realpath(os.environ.get(name) or other)
                for name, other in (("TMPDIR", "/tmp"), ("XDG_CACHE_HOME", "/var/tmp"))  # noqa: S108
            }
            | {os.path.realpath(tempfile.gettempdir())}
        )
        sys.addaudithook(self._see)

    def start(self) -> None:
        """Begin to note."""
        self._on = True

    def stop(self) -> list[str]:
        """End, and say what was written."""
        self._on = False
        here = os.path.realpath(self._here) + os.sep
        return _some(
            [
                f"{what} {path.removeprefix(here)} in the working directory"
                if path.startswith(here)
                else f"{what} {path}"
                for path, what in self._written.items()
            ]
        )

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._on or not arguments:
            return
        if event == "open":
            path, mode, flags = (*arguments, None, None, None)[:3]
            writes = set(mode) & set("wax+") if isinstance(mode, str) else int(flags or 0) & _WRITING
            if writes and (isinstance(mode, str) or _is_absolute(path)):
                self._note(path, "wrote")
        elif event in _CHANGING and (arguments[-1] == -1 or _is_absolute(arguments[0])):
            self._note(arguments[0], event.removeprefix("os.") + " of")  # -1: not relative to an open folder

    def _note(self, path: Any, what: str) -> None:
        if isinstance(path, int):
            return  # a descriptor that is open already
        self._on = False  # what follows opens nothing, but may be seen by other hooks
        real = os.path.realpath(Path(self._here, os.fsdecode(path)))
        own = real.startswith(os.path.realpath(self._here) + os.sep)
        passing = "__pycache__" in real or any(_inside(real, one) for one in self._passing)
        if own or (not passing and any(_inside(real, one) for one in self._installed)):
            self._written.setdefault(real, what)
        self._on = True


def _is_absolute(path: Any) -> bool:
    return not isinstance(path, int) and Path(os.fsdecode(path)).is_absolute()


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)
