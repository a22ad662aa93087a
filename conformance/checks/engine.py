"""The engine for real: it boots on the platform, generates the same in every layout, and leaves nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from conformance.checks._boots import MANY, ONE, Booted, Frame, booted, frames_of
from conformance.context import CheckContext, locate, short
from conformance.engines.boot import PROMPTS, TOKENS
from conformance.model import Finding, Level, NotRun, Violation
from conformance.places import quoted
from conformance.registry import check
from conformance.remedies import instead

_WORKER: Final = "parallel_config.worker_cls"
_STEP: Final = "execute_model"
_HOOKS: Final = ("apply_config_platform_defaults", "check_and_update_config")

BOOTS: Final = (
    "platform.instantiable",
    "platform.specified",
    "identity.enum",
    "identity.device-name",
    "identity.texts",
    "identity.device-type",
    "identity.torch-device",
    "fallback.property-errors",
    "fallback.engine-calls",
    "members.mandatory",
    "members.kinds",
    "members.engine-calls",
    "members.common-path",
    "config.plain",
    "config.startup-hooks",
    "config.pre-register",
    "config.worker-cls",
    "config.worker-cls-importable",
    "config.valid",
    "config.block-size",
    "config.engine-accepts",
    "config.process-settings",
    "config.requests",
    "pickers.attn-backend.importable",
    "pickers.attn-backend.surface",
    "pickers.attn-backend.parts",
    "pickers.attn-backend.facts",
    "pickers.signatures",
    "pickers.complete",
    "pickers.kv-cache-builder.importable",
    "pickers.kv-cache-builder.surface",
    "pickers.pass-manager.importable",
    "pickers.pass-manager.surface",
    "pickers.compile-backend",
    "kernels.imports",
    "kernels.weight-loader",
    "kernels.forward-context",
    "capabilities.answers",
    "capabilities.fp8",
    "device.answers",
    "device.capability",
    "device.dtypes",
    "device.set-device",
    "device.seed",
)
"""Checks whose failure explains that an engine does not boot."""

WORKS: Final = (
    "worker.start",
    "worker.config-kept",
    "worker.memory",
    "worker.steps",
    "worker.chunks",
)
"""Checks whose failure explains that an engine of our own generates something else, or nothing."""

SPREADS: Final = (
    "config.check-idempotent",
    "config.defaults-idempotent",
    "config.picklable",
    "config.class-state",
    "config.module-state",
    "config.environment-stable",
    "device.process-group",
    "spawn.worker-agrees",
)
"""Checks whose failure explains that an engine does not run with worker processes."""


@check(
    "engine.in-process",
    group="device",
    level=Level.ENGINE,
    needs=(*BOOTS, *WORKS),
    where="fresh",
    why="Users start the engine to generate: what fails here fails in their runs.",
    hint="Run the engine on the platform yourself, in one process, and correct what it reports.",
)
def in_process(ctx: CheckContext) -> None:
    """The engine boots in one process and generates tokens, the same ones whenever it is asked again."""
    judge_tokens(booted(ctx, ONE))


@check(
    "engine.processes",
    group="device",
    level=Level.ENGINE,
    needs=(*BOOTS, *WORKS, *SPREADS),
    where="fresh",
    why="Engines run their workers in processes of their own, where only the config and the class are known.",
    hint="Let every hook follow from the config, the environment and the class, in whatever process it runs.",
)
def processes(ctx: CheckContext) -> None:
    """The engine boots with worker processes, and its core ends up with the config of its front end."""
    try:
        run = booted(ctx, MANY)
        judge_tokens(run)
        judge_drift(run)
    except Violation:
        # Both boots run beside each other; what one process shows as well is told once.
        if not _generates_alone(ctx):
            raise NotRun("engine.in-process failed, see there") from None
        raise


def _generates_alone(ctx: CheckContext) -> bool:
    try:
        judge_tokens(booted(ctx, ONE))
    except Violation:
        return False
    return True


@check(
    "engine.same-tokens",
    group="device",
    level=Level.ENGINE,
    needs=("engine.in-process", "engine.processes"),
    where="fresh",
    why="Whoever tests in one process and serves with several must get the same model.",
    hint="Let nothing that decides a token depend on the process: seeds, weights, the choice of kernels.",
)
def same_tokens(ctx: CheckContext) -> None:
    """Worker processes generate the tokens that one process generates."""
    alone, spread = booted(ctx, ONE), booted(ctx, MANY)
    for prompt, here, there in zip(PROMPTS, alone.answer["first"], spread.answer["first"], strict=True):
        if here != there:
            raise of_worker(
                spread,
                says="The tokens do not depend on how the engine is spread over processes.",
                did=f"the prompt {short(prompt)} gave {there}; in one process it gave {here}",
                hint="Remove from `execute_model` of the worker, and from what it calls, what depends on the process: a "
                "module global, a random number, a variable that only the front end sets, a test which process or which "
                "`distributed_executor_backend` it is.",
            )


@check(
    "engine.timeline",
    group="device",
    level=Level.ENGINE,
    severity="should",
    needs=("engine.in-process", "engine.processes"),
    where="fresh",
    why="A hook that the platform's own code calls at another moment meets an engine that is not ready for it.",
    hint="Leave it to the engine to call hooks.",
)
def timeline(ctx: CheckContext) -> None:
    """Hooks run in the processes, as often and in the order that the contract's timeline says."""
    found: list[Finding] = []
    others: list[str] = []
    for layout in (ONE, MANY):
        run = booted(ctx, layout)
        for sentence in deviations(run):
            caller = _own_caller(run, sentence)
            if not caller:
                others.append(f"{run.how}: {sentence}")
                continue
            name = sentence.partition(" ran ")[0]
            found.append(
                ctx.finding(
                    name,
                    contract_says="Hooks run when the engine calls them, at the moments of the timeline.",
                    platform_did=f"{run.how}, {sentence}; the platform's own code at {caller} led to it",
                    hint=f"Remove that call of `{name}`, or what makes a config there: a config that is made anew runs the "
                    "config hooks.",
                    location=caller,
                )
            )
    if others:
        ctx.details["timeline"] = others
    if found:
        raise Violation(*found)


@check(
    "engine.stops",
    group="device",
    level=Level.ENGINE,
    needs=("engine.in-process", "engine.processes", "worker.shutdown"),
    where="fresh",
    why="What an engine leaves behind holds the device, and the next one does not start.",
    hint="End what you start: threads as daemons, processes with their parent, shared memory with its owner.",
)
def stops(ctx: CheckContext) -> None:
    """A closed engine leaves no process and no shared memory, and its interpreter ends."""
    for layout in (ONE, MANY):
        judge_end(booted(ctx, layout))


# --------------------------------------------------------------------------------- judgements


def judge_tokens(run: Booted) -> None:
    """Judge what was generated: whole, in the vocabulary, finite, the same again, alone and continued.

    Raises:
        Violation: it is not.
    """
    answer = run.answer
    first: Sequence[Any] = answer["first"]
    for prompt, tokens in zip(PROMPTS, first, strict=True):
        if isinstance(tokens, str):
            raised = [one for one in run.events("raise") if one["text"].partition(": ")[2] in tokens]
            event: Mapping[str, Any] = raised[0] if raised else {}
            frame = run.own(frames_of(event.get("frames", ())))
            raise run.fail(
                event.get("name", "validate_request"),
                f"an ordinary request was refused: {tokens}{quoted(frame.place) if frame else ''} (the prompt was "
                f"{len(prompt)} tokens, without text)",
                f"Change that line{instead(event.get('text', ''))}; raise `ValueError` only for what the device cannot "
                "do.",
                place=frame.place if frame else "",
            )
        if len(tokens) != TOKENS or not all(0 <= token < answer["vocabulary"] for token in tokens):
            raise of_worker(
                run,
                did=f"the prompt {short(prompt)} gave {tokens}, expected {TOKENS} tokens below "
                f"{answer['vocabulary']}",
                hint="Let the worker return for each request the index of the next token, once a step.",
            )
    if answer.get("finite") is False:
        raise of_worker(
            run,
            did="the logits are not finite, and every token is 0",
            hint="Look for an overflow or memory that is read before it is written, in the attention first.",
        )
    wanted = {"again": "asked again", "alone": "asked for alone"} if answer.get("exact", True) else {}
    for name, how in {**wanted, "again": "asked again"}.items():
        _same(run, first, answer.get(name), how, whole=True)
    if answer.get("exact"):
        _same(run, [tokens[TOKENS // 2 :] for tokens in first], answer.get("rest"), "continued", whole=False)


_SAME: Final = {
    "asked again": "Remove from `execute_model` of the worker, and from what it calls, what one step keeps for another: "
    "an answer of the step before, a counter, a random number, a buffer that is read before it is filled.",
    "asked for alone": "Compute each request of a batch from its own tokens and `block_ids` alone: in "
    "`execute_model` of the worker, and in the attention, no request may write to the blocks of another.",
    "continued": "Write the keys and values of a prompt to the same cache slots as those of single tokens: "
    "look at the slots that `execute_model` of the worker and the attention compute.",
}
"""What to do where the same prompt gives other tokens, by how it was asked the second time."""


def _same(run: Booted, first: Sequence[Any], other: Any, how: str, *, whole: bool) -> None:
    if other is None:
        return
    for prompt, tokens, again in zip(PROMPTS, first, other, strict=True):
        if tokens != again:
            part = "" if whole else f" after its first {TOKENS // 2} tokens had been put to the prompt"
            raise of_worker(
                run,
                says="The same prompt gives the same tokens: greedy decoding depends on the tokens before "
                "and on nothing else.",
                did=f"the prompt {short(prompt)} gave {tokens} in a batch, and {again} when {how}{part}",
                hint=_SAME[how],
            )


def of_worker(run: Booted, *, did: str, hint: str, says: str = "") -> Violation:
    """A violation that names the worker class, which computes the tokens."""
    name = next(
        (
            str(event["config"].get(_WORKER, "")).strip("'")
            for event in reversed(run.events("return"))
            if event.get("config")
        ),
        "",
    )
    place = ""
    try:
        cls = run.ctx.adapter.resolve(name) if name else None
        owner = next((one for one in getattr(cls, "__mro__", ()) if _STEP in vars(one)), None)
        if owner is not None and not run.ctx.adapter.in_tree(owner):
            name, place = f"{name}.{_STEP}", locate(vars(owner)[_STEP])
        else:
            place = locate(cls)
    except Exception:
        place = ""  # another check judges the name
    return run.fail(
        name or "worker_cls",
        did,
        hint,
        place=place or run.ctx.locate("check_and_update_config"),
        **({"says": says} if says else {}),
    )


def judge_drift(run: Booted) -> None:
    """Compare what the config hooks left in the front end with what they left in the engine core.

    Raises:
        Violation: the second call changed a field away from what the first had left.
    """
    findings: list[Finding] = []
    for hook in _HOOKS:
        calls = [event for event in run.events("call") if event["name"] == hook and event.get("config")]
        ends = [event for event in run.events("return") if event["name"] == hook and event.get("config")]
        if len(calls) < 2 or len(ends) < 2:
            continue
        first, before, after = ends[0]["config"], calls[-1]["config"], ends[-1]["config"]
        moved = _moved(first, before, after)
        if moved:
            told = "; ".join(f"{path}: {old} → {new}" for path, (old, new) in list(moved.items())[:3])
            findings.append(
                run.ctx.finding(
                    hook,
                    contract_says=f"`{hook}` runs again in the engine core, on the config that it has already "
                    "changed, and then changes nothing more.",
                    platform_did=f"after its call in {run.process(ends[-1]['process'])} the config differs from "
                    f"that of the front end: {told}",
                    location=run.ctx.locate_write(hook, next(iter(moved))),
                    hint=f"Let `{hook}` write there only where the user's value is still in it, and the same value each "
                    "time.",
                )
            )
    if findings:
        raise Violation(*findings)


def _moved(
    first: Mapping[str, str], before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """The fields that the later call itself changed, to something else than the first had left."""
    absent = "(absent)"
    return {
        path: (first.get(path, absent), after.get(path, absent))
        for path in {**before, **after}
        if before.get(path) != after.get(path) and first.get(path) != after.get(path)
    }


def deviations(run: Booted) -> list[str]:
    """Where a run departs from the contract's timeline, a sentence each."""
    from platform_abc.timeline import Process
    from platform_abc.timeline_trace import Seen, violations

    known = {process.value: process for process in Process}
    layout: Any = run.layout
    told: Sequence[Sequence[Any]] | None = run.answer.get("seen")
    if told is not None:
        return violations([Seen(known[process], name, index) for process, name, index in told], layout)
    workers: dict[int, int] = {}
    seen: list[Seen] = []
    for event in run.events("call", "step"):
        process = known.get(event["process"])
        if process is Process.WORKER:
            workers.setdefault(event["pid"], len(workers))
        if process is not None:
            seen.append(Seen(process, event["name"], workers.get(event["pid"], 0)))
    # The engine's own steps are not to be seen from outside; and where the engine core is the worker too,
    # the table has no column for it.
    if run.layout == MANY and not workers:
        return []
    return [one for one in violations(seen, layout) if not one.startswith("the ")]


def _own_caller(run: Booted, sentence: str) -> str:
    """The line of the platform's own code that led to what a sentence tells; empty if the engine did it."""
    name = sentence.partition(" ran ")[0]
    callers = [
        str(event.get("caller", ""))
        for event in run.events("call")
        if event["name"] == name
        and event["process"] in (sentence if run.layout == MANY else event["process"])
    ]
    return next((one for one in reversed(callers) if one), "")


def judge_end(run: Booted) -> None:
    """Judge what is left of a closed engine.

    Raises:
        Violation: a process, shared memory, or an interpreter that does not end.
    """
    says = (
        "A closed engine leaves nothing: no process, no shared memory, no thread that keeps an interpreter."
    )
    if run.boot.left:
        starter = _last_own(run, "starts")
        by = f"; `{starter.function}` started one{quoted(starter.place)}" if starter else ""
        raise run.fail(
            starter.function if starter else run.ctx.platform_cls.__name__,
            f"this outlived the engine: {'; '.join(_command(one) for one in run.boot.left[:3])}{by}",
            "End the process in the worker's `shutdown`: `terminate()`, then `wait()`.",
            says=says,
            place=starter.place if starter else "",
        )
    if run.boot.memory:
        maker = _last_own(run, "maps")
        by = f"; `{maker.function}` made one{quoted(maker.place)}" if maker else ""
        raise run.fail(
            maker.function if maker else run.ctx.platform_cls.__name__,
            f"this shared memory outlived the engine: {', '.join(run.boot.memory[:3])}{by}",
            "Call `close()` and `unlink()` of it in the worker's `shutdown`.",
            says=says,
            place=maker.place if maker else "",
        )
    if run.boot.ended == "lingered":
        frames = [frame for process in run.boot.stacks if (frame := run.own(run.stack(process)))]
        where = f"; `{frames[0].function}` was still running" if frames else ""
        raise run.fail(
            frames[0].function if frames else run.ctx.platform_cls.__name__,
            f"the interpreter did not end after the engine was closed{where}",
            "Start that thread with `daemon=True`, or end it in the worker's `shutdown`.",
            says=says,
            place=frames[0].place if frames else "",
        )


def _last_own(run: Booted, what: str) -> Frame | None:
    """The line of the platform's own code behind the last event of a kind."""
    frames = [run.own(frames_of(event["frames"])) for event in run.events(what)]
    return next((frame for frame in reversed(frames) if frame), None)


def _command(left: str) -> str:
    """A process that was left, without its number and the folder of its program."""
    words = left.partition("`")[2].rstrip("`").split()
    return f"the process `{' '.join([words[0].rpartition('/')[2], *words[1:]])}`" if words else left
