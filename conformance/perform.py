"""Runs one check's function in the process it is in, and turns what it raised into an answer."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from conformance import frames
from conformance.answers import Answer
from conformance.context import CheckContext
from conformance.isolation.call import describe
from conformance.isolation.died import ChildDied
from conformance.model import Check, Finding, NotRun, Outcome, Skip, Unsupported, Violation
from conformance.places import quoted

_STAY: Final = (
    "Raise an exception there instead, which says what is wrong: no `os._exit`, and no library that ends the process. An "
    "engine that loses a process so can only say that it is gone."
)


def perform(check: Check, context: CheckContext) -> Answer:
    """Run a check and say what became of it.

    An exception that nobody caught is the platform's when the line that raised it lies in the
    platform's own package, or when it is no ordinary exception (`sys.exit`); else it is ours.
    """
    start = time.perf_counter()
    answer = _judge(check, context)
    left = {"left": list(context.left)} if context.left else {}
    return attrs.evolve(answer, details={**context.details, **left}, duration_s=time.perf_counter() - start)


def died_finding(check: Check, died: ChildDied, home: str) -> Finding:
    """The finding for a check in whose process the platform crashed, left or hung.

    Args:
        home: `file:line` of the platform's class.
    """
    stack = frames.read(died.output)
    printed = f"; it printed last:\n{died.output}" if died.output else ""
    return Finding(
        contract_says="The platform's code runs to its end: it returns or raises, in finite time, and "
        "never ends the process.",
        platform_did=f"the process of this check {died}{_leaving(died, stack)}{printed}",
        member=frames.member(stack, check),
        location=frames.place(stack, home) or home,
        hint=_STAY if died.how == "exit" else check.hint,
    )


def _leaving(died: ChildDied, stack: list[frames.Frame]) -> str:
    """Who ended the process, where that is known; for the middle of a sentence."""
    if died.how != "exit" or not stack:
        return ""
    return f": `{stack[0].function}` ended it by `os._exit`{quoted(stack[0].place)}"


def _judge(check: Check, context: CheckContext) -> Answer:
    try:
        if check.after_plugins:
            context.run_plugins()
        check.func(context)
    except Violation as violation:
        return Answer(Outcome.FAIL, violation.findings)
    except Unsupported as answer:
        return Answer(Outcome.UNSUPPORTED, reason=_line(answer))
    except Skip as answer:
        return Answer(Outcome.SKIPPED, reason=_line(answer))
    except NotRun as answer:
        return Answer(Outcome.NOT_RUN, reason=_line(answer))
    except ChildDied as died:
        return _child_died(check, context, died)
    except Exception as error:
        told = describe(error)
        own = _own_files(context)
        if told["files"] and own(told["files"][-1]):
            return _escaped(check, told["text"], told["place"], told["trace"])
        return Answer(
            Outcome.ERROR,
            reason=f"the check raised {told['text']} at {told['place']}",
            traceback=told["trace"],
        )
    except BaseException as error:
        told = describe(error)
        return _escaped(check, told["text"], told["place"], told["trace"])
    return Answer(Outcome.PASS)


def _child_died(check: Check, context: CheckContext, died: ChildDied) -> Answer:
    if died.how != "exception":
        return Answer(Outcome.FAIL, (died_finding(check, died, context.locate()),))
    if _own_files(context)(died.place.rpartition(":")[0]):
        return _escaped(check, died.detail, died.place, died.trace)
    return Answer(Outcome.ERROR, reason=f"a fresh interpreter {died}", traceback=died.trace)


def _escaped(check: Check, text: str, place: str, trace: str) -> Answer:
    """The answer for a check that let what the platform raised pass."""
    finding = Finding(
        contract_says="The platform's code raises nothing here but `NotSupported` for what it does not do.",
        platform_did=f"it raised {text}",
        member=frames.member(frames.read(trace), check),
        location=place or check.id,
        hint=check.hint,
    )
    return Answer(Outcome.FAIL, (finding,), traceback=trace)


def _own_files(context: CheckContext) -> Callable[[str], bool]:
    """A test whether a file belongs to the platform and not to its engine or the kit."""
    try:
        base = context.adapter.base_class()
        engine = {one.__module__ for one in base.__mro__}
    except Exception:
        engine = set[str]()
    files: set[str] = set()
    for cls in context.platform_cls.__mro__:
        if cls.__module__ not in engine and cls.__module__ != "builtins":
            try:
                files.add(str(Path(inspect.getfile(cls)).resolve()))
            except (TypeError, OSError):
                continue
    return lambda file: bool(file) and str(Path(file).resolve()) in files


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
