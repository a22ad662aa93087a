"""Runs in every process of a booted engine: notes what is asked of the platform, and what it does then.

Each process appends lines of JSON to a file of its own, so that nothing is lost when it dies.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import inspect
import json
import logging
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn

FOLDER: Final = "CONFORMANCE_BOOT"
"""Names the folder of the run; no process records anything without it."""
FRONT: Final = "CONFORMANCE_BOOT_FRONT"
"""The id of the process in which the user's own code would run."""

FRONT_END: Final = "front end"
ENGINE_CORE: Final = "engine core"
WORKER: Final = "worker"
INSPECTION: Final = "model inspection"

DUMP: Final = getattr(signal, "SIGUSR2", None)
"""The signal on which a process writes down where all its threads stand."""

_INSPECTOR: Final = "vllm.model_executor.models.registry"
_LONGEST: Final = 600
_CONFIG_HOOKS: Final = ("apply_config_platform_defaults", "check_and_update_config")
_ENGINES: Final = frozenset({"vllm", "platform_abc", "platforms", "reference_model", "reference_engine"})
_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_STARTS: Final = frozenset({"subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"})
_MAPS: Final = "mmap.__new__"
_SHARED: Final = "/dev/shm/"  # noqa: S108  where Linux shows shared memory
_write = os.write
_leave = os._exit  # pyright: ignore[reportPrivateUsage]


class _Process(threading.local):
    """What this thread of this process is doing."""

    depth = 0


_now = _Process()
_files: dict[int, int] = {}
_starts: list[str] = []


def role() -> str:
    """Which process of the engine this is, in the contract's words."""
    if os.environ.get(FRONT) == str(os.getpid()):
        return FRONT_END
    if _INSPECTOR in sys.orig_argv:
        return INSPECTION
    name = multiprocessing.current_process().name.lower()
    if "worker" in name:
        return WORKER
    return ENGINE_CORE if "core" in name else f"process {name!r}"


def note(name: str, what: str, **facts: Any) -> None:
    """Write one line: what happened to which member or step, in which process, and when."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    pid = os.getpid()
    line = {"t": time.time(), "pid": pid, "process": role(), "name": name, "what": what, **facts}
    with contextlib.suppress(OSError):
        if pid not in _files:
            _open(folder, pid)
        _write(_files[pid], (json.dumps(line, default=repr) + "\n").encode())


def _open(folder: str, pid: int) -> None:
    """Start the files of a process, which may be a fork of one that has its own."""
    _files.clear()
    _files[pid] = os.open(f"{folder}/events-{pid}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    stacks = os.open(f"{folder}/stacks-{pid}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if DUMP is not None and hasattr(faulthandler, "register"):
        faulthandler.register(DUMP, file=stacks, all_threads=True)


def watch_errors(logger: str) -> None:
    """Note every exception that the engine reports on a logger, with where it was raised."""
    handler = _Errors(level=logging.ERROR)
    logging.getLogger(logger).addHandler(handler)


class _Errors(logging.Handler):
    """Notes exceptions."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            note(record.name, "error", **told(record.exc_info[1]))


def told(error: BaseException) -> dict[str, Any]:
    """An exception as JSON values: its kind, its text, those behind it, and the frames that it passed.

    The frames are `file:line:function`, outermost first.
    """
    chain: list[str] = []
    frames: list[str] = []
    kinds: list[str] = []
    missing = ""
    one: BaseException | None = error
    while one is not None and len(chain) < 8:
        chain.append(line_of(one))
        kinds += [kind.__name__ for kind in type(one).__mro__[:-2]]
        frames += frames_of(one.__traceback__)
        # An engine may hand on what another of its processes raised as text, traceback included.
        frames += [":".join(found) for found in _FRAME.findall(str(one))]
        if isinstance(one, ModuleNotFoundError):
            missing = str(one.name or "")
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return {"text": chain[0], "chain": chain, "kinds": kinds, "frames": frames[-200:], "missing": missing}


def line_of(error: BaseException) -> str:
    """An exception in one line."""
    try:
        # What another process raised may come with its traceback; the frames are told apart.
        text = " ".join(str(error).partition("\nTraceback (most recent call last)")[0].split())
    except Exception as second:
        text = f"(its text raises {type(second).__name__})"
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def frames_of(trace: TracebackType | None) -> list[str]:
    """The frames of a traceback, outermost first."""
    return [
        f"{frame.f_code.co_filename}:{line}:{frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(trace)
    ]


# -------------------------------------------------------------------------------- the platform


def own_places(cls: type) -> tuple[str, ...]:
    """What the paths of the platform's own files begin with: its package, or its one file.

    Of a platform that an engine ships it is the folder that holds the class.
    """
    module = cls.__module__
    top = module.partition(".")[0]
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    folders: Iterable[str] = getattr(sys.modules.get(top), "__path__", ())
    if top in _ENGINES:
        return (f"{Path(file).parent}{os.sep}",)
    return tuple(f"{folder}{os.sep}" for folder in folders) or (file,)


def watch(cls: type, snapshot: Callable[[Any], Mapping[str, Any]]) -> None:
    """Note each call of a member of a platform's class; what a member asks of its own platform is not noted.

    The members are replaced on the class itself, so that its type, its name and its state stay as they are.

    Args:
        cls: the platform's class.
        snapshot: flattens a config.
    """
    own = own_places(cls)
    for name in dir(cls):
        raw: Any = inspect.getattr_static(cls, name)
        function: Any = getattr(raw, "__func__", raw)
        if name.startswith(("_", "is_")) or not callable(function) or isinstance(function, type):
            continue
        watched = _watched(name, function, own, snapshot)
        kind: Any = _method_kind(raw)
        if kind is None and not inspect.isfunction(raw):
            continue  # some object that happens to be callable
        with contextlib.suppress(Exception):  # a metaclass that lets nobody write to the class
            setattr(cls, name, watched if kind is None else kind(watched))
    sys.addaudithook(_start_noter(own))
    os._exit = _noted_exit  # pyright: ignore[reportPrivateUsage]


def _method_kind(raw: object) -> Any:
    """`classmethod` or `staticmethod`; None for a plain function and for anything else."""
    return next((one for one in (classmethod, staticmethod) if type(raw) is one), None)


def _watched(
    name: str,
    function: Callable[..., Any],
    own: tuple[str, ...],
    snapshot: Callable[[Any], Mapping[str, Any]],
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if _now.depth:
            return function(*args, **kwargs)
        _now.depth += 1
        config: Any = args[-1] if name in _CONFIG_HOOKS and args else kwargs.get("vllm_config")
        flat = _flatten(name, config, snapshot)
        note(name, "call", caller=_own_caller(own), config=flat)
        try:
            answer = function(*args, **kwargs)
        except BaseException as error:
            note(name, "raise", **told(error))
            raise
        finally:
            _now.depth -= 1
        note(name, "return", config=_flatten(name, config, snapshot))
        return answer

    watched = functools.update_wrapper(call, function)
    for extra in ("cache_clear", "cache_info"):
        if hasattr(function, extra):
            setattr(watched, extra, getattr(function, extra))
    return watched


def _flatten(name: str, config: Any, snapshot: Callable[[Any], Mapping[str, Any]]) -> dict[str, str] | None:
    if name not in _CONFIG_HOOKS:
        return None
    try:
        return {path: repr(value)[:200] for path, value in snapshot(config).items()}
    except Exception:
        return None  # a half-made config; the run itself goes on


def _own_caller(own: tuple[str, ...]) -> str:
    """The innermost frame of the platform's own files that led to this call; empty if none did."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code.co_filename.startswith(own):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _start_noter(own: tuple[str, ...]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that notes each process that the platform's own code starts, and shared memory that is mapped."""

    def note_start(event: str, args: tuple[Any, ...]) -> None:
        if event in _STARTS:
            frames = _callers()
            if any(one.partition(":")[0].startswith(own) for one in frames):
                note(event, "starts", frames=frames)
        elif event == _MAPS:
            name = _file_of(args[0])
            if name.startswith(_SHARED):
                note(event, "maps", frames=_callers(), memory=name)

    return note_start


def _file_of(descriptor: object) -> str:
    """The path behind a descriptor; empty where there is none to be seen."""
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        return ""


def _noted_exit(status: int = 0) -> NoReturn:
    """Leave as `os._exit` does, and say from where."""
    note("os._exit", "exit", status=status, frames=_callers())
    _leave(status)


def _callers() -> list[str]:
    """The frames that led to the caller, outermost first."""
    frames = traceback.walk_stack(sys._getframe(2))  # pyright: ignore[reportPrivateUsage]
    return [f"{frame.f_code.co_filename}:{line}:{frame.f_code.co_name}" for frame, line in frames][::-1]
