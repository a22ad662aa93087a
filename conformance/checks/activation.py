"""Activation: a detector only looks and leaves the process as it was; a general plugin runs to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from conformance.checks._shown import TIMEOUT, activations, need_detectors, raise_all, shown
from conformance.context import CheckContext
from conformance.engines.scenery import SCENERY
from conformance.general_plugins import CHECK
from conformance.model import Finding, Skip, Unsupported, Violation
from conformance.places import quoted
from conformance.registry import check

_DETECTOR: Final = "detection.detector"


def _finding(function: str, left: Mapping[str, Any], *, says: str, did: str, hint: str) -> Finding:
    return Finding(
        contract_says=says, platform_did=did, member=function, location=left["at"] or function, hint=hint
    )


@check(
    "activation.engine-imports",
    group="resolution",
    needs=(_DETECTOR,),
    where="fresh",
    timeout=TIMEOUT,
    why="The engine asks detectors while it is still being imported: a part of it that a detector imports then fails "
    "or changes the order of its imports.",
    hint="Let the detector import nothing of the engine but its platform interface; work belongs into the hooks.",
)
def engine_imports(ctx: CheckContext) -> None:
    """Importing and calling the detector imports no part of the engine that the platform itself does not need."""
    scenery = SCENERY[ctx.adapter.name]
    findings: list[Finding] = []
    for function, moment, left, seen in activations(ctx):
        needed = set(seen.said("module")["modules"])
        extra = [
            name
            for name in left["modules"]
            if name.partition(".")[0] in scenery.tops
            and name not in needed
            and not scenery.is_interface(name)
        ]
        if extra:
            shown_names = ", ".join(extra[:4]) + (f" and {len(extra) - 4} more" if len(extra) > 4 else "")
            findings.append(
                _finding(
                    function,
                    left,
                    says="A detector only says whether the platform applies; of the engine it may import "
                    f"{scenery.interface}, and what the platform's own module imports.",
                    did=f"{moment} imported {shown_names}",
                    hint="Remove that import from the detector and from the modules that it imports; do what needs it in a "
                    "hook (`pre_register_and_update`, `import_kernels`) or a general plugin.",
                )
            )
    raise_all(findings)


@check(
    "activation.patches",
    group="resolution",
    needs=(_DETECTOR,),
    where="fresh",
    timeout=TIMEOUT,
    why="Every process asks every installed detector, also on machines of others: what it replaces is replaced "
    "for all.",
    hint="Replace nothing of torch, the engine or Python in a detector or in a module that it imports.",
)
def patches(ctx: CheckContext) -> None:
    """Importing and calling the detector replaces no function or class of torch, the engine or Python."""
    raise_all(
        [
            _finding(
                function,
                left,
                says="A detector only looks: functions and classes of torch, the engine and Python stay what "
                "they are.",
                did=f"after {moment}, {'; '.join(left['code'])}",
                hint="Remove the assignment; put what differs into your worker and components. Where a patch must be, "
                "apply it in a hook, after your platform was chosen.",
            )
            for function, moment, left, _ in activations(ctx)
            if left["code"]
        ]
    )


@check(
    "activation.logging",
    group="resolution",
    needs=(_DETECTOR,),
    where="fresh",
    timeout=TIMEOUT,
    why="A detector that configures logging silences or doubles the messages of the engine and of the user.",
    hint="Log through `logging.getLogger(__name__)`, and configure no logger but your own.",
)
def logs(ctx: CheckContext) -> None:
    """Importing and calling the detector changes no logger but the vendor's own."""
    raise_all(
        [
            _finding(
                function,
                left,
                says="Logging is the user's: a plugin configures its own loggers only.",
                did=f"after {moment}, {'; '.join(left['logs'])}",
                hint="Remove the calls that do that: basicConfig, dictConfig (which disables other loggers unless told not "
                "to), setLevel and addHandler on loggers that are not yours.",
            )
            for function, moment, left, _ in activations(ctx)
            if left["logs"]
        ]
    )


@check(
    "activation.environment",
    group="resolution",
    needs=(_DETECTOR,),
    where="fresh",
    timeout=TIMEOUT,
    why="Variables are the user's and are inherited by every process; a detector runs also where its device "
    "is not.",
    hint="Leave a variable that is set as it is (os.environ.setdefault), and the engine's variables alone.",
)
def environment(ctx: CheckContext) -> None:
    """Importing and calling the detector changes no variable that is set, and none of the engine's where it says no."""
    seen = shown(ctx)
    engine = SCENERY[ctx.adapter.name].variables
    findings: list[Finding] = []
    for name, function in need_detectors(ctx, seen).items():
        said = seen.said(f"activate {name}")
        changes = {**said["loading"]["env"], **said.get("calling", {}).get("env", {})}
        lost = [
            f"{one}: {old} → {new or 'unset'}" for one, (old, new) in changes.items() if _is_lost(old, new)
        ]
        user = f"activate {name} of a user"
        kept: Mapping[str, str | None] = seen.said(user)["users"] if seen.has(user) else {}
        lost += [f"{one}, which a user had set, → {new or 'unset'}" for one, new in kept.items()]
        foreign = [
            f"{one} is set to {new!r}"
            for one, (old, new) in changes.items()
            if said["answer"] is None and old is None and one.startswith(engine)
        ]
        did = "; ".join([*lost, *(f"{one}, although it returned None" for one in foreign)])
        if did:
            findings.append(
                Finding(
                    contract_says="A detector changes no variable that is set. Where it returns None it also sets none of "
                    "the engine's variables.",
                    platform_did=f"after importing and calling it, {did}",
                    member=function,
                    location=said["place"] or function,
                    hint="Move what sets the engine's variables into a config hook; os.environ.setdefault does not help "
                    "there. For a variable of your own, write os.environ.setdefault(…)."
                    if foreign
                    else "Write os.environ.setdefault(…), so that what the user had set stays.",
                )
            )
    raise_all(findings)


@check(
    CHECK,
    group="resolution",
    after_plugins=False,  # it says what came of them when they were tried
    why="Every process of every engine runs them before it comes to the device, also on machines of others: one "
    "that fails leaves the device unknown, or ends the process.",
    hint="Let `python -c 'import m; m.function()'` work in a fresh interpreter, with the module and the function of the "
    "entry point.",
)
def general(ctx: CheckContext) -> None:
    """The general plugins that the platform's distribution publishes run to their end, once the platform is there."""
    if ctx.adapter.in_tree(ctx.platform_cls):
        raise Unsupported("the engine ships the platform, and no general plugin with it")
    if ctx.stubs:
        raise Unsupported(f"no general plugin runs while stand-ins take the place of {', '.join(ctx.stubs)}")
    points, trial = ctx.plugins.points, ctx.plugins.trial
    if not points:
        raise Unsupported("no installed distribution that ships the platform publishes a general plugin")
    ctx.details["general_plugins"] = [value for _, value in points]
    if trial.lacks:
        raise Skip(
            f"the general plugin {trial.plugin} needs what is not here: {trial.lacks}",
            "install it, or run the kit where it is",
        )
    if trial.plugin:
        raise Violation(
            Finding(
                contract_says="A general plugin returns, in each process of the engine, in moments: it neither raises "
                "nor ends the process.",
                platform_did=f"run after the platform was there, in a process of its own, the general plugin "
                f"{trial.plugin} {trial.did}{quoted(trial.place)}",
                member=trial.plugin,
                location=trial.place or trial.plugin,
                hint="Change that line. Where the plugin cannot do its work on this machine, let it log that and return: "
                "engines run it on every machine that has the distribution.",
            )
        )


def _is_lost(old: str | None, new: str | None) -> bool:
    """Say whether a value that was set is not there any more, also not as a part."""
    return old is not None and (new is None or old not in new)


@check(
    "activation.process-settings",
    group="resolution",
    needs=(_DETECTOR,),
    where="fresh",
    timeout=TIMEOUT,
    why="Folders, files, signals, warning filters and torch's defaults serve all code of the process.",
    hint="Let the detector only read.",
)
def settings(ctx: CheckContext) -> None:
    """Importing and calling the detector changes no setting of the process, and writes no file beside its own."""
    findings: list[Finding] = []
    for function, moment, left, _ in activations(ctx):
        did = [*left["settings"], *left["files"]]
        if did:
            findings.append(
                _finding(
                    function,
                    left,
                    says="A detector changes no setting of the process and writes no file of the working "
                    "directory or of installed packages.",
                    did=f"after {moment}, {'; '.join(did)}",
                    hint="Remove what does that, or do it in the worker; write files into a cache or temporary folder.",
                )
            )
    raise_all(findings)
