"""Detection: the platform's own detectors answer as they must, and resolution in a fresh process picks the class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from conformance.checks._shown import TIMEOUT, Shown, need_detectors, raise_all, shown
from conformance.checks.loading import SPECIFIED
from conformance.context import CheckContext
from conformance.engines.base import Detection
from conformance.model import IMPORTABLE, Finding, Skip, Unsupported, Violation
from conformance.registry import check

_BARE: Final = "in a fresh process"
_THERE: Final = "in a process that has imported the engine's platforms, numpy, torch and transformers"
_ASK_MACHINE: Final = (
    "Ask the driver or the machine, not what this process has imported: engines import torch and more first."
)
_WHOLE: Final = "in a process that has imported the whole engine"


def _spellings(ctx: CheckContext) -> tuple[str, str]:
    cls = ctx.platform_cls
    return f"{cls.__module__}.{cls.__qualname__}", f"{cls.__module__}:{cls.__qualname__}"


@check(
    "detection.detector",
    group="resolution",
    needs=(IMPORTABLE,),
    where="fresh",
    timeout=TIMEOUT,
    why="Every process asks the detector, the winning one twice; an exception counts as 'not this machine'.",
    hint="Return the dotted name of the class, or None; catch what your driver raises.",
)
def detector(ctx: CheckContext) -> None:
    """The detector answers None or text, the same each time, and raises nothing."""
    seen = shown(ctx)
    findings: list[Finding] = []
    for name, function in need_detectors(ctx, seen).items():
        asked = [(_BARE, seen.scenes[f"ask {name}"])]
        if f"crowded {name}" in seen.scenes:
            asked.append((_THERE, seen.scenes[f"crowded {name}"]))
        again = seen.scenes.get("entries", {}).get("said", {}).get("asked_again", {}).get(name)
        if again is not None:
            asked.append((_WHOLE, {"said": again}))
        ctx.details[name] = asked[0][1].get("said", {}).get("answers")
        wrong = _wrong_alone(asked) or _wrong_together(asked)
        if wrong:
            did, hint = wrong
            place = next((told["said"]["place"] for _, told in asked if told.get("said")), "")
            place = next((told["said"]["place"] for _, told in asked if _raised(told)), place)
            findings.append(
                Finding(
                    contract_says="A detector is a function without arguments: it returns the platform's "
                    "dotted name or None, the same each time and whatever was imported before, and raises "
                    "nothing.",
                    platform_did=did,
                    member=function,
                    location=place or seen.places.get(name) or function,
                    hint=hint,
                )
            )
    raise_all(findings)


def _raised(told: Mapping[str, Any]) -> bool:
    return bool(told.get("said", {}).get("error"))


def _wrong_alone(asked: list[tuple[str, Mapping[str, Any]]]) -> tuple[str, str] | None:
    """What is wrong in one process, the first of them, and what to do."""
    for where, told in asked:
        if "died" in told:
            return (
                f"{where} the process that asks it {told['died']}",
                "Let the detector only look: it neither ends the process nor waits for a device.",
            )
        if "raised" in told:
            raise RuntimeError(f"{told['raised']} at {told['place']}")
        said = told["said"]
        answers = said["answers"]
        if said["error"]:
            return f"{where}, {said['doing']} it raised {said['error']}", _remedy(said)
        if not said["callable"]:
            return (
                f"the entry point leads to an object of type {said['types'][0]}, which cannot be called",
                "Let the entry point name a function: `name = package.module:function`.",
            )
        if any(kind not in ("str", "NoneType") for kind in said["types"]):
            return f"{where} it returned {answers[0]}", 'Return "mypkg.platform.MyPlatform" as a string.'
        if "" in answers:
            return f"{where} it returned the empty string", "Return None where the device is absent."
        if len(set(answers)) > 1:
            return (
                f"{where}, called {len(answers)} times, it returned {', then '.join(map(repr, answers))}",
                "Decide anew at each call, and change nothing that the decision reads.",
            )
    return None


def _remedy(said: Mapping[str, Any]) -> str:
    error: str = said["error"]
    if said["doing"] == "importing" and not said["reached"]:
        return (
            "Correct the entry point, or package the module that it names: `name = package.module:function`."
        )
    if said["doing"] == "importing":
        return (
            "Let the module of the detector import nothing that may be absent: import the vendor's library "
            "inside the function, in a try that returns None."
        )
    if not said["reached"]:
        return "Let the detector take no arguments: the engine passes none."
    if error.startswith(("ImportError", "ModuleNotFoundError")):
        return "Import the vendor's library in a try that returns None; package every module that it imports."
    return "Catch what the driver raises (`except Exception`), and return None."


def _wrong_together(asked: list[tuple[str, Mapping[str, Any]]]) -> tuple[str, str] | None:
    """What is wrong between processes, and what to do."""
    first = asked[0][1]["said"]["answers"][0]
    for where, told in asked[1:]:
        if told["said"]["answers"][0] != first:
            return (
                f"{_BARE} it returned {first!r}, and {where} {told['said']['answers'][0]!r}",
                _ASK_MACHINE,
            )
    return None


@check(
    "detection.resolves",
    group="resolution",
    needs=("detection.detector", "activation.engine-imports", SPECIFIED),
    where="fresh",
    timeout=TIMEOUT,
    why="A platform that is not the engine's current one after detection is silently replaced by another.",
    hint="Let the detector return this class's dotted name on a machine with the device.",
)
def resolves(ctx: CheckContext) -> None:
    """In a fresh process the engine's current platform is an instance of the class."""
    seen = shown(ctx)
    in_tree = ctx.adapter.in_tree(ctx.platform_cls)
    own: Mapping[str, str] = {} if in_tree else need_detectors(ctx, seen)
    raw = seen.said("resolve")
    found = Detection(
        resolved=raw["resolved"],
        detectors=raw["detectors"],
        winner=raw["winner"],
        error=raw.get("error", ""),
        errors=raw.get("errors", {}),
    )
    if found.resolved in _spellings(ctx) and _resolved_early(ctx, seen):
        return  # import-order.plugin-first names it: the package itself resolves the platform
    _refuse_broken(own, found, seen, nested=int(raw.get("nested", 0)))
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
                location=_place(seen, found.winner),
                hint=f"Return {_spellings(ctx)[0]!r} from the detector.",
            )
        )
    if not ours:
        raise Skip(
            f"on this machine no detector answers {ctx.qualname} ("
            + ", ".join(f"{name}: {answer or 'None'}" for name, answer in answers.items())
            + ")",
            "run the kit on a machine that has the device",
        )
    _skip_neighbours(ctx, found, ours, in_tree=in_tree)
    did = found.error or f"it is {found.resolved or 'nothing'}, chosen by {found.winner or 'no detector'}"
    hint = "Make the class importable in a fresh process, with nothing else imported before it."
    if len(ours) > 1:
        hint = f"Remove one of the {len(ours)} entry points ({', '.join(ours)}): one answers for the class."
    raise ctx.fail(
        "",
        location=seen.places.get(ours[-1], "") if len(ours) > 1 else "",
        contract_says="Where the detector names the class, a fresh process has an instance of it as its "
        "current platform.",
        platform_did=did,
        hint=hint,
    )


def _resolved_early(ctx: CheckContext, seen: Shown) -> bool:
    """Say whether the import of the plugin's package makes the engine choose another platform."""
    first = seen.scenes.get("package first", {}).get("said", {})
    return first.get("during", "") not in ("", ctx.qualname)


def _refuse_broken(own: Mapping[str, str], found: Detection, seen: Shown, *, nested: int) -> None:
    """Fail for detectors that raise when the engine asks, or that make it resolve inside its resolution.

    Raises:
        Violation: there is such a one.
    """
    findings = [
        Finding(
            contract_says="A detector answers while the engine resolves its platform as it does alone.",
            platform_did=f"called by the engine's resolution it raised {found.errors[name]}, and counts as "
            "not active",
            member=own[name],
            location=_place(seen, name),
            hint="Read neither the engine's current platform nor anything that does in the detector.",
        )
        for name in own
        if found.errors.get(name)
    ]
    if not findings and nested and own:
        name = next(iter(own))
        findings.append(
            Finding(
                contract_says="The current platform is resolved once: nothing that resolution itself runs asks "
                "for it.",
                platform_did=f"while the engine resolved its platform, resolution was entered again, "
                f"{nested} deep: the detector, or a module that it or the platform imports, reads "
                "current_platform",
                member=own[name],
                location=_place(seen, name),
                hint="Read current_platform in functions that run later, not in the detector and not in the "
                "body of a module that it or the platform imports.",
            )
        )
    raise_all(findings)


def _skip_neighbours(ctx: CheckContext, found: Detection, ours: list[str], *, in_tree: bool) -> None:
    """Skip where another distribution's platform is active too, or wins as it has to.

    Raises:
        Skip: it is.
    """
    if len(ours) > 1 and not in_tree:
        return
    others = [name for name, answer in found.detectors.items() if answer and name not in ours]
    beaten = in_tree and found.winner in others
    if (found.error and found.winner not in ours and others) or beaten:
        raise Skip(
            f"other platforms are active beside it: {', '.join(others)}"
            + (f" ({found.error})" if found.error else f"; {found.winner} wins"),
            "uninstall the other platform plugins, or allow only this one in the variable that filters plugins",
        )


def _place(seen: Shown, name: str) -> str:
    """`file:line` of a detector; its name where it cannot be seen."""
    said = seen.scenes.get(f"ask {name}", {}).get("said", {})
    return said.get("place") or seen.places.get(name) or seen.own[name]


@check(
    "detection.says-no",
    group="resolution",
    needs=("detection.detector",),
    where="fresh",
    timeout=TIMEOUT,
    why="A plugin that claims a machine without its device stops every engine there, also those for other devices.",
    hint="Look for the device or its library in the detector, and return None where it is not there.",
)
def says_no(ctx: CheckContext) -> None:
    """Where the vendor's library is absent the detector says no, and raises nothing."""
    seen = shown(ctx)
    findings: list[Finding] = []
    judged: list[str] = []
    for name, function in need_detectors(ctx, seen).items():
        activated = seen.said(f"activate {name}")
        finding = _claims_device(ctx, function, activated)
        if finding is None and f"absent {name}" in seen.scenes:
            judged.append(name)
            gone = ", ".join(sorted({*activated["libraries"], *activated["needed"]}))
            finding = _claims_library(function, seen.scenes[f"absent {name}"], gone, activated["place"])
        if finding is not None:
            findings.append(finding)
    raise_all(findings)
    if not judged:
        raise Unsupported(
            "neither the detector nor the platform imports an installed library of the vendor's, so that "
            "none can be taken away"
        )


def _claims_device(ctx: CheckContext, function: str, activated: Mapping[str, Any]) -> Finding | None:
    """The finding where the detector says yes and torch's own runtime says that there is no such device."""
    import torch

    device_type: object = getattr(ctx.platform_cls, "device_type", "")
    runtime: Any = getattr(torch, device_type, None) if device_type in ("cuda", "xpu", "mps") else None
    if activated["answer"] not in _spellings(ctx) or runtime is None or runtime.is_available():
        return None
    return Finding(
        contract_says="A detector says yes only where the device is.",
        platform_did=f"it returned {activated['answer']!r} on this machine, where "
        f"torch.{device_type}.is_available() is False",
        member=function,
        location=activated["place"] or function,
        hint="Return None where the device cannot be found, by its library or its device files.",
    )


def _claims_library(function: str, told: Mapping[str, Any], gone: str, place: str) -> Finding | None:
    """The finding where a detector does not bear that a library is absent."""
    hint = "Import the library in the detector, in a try whose `except Exception` returns None."
    if "died" in told:
        did = f"with {gone} not installed, the process that asks it {told['died']}"
    else:
        said = told["said"]
        did = ""
        if said["error"]:
            did = f"with {gone} not installed, {said['doing']} it raised {said['error']}"
            place = said["place"] or place
        elif said["platform"]:
            did = (
                f"with {gone} not installed it returned {said['answers'][0]!r}, and importing that platform "
                f"raised {said['platform']}"
            )
            hint = (
                "Look for the library in the detector (importlib.util.find_spec), and return None without it."
            )
        if not did:
            return None
    return Finding(
        contract_says="On a machine without the vendor's library the detector returns None and raises nothing.",
        platform_did=did,
        member=function,
        location=place or function,
        hint=hint,
    )


@check(
    "detection.broken-library",
    group="resolution",
    severity="should",
    needs=("detection.says-no",),
    where="fresh",
    timeout=TIMEOUT,
    why="A library that is there and does not load raises OSError, and a driver that is not loaded an error "
    "of its own; the user then sees a traceback instead of the reason.",
    hint="Catch `Exception` around the library's import and its calls, and return None.",
)
def broken_library(ctx: CheckContext) -> None:
    """Where the vendor's library is there but broken the detector raises nothing."""
    seen = shown(ctx)
    findings: list[Finding] = []
    judged = False
    for name, function in need_detectors(ctx, seen).items():
        library = ", ".join(seen.said(f"activate {name}").get("libraries", ()))
        for how, words in (
            ("broken", f"where importing {library} raises OSError (a shared object of it is missing)"),
            ("refusing", f"where every function of {library} raises (its driver is not loaded)"),
        ):
            said = seen.scenes.get(f"{how} {name}", {}).get("said")
            judged = judged or said is not None
            if said is not None and said["error"]:
                findings.append(
                    Finding(
                        contract_says="A detector raises nothing, also where the library of the device is "
                        "broken.",
                        platform_did=f"{words}, {said['doing']} it raised {said['error']}",
                        member=function,
                        location=seen.said(f"activate {name}")["place"] or function,
                        hint="Catch `Exception`, not only `ImportError`, around the import and the calls of "
                        "the library, and return None.",
                    )
                )
    raise_all(findings)
    if not judged:
        raise Unsupported("the detector imports no installed library of the vendor's")
