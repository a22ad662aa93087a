"""Detection: the platform's own detector answers as it must, and resolution in a fresh process picks the class."""

from __future__ import annotations

import contextlib
import importlib
import traceback
from collections.abc import Mapping
from typing import Any, Final

from conformance.checks.loading import SPECIFIED
from conformance.context import CheckContext, describe, kind_of, locate
from conformance.engines.base import Detection
from conformance.model import IMPORTABLE, Finding, Skip, Unsupported, Violation
from conformance.registry import check

_CALLS: Final = 3


def ask_detector(function: str) -> dict[str, Any]:
    """In a fresh interpreter: call a detector a few times.

    Args:
        function: `module:function`.

    Returns:
        `answers` and their `types`, the `error` that it raised, the `place` of that or of the detector,
        `later`, what it answers once torch is there, `doing`, at what it raised, and
        `reached`, whether the detector's own code ran by then.
    """
    module, _, name = function.partition(":")
    said: dict[str, Any] = {
        "answers": [],
        "types": [],
        "later": None,
        "error": "",
        "place": "",
        "reached": True,
        "doing": "importing",
    }
    try:
        detector: Any = importlib.import_module(module)
        for part in name.split("."):
            detector = getattr(detector, part)
        said["doing"] = "calling"
        said["place"] = locate(detector)
        for _ in range(_CALLS):
            answer = detector()
            said["answers"].append(_plain(answer))
            said["types"].append("str" if isinstance(answer, str) else type(answer).__name__)
        said["doing"] = "calling, after torch was imported,"
        with contextlib.suppress(ImportError):
            importlib.import_module("torch")
        said["later"] = _plain(detector())
    except (Exception, SystemExit) as error:
        said["error"] = describe(error)
        frames = [f"{one.filename}:{one.lineno}" for one in traceback.extract_tb(error.__traceback__)]
        inside = [one for one in frames if not one.startswith(f"{__file__}:")]
        said["reached"] = bool(inside)
        said["place"] = inside[-1] if inside else said["place"]
    return said


def _plain(answer: Any) -> str | None:
    """A detector's answer as a JSON value."""
    if answer is None:
        return None
    return str(answer) if isinstance(answer, str) else kind_of(answer)


def _own_detectors(ctx: CheckContext) -> Mapping[str, str]:
    """The detectors that the platform's own package brings; for the engine's platforms, all built-in ones."""
    package = ctx.platform_cls.__module__.partition(".")[0]
    return {
        name: function
        for name, function in ctx.adapter.detectors().items()
        if function.partition(":")[0].partition(".")[0] == package
    }


def _place(function: str) -> str:
    """`file:line` of a detector; its name where it cannot be seen."""
    module, _, name = function.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit):  # detection.detector judges it
        return function
    return locate(found) or function


def _need_detectors(ctx: CheckContext) -> Mapping[str, str]:
    own = _own_detectors(ctx)
    if not own and ctx.adapter.in_tree(ctx.platform_cls):
        raise Unsupported("the engine ships the platform and detects it itself, without an entry point")
    if not own:
        package = ctx.platform_cls.__module__.partition(".")[0]
        raise Skip(
            f"no installed entry point leads into the package {package!r}",
            "install the package that ships the platform, with its entry point for platform plugins, "
            "into this environment",
        )
    return own


def _spellings(ctx: CheckContext) -> tuple[str, str]:
    cls = ctx.platform_cls
    return f"{cls.__module__}.{cls.__qualname__}", f"{cls.__module__}:{cls.__qualname__}"


@check(
    "detection.detector",
    group="resolution",
    needs=(IMPORTABLE,),
    where="fresh",
    why="Every process asks the detector, the winning one twice; an exception counts as 'not this machine'.",
    hint="Return the dotted name of the class, or None; catch what your driver raises.",
)
def detector(ctx: CheckContext) -> None:
    """The detector answers None or text, the same each time, and raises nothing."""
    findings: list[Finding] = []
    says = "A detector returns the platform's dotted name or None, the same each time, and raises nothing."
    for name, function in _need_detectors(ctx).items():
        said = ctx.fresh("conformance.checks.detection:ask_detector", function)
        answers = said["answers"]
        ctx.details[name] = answers
        did = hint = ""
        if said["error"]:
            did = f"{said['doing']} it raised {said['error']}"
            hint = "Import the vendor's library inside the detector, in a try that returns None."
            if said["doing"] != "importing" and not said["reached"]:
                hint = "Let the detector take no arguments: the engine passes none."
        elif any(kind not in ("str", "NoneType") for kind in said["types"]):
            did = f"it returned {answers[0]}"
            hint = 'Return "mypkg.platform.MyPlatform" as a string.'
        elif "" in answers:
            did = "it returned the empty string"
            hint = "Return None where the device is absent."
        elif len(set(answers)) > 1:
            did = f"called {_CALLS} times it returned {', then '.join(map(repr, answers))}"
            hint = "Decide anew at each call, and change nothing that the decision reads."
        elif said["later"] != answers[0]:
            did = f"it returned {answers[0]!r}, and once torch was imported {said['later']!r}"
            hint = "Ask the driver or the machine, not what this process has imported: engines import torch first."
        if did:
            findings.append(
                Finding(
                    contract_says=says,
                    platform_did=did,
                    member=function,
                    location=said["place"] or function,
                    hint=hint,
                )
            )
    if findings:
        raise Violation(*findings)


@check(
    "detection.resolves",
    group="resolution",
    needs=("detection.detector", SPECIFIED),
    where="fresh",
    why="A platform that is not the engine's current one after detection is silently replaced by another.",
    hint="Let the detector return this class's dotted name on a machine with the device.",
)
def resolves(ctx: CheckContext) -> None:
    """In a fresh process the engine's current platform is an instance of the class."""
    own: Mapping[str, str] = {} if ctx.adapter.in_tree(ctx.platform_cls) else _need_detectors(ctx)
    raw = ctx.fresh(ctx.adapter.detect())
    found = Detection(
        resolved=raw["resolved"],
        detectors=raw["detectors"],
        winner=raw["winner"],
        error=raw.get("error", ""),
        errors=raw.get("errors", {}),
    )
    broken = {name: found.errors[name] for name in own if found.errors.get(name)}
    if broken:
        raise Violation(
            *(
                Finding(
                    contract_says="A detector answers while the engine resolves its platform as it does alone.",
                    platform_did=f"called by the engine's resolution it raised {error}, and counts as not active",
                    member=own[name],
                    location=_place(own[name]),
                    hint="Read neither the engine's current platform nor anything that does in the detector.",
                )
                for name, error in broken.items()
            )
        )
    if found.resolved in _spellings(ctx):
        return
    answers = {name: found.detectors.get(name) for name in own or found.detectors}
    ours = [name for name, answer in answers.items() if answer in _spellings(ctx)]
    if not found.resolved and found.winner in own and found.winner not in ours:
        raise Violation(
            Finding(
                contract_says="The dotted name that a detector answers leads to the platform's class.",
                platform_did=f"it answers {answers[found.winner]!r}, and the engine cannot resolve that: "
                f"{found.error}",
                member=own[found.winner],
                location=_place(own[found.winner]),
                hint=f"Correct the name that the detector returns, to {_spellings(ctx)[0]!r} for this class.",
            )
        )
    if not ours:
        raise Skip(
            f"on this machine no detector answers {ctx.qualname} ("
            + ", ".join(f"{name}: {answer or 'None'}" for name, answer in answers.items())
            + ")",
            "run the kit on a machine that has the device",
        )
    others = [name for name, answer in found.detectors.items() if answer and name not in ours]
    if found.error and found.winner not in ours and others:
        raise Skip(
            f"other platforms are active beside it: {', '.join(others)} ({found.error})",
            "uninstall the other platform plugins, or allow only this one in the variable that filters plugins",
        )
    did = found.error or f"it is {found.resolved or 'nothing'}, chosen by {found.winner or 'no detector'}"
    raise ctx.fail(
        "",
        contract_says="Where the detector names the class, a fresh process has an instance of it as its "
        "current platform.",
        platform_did=did,
        hint="Make the class importable in a fresh process, with nothing else imported before it.",
    )
