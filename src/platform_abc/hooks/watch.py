"""A watch over a process: which hook runs there, and whether it ever ends.

A thread looks at the stacks of the watched threads some times a second. So a call of a hook costs nothing,
whoever makes it, and a hook that hangs is named. What it cannot do: see native code that keeps the interpreter
for itself (for a child, its parent does, see `silence`); interrupt native code that waits outside the main thread,
or in the main thread where the user has a SIGINT handler of their own; or end a hook that goes on after an interrupt.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import CodeType, FrameType, MethodType
from typing import Any, Final, cast

import attrs

from platform_abc.components.worker import WorkerBase
from platform_abc.errors import ConfigError
from platform_abc.foreign import describe
from platform_abc.hooks.calls import owner
from platform_abc.hooks.silence import StackFile
from platform_abc.members import MEMBERS

TICK_SECONDS: Final = 0.2
"""Time between two looks."""

_LOOKS_BETWEEN: Final = 5
"""The members of the platform are looked up once in so many looks."""

WAITS: Final = frozenset({"stateless_init_device_torch_dist_pg"})
"""Members that wait for other processes, which may take their time; a call has a limit of its own."""

_FRAMES_SHOWN: Final = 12

_MAY_WAIT: Final = sys.version_info >= (3, 12)
"""An exception may wait for a thread that is in native code. While one does, CPython 3.11 lets no thread that is
traced (by a debugger, by coverage) enter a function."""

_STEPS_TO_ARRIVE: Final = 100
"""So many turns of a loop are enough for an exception that was raised in this thread from outside."""


class EngineFailed(RuntimeError):
    """The engine cannot go on; the text says which process failed, and of what."""


class HookHung(EngineFailed):
    """A hook did not return in time; the text says which one, and in which process."""


def member_codes(platform: object) -> dict[CodeType, str]:
    """Return the code of each member of a platform -> the member's name.

    Args:
        platform: an instance.

    A code that stands for several members, such as that of a shared wrapper, is left out; what it wraps is in.
    """
    found: dict[CodeType, str] = {}
    shared: set[CodeType] = set()
    for name in MEMBERS:
        for kind in (kind for kind in type(platform).__mro__ if name in vars(kind)):
            for code in _codes(vars(kind)[name]):
                if found.setdefault(code, name) != name:
                    shared.add(code)
    return {code: name for code, name in found.items() if code not in shared}


def _codes(member: object) -> Iterator[CodeType]:
    """Yield the code of a member, and that of what it wraps: by a decorator, a cache or a partial call."""
    seen: list[object] = []
    while member is not None and not any(member is one for one in seen):
        seen.append(member)
        if inspect.isfunction(member):
            yield member.__code__
        member = _inside(member)


def _inside(member: object) -> object:
    holds: Any = member  # what it holds is of a type that checkers cannot say
    if isinstance(member, (classmethod, staticmethod, MethodType)):
        return cast("object", holds.__func__)
    if isinstance(member, property):
        return member.fget
    if isinstance(member, (functools.partial, functools.partialmethod, functools.cached_property)):
        return cast("object", member.func)
    return inspect.getattr_static(member, "__wrapped__", None)


def who_raised(error: BaseException, platform: object) -> str:
    """Return the hook of a platform that an exception has passed first, or else the method of a worker.

    Empty where it was neither: also for a `ConfigError`, which tells what the user wrote, in a worker, and for what
    the user's own handler of a signal raises wherever it finds the program.

    Args:
        error: with its traceback.
        platform: of this process; None where it has none yet.
    """
    codes = member_codes(platform)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    if any(frame.f_code in handlers for frame in frames):
        return ""
    for frame in frames:
        if frame.f_code in codes:
            return owner(platform, codes[frame.f_code])
    for frame in frames:
        worker, method = frame.f_locals.get("self"), frame.f_code.co_name
        if (
            isinstance(worker, WorkerBase)
            and method in vars(WorkerBase)
            and not isinstance(error, ConfigError)
        ):
            return f"{method} of {type(worker).__name__}"
    return ""


def said(error: BaseException) -> str:
    """Return what an exception says, without its kind, also where its own `__str__` raises."""
    return describe(error).removeprefix(f"{type(error).__name__}: ")


@attrs.define
class _Thread:
    """A watched thread: the call of a hook that was seen last, and since when."""

    frame: FrameType | None = None
    name: str = ""
    since: float = 0.0
    missed: int = 0
    until: float | None = None
    limit: float = 0.0
    hung: str = ""

    def look(self, frame: FrameType | None, name: str, now: float) -> float:
        """Take note of the outermost hook on the stack; seconds that this call of it has been seen."""
        if frame is None and self.missed < 1:
            # The stack may have been cut short by a function that was just returning.
            self.missed += 1
        elif frame is not self.frame:
            self.frame, self.name, self.since = frame, name, now
        if frame is not None:
            self.missed = 0
        return now - self.since if self.frame is not None and frame is not None else 0.0


class HookWatch:
    """Watches threads of this process.

    Args:
        process: its name, for messages.
        seconds: longest time that a hook may take.
        platform: returns the platform of this process; None while there is none.
        on_hang: told of a hook that hangs, or of a call past its limit, from the watch's own thread.
        interrupts: the watched thread gets an exception too, which ends the hook where that is possible.
        stacks: where the stacks go when native code keeps the interpreter, or crashes; see `silence`.
    """

    def __init__(
        self,
        process: str,
        seconds: float,
        platform: Callable[[], object],
        on_hang: Callable[[str], None],
        *,
        interrupts: bool = False,
        stacks: Path | None = None,
    ) -> None:
        self.process = process
        self.seconds = seconds
        self._platform = platform
        self._on_hang = on_hang
        self._interrupts = interrupts
        self._threads: dict[int, _Thread] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._stacks = None if stacks is None else StackFile(stacks, seconds)
        if self._stacks is not None:
            self._stacks.take_crashes()
        threading.Thread(target=self._run, name="hook watch", daemon=True).start()

    def close(self) -> None:
        """End the watch."""
        self._ended.set()

    @contextlib.contextmanager
    def watching(self) -> Generator[None]:
        """Watch this thread within a `with` block.

        Raises:
            HookHung: a hook hung and was interrupted.
        """
        number = threading.get_ident()
        if number in self._threads:
            yield
            return
        with self._lock:
            mine = self._threads[number] = _Thread()
        try:
            yield
        except BaseException as error:
            # Whatever it is, after a hang it only follows from it: the engine may be closed by now.
            if not mine.hung:
                raise
            raise HookHung(mine.hung) from error
        finally:
            with self._lock:
                del self._threads[number]
            if self._interrupts and mine.hung:
                _take_late_interrupt(number)
        if mine.hung:
            raise HookHung(mine.hung)

    @contextlib.contextmanager
    def naming(self) -> Generator[None]:
        """Name the hook, or the method of a worker, in whatever it raises within the `with` block.

        Ctrl-C is nobody's doing, and passes.

        Raises:
            EngineFailed: it raised what is meant to end an interpreter.
        """
        try:
            yield
        except BaseException as error:
            where = who_raised(error, self._platform())
            in_main = threading.current_thread() is threading.main_thread()
            if not where or (isinstance(error, KeyboardInterrupt) and in_main):
                raise
            if not isinstance(error, Exception):
                raise EngineFailed(f"{where} raised {describe(error)}, in the {self.process}") from error
            if not any(where in note for note in getattr(error, "__notes__", ())):
                error.add_note(f"raised in {where}")
            raise

    @contextlib.contextmanager
    def limited(self, seconds: float) -> Generator[None]:
        """Give up, and say where, if the `with` block in a watched thread has not ended in time."""
        mine = self._threads[threading.get_ident()]
        mine.limit, mine.until = seconds, time.monotonic() + seconds
        try:
            yield
        finally:
            mine.until = None

    def _run(self) -> None:
        codes: dict[CodeType, str] = {}
        looks = 0
        while not self._ended.wait(TICK_SECONDS):
            if not codes or looks % _LOOKS_BETWEEN == 0:
                # Members may be replaced while an engine runs, but seldom.
                codes = member_codes(self._platform())
            looks += 1
            if self._stacks is not None and codes:
                waits = {code: name for code, name in codes.items() if name not in WAITS}
                self._stacks.renew(type(self._platform()).__name__, waits)
            # The documented way to other threads' stacks, in spite of its name.
            stacks = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
            with self._lock:
                told = [
                    text
                    for number, one in self._threads.items()
                    if (text := self._look(number, one, stacks.get(number), codes))
                ]
            del stacks
            for text in told:
                self._on_hang(text)

    def _look(self, number: int, one: _Thread, stack: FrameType | None, codes: dict[CodeType, str]) -> str:
        """Look at one thread; what there is to tell, which is told once."""
        now = time.monotonic()
        hook = _outermost(stack, codes)
        lasted = one.look(hook, codes[hook.f_code] if hook is not None else "", now)
        late = one.until is not None and now > one.until
        if one.hung or not (late or lasted > self.seconds):
            if one.hung and self._interrupts and hook is one.frame and hook is not None:
                _interrupt(number)  # it has caught the first one
            return ""
        where = "".join(
            traceback.format_stack(stack, limit=_FRAMES_SHOWN) if stack is not None else ()
        ).rstrip()
        what = (
            f"{owner(self._platform(), one.name)} did not return within {self.seconds:g} s"
            if lasted > self.seconds
            else f"no end within {one.limit:g} s"
        )
        one.hung = f"the {self.process} process hangs: {what}; it was here:\n{where}"
        if self._interrupts:
            _interrupt(number)
        return one.hung


def _outermost(stack: FrameType | None, codes: dict[CodeType, str]) -> FrameType | None:
    found: FrameType | None = None
    while stack is not None:
        if stack.f_code in codes and codes[stack.f_code] not in WAITS:
            found = stack
        stack = stack.f_back
    return found


def _interrupt(number: int) -> None:
    """Raise an exception in a thread: as Ctrl-C does, which also ends waiting, or between two steps of Python."""
    if takes_signals(number):
        signal.pthread_kill(number, signal.SIGINT)
    elif _MAY_WAIT or sys.gettrace() is None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(number), ctypes.py_object(HookHung))


def takes_signals(number: int) -> bool:
    """Say whether an interrupt reaches a thread whatever it does: the main one, where Ctrl-C is Python's own."""
    is_main = number == threading.main_thread().ident
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _take_late_interrupt(number: int) -> None:
    """Take what was raised while the hook was just ending, so that it does not end something else.

    The watch raises nothing more in this thread; what it has raised arrives within a few steps. It is not taken
    back, since CPython 3.11 would go on looking for it, see `_MAY_WAIT`.
    """
    with contextlib.suppress(KeyboardInterrupt, HookHung):
        for _ in range(_STEPS_TO_ARRIVE):
            pass
        if takes_signals(number):
            time.sleep(0.01)
