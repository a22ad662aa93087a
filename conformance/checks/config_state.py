"""Config hooks across processes: once equals twice, configs pickle, and nothing stays behind."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import pickle
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from conformance.checks import _configs
from conformance.checks._deep import deep_text, opaque
from conformance.checks.processes import ACTS as _ACTS
from conformance.checks.processes import answers_of
from conformance.context import ApartFailed, CheckContext, describe, short
from conformance.model import Finding, NotRun, Skip, Violation
from conformance.registry import check

_PLAIN: Final = ("config.plain",)
_MORE: Final = 2
_NOT_STATE: Final = frozenset(
    {"__dict__", "__weakref__", "__abstractmethods__", "_abc_impl", "__annotations__"}
)


def _round_trip(config: Any) -> Any:
    return pickle.loads(pickle.dumps(config))


@check(
    "config.picklable",
    group="config_hooks",
    needs=_PLAIN,
    why="The config is pickled to the engine core and to every worker process.",
    hint="Put plain values into the config: no lambdas, locks, open files or local classes.",
)
def picklable(ctx: CheckContext) -> None:
    """After the hooks the config pickles, and comes back as it was."""
    pickle.dumps(ctx.adapter.config("plain"))  # what fails here is the engine's fault, an error of the kit
    done = _configs.ran_or_blame(ctx)
    says = "A config that the hooks have seen pickles, and comes back equal."
    try:
        back = _round_trip(done.config)
    except Exception as error:
        guilty = _unpicklable(done)
        field = guilty[0] if guilty else ""
        which = f" ({', '.join(guilty)})" if guilty else ""
        raise ctx.fail(
            done.writer(field),
            contract_says=says,
            platform_did=f"pickling what the hooks wrote{which} raised {describe(error)}",
            location=ctx.locate_write(done.writer(field), field),
            hint=f"Store the name or the settings of such an object{f' in {field}' if field else ''} instead, "
            "and make the object in the worker.",
        ) from error
    lost = _configs.differences(done.after, dict(ctx.adapter.snapshot(back))) or _lost_inside(done, back)
    if lost:
        raise ctx.fail(
            done.writer(next(iter(lost))),
            contract_says=says,
            platform_did=f"unpickled, it differs: {_configs.spelled(lost)}",
            location=ctx.locate_write(done.writer(next(iter(lost))), next(iter(lost))),
            hint="Store plain values (text, numbers, lists, dicts) there; an object of your own loses what its "
            "__getstate__ or __reduce__ leaves out.",
        )


def _lost_inside(done: _configs.Ran, back: Any) -> dict[str, tuple[Any, Any]]:
    """Changed fields whose objects print alike and hold something else after the round trip."""
    pairs = {
        field: (deep_text(_configs.value_at(done.config, field)), deep_text(_configs.value_at(back, field)))
        for field in done.changes()
    }
    return {field: pair for field, pair in pairs.items() if pair[0] != pair[1]}


def _unpicklable(done: _configs.Ran) -> list[str]:
    """The changed fields whose values do not pickle by themselves."""
    guilty: list[str] = []
    for field in done.changes():
        try:
            _round_trip(_configs.value_at(done.config, field))
        except Exception:
            guilty.append(field)
    return guilty


def _second_run(ctx: CheckContext) -> Mapping[str, Mapping[str, tuple[Any, Any]]]:
    """What each hook changes when both run again on the unpickled config, as in the engine core.

    They run twice more: a copy of the config that the engine makes there goes through them as well.
    """
    done = _configs.ran_or_blame(ctx)
    config = _round_trip(done.config)
    drift: dict[str, dict[str, tuple[Any, Any]]] = {hook: {} for hook in _configs.SECOND}
    start = dict(ctx.adapter.snapshot(config))
    for _ in range(_MORE):
        seen = [dict(ctx.adapter.snapshot(config))]
        for hook in _configs.SECOND:
            try:
                _configs.run_hooks(ctx, config, (hook,))
            except (_configs.Refused, Violation) as error:
                text = error.findings[0].platform_did if isinstance(error, Violation) else str(error)
                raise _SecondRunRaised(hook, text) from error
            seen.append(dict(ctx.adapter.snapshot(config)))
        first, middle, last = seen
        # What one hook changes and the other changes back is no drift.
        moved = _configs.differences(first, last)
        by_check = {name: pair for name, pair in moved.items() if name in _configs.differences(middle, last)}
        by_defaults = {name: pair for name, pair in moved.items() if name not in by_check}
        for hook, changes in zip(_configs.SECOND, (by_defaults, by_check), strict=True):
            for name, (_, new) in changes.items():
                drift[hook][name] = (start.get(name, "(absent)"), new)
        if any(drift.values()):
            break
    return drift


class _SecondRunRaised(Exception):
    def __init__(self, hook: str, text: str) -> None:
        self.hook = hook
        super().__init__(hook, text)
        self.text = text


def _idempotent(ctx: CheckContext, hook: str) -> None:
    says = (
        f"`{hook}` runs again in the engine core, on the config that it has already changed, and changes "
        "nothing there."
    )
    try:
        drift = _second_run(ctx)[hook]
    except _SecondRunRaised as again:
        if again.hook != hook:
            return  # the other hook's check says so
        raise ctx.fail(
            hook,
            contract_says=says,
            platform_did=f"called again, {again.text}",
            hint=f"Let `{hook}` accept the values that it has written itself.",
        ) from again
    if drift:
        raise ctx.fail(
            hook,
            contract_says=says,
            platform_did=f"called again it changed {_configs.spelled(drift)}",
            location=ctx.locate_write(hook, next(iter(drift))),
            hint=f"Let each call of `{hook}` write the same: set values instead of adding to them, append to a list only "
            "what is not yet in it, count no calls.",
        )


@check(
    "config.defaults-idempotent",
    group="config_hooks",
    needs=("config.picklable",),
    why="The engine core runs the hook once more; what grows there differs between the processes.",
    hint="Append only what is not there yet.",
)
def defaults_idempotent(ctx: CheckContext) -> None:
    """`apply_config_platform_defaults` twice equals once."""
    _idempotent(ctx, "apply_config_platform_defaults")


@check(
    "config.check-idempotent",
    group="config_hooks",
    needs=("config.picklable",),
    why="The engine core runs the hook once more; what grows there differs between the processes.",
    hint="Set values from the user's, not from the hook's own earlier result.",
)
def check_idempotent(ctx: CheckContext) -> None:
    """`check_and_update_config` twice equals once."""
    _idempotent(ctx, "check_and_update_config")


@attrs.frozen
class _Held:
    """One thing that a class, a metaclass or the instance holds: the object itself, and all of it as text."""

    value: object
    text: str
    opaque: bool


def _state(ctx: CheckContext) -> dict[str, _Held]:
    """What the platform's classes, their metaclass and the instance hold, by dotted name."""
    held: dict[str, _Held] = {}
    engine_meta = inspect.getmro(type(ctx.adapter.base_class()))
    own_meta = [one for one in inspect.getmro(type(ctx.platform_cls)) if one not in engine_meta]
    for cls in (*ctx.platform_cls.__mro__[:-1], *own_meta):
        for name, value in vars(cls).items():
            if name not in _NOT_STATE:
                held[f"{cls.__name__}.{name}"] = _Held(value, deep_text(value), opaque(value))
    own: dict[str, object] = ctx.platform.__dict__
    for name, value in own.items():
        if not isinstance(ctx.raw(name), functools.cached_property):  # every process computes it anew
            held[f"(instance).{name}"] = _Held(value, deep_text(value), opaque(value))
    return held


def _left(before: Mapping[str, _Held], after: Mapping[str, _Held], inside: bool) -> Iterator[tuple[str, str]]:
    """Yield what differs, as name and phrase; what an opaque object holds counts only where `inside` says so."""
    for name, now in after.items():
        then = before.get(name)
        if then is None:
            yield name, f"{name} = {short(now.value)} is new"
        elif then.value is not now.value and (then.text != now.text or callable(now.value)):
            yield name, f"{name}: {short(then.value)} → {short(now.value)}"
        elif then.text != now.text and (inside or not now.opaque):
            yield name, f"{name} was changed in place, to {short(now.text if now.opaque else now.value)}"


def _computed_when_asked(ctx: CheckContext) -> list[str]:
    """What the platform's own questions leave on it: values that every process computes for itself."""
    before = _state(ctx)
    with ctx.adapter.active(ctx.platform):
        answers_of(ctx.platform, ctx.adapter)
        for name, member in ctx.adapter.members().items():
            if (
                member.group == "device"
                and member.kind != "attribute"
                and name not in _ACTS
                and ctx.overridden(name)
            ):
                for call in ctx.adapter.arguments(name):
                    with contextlib.suppress(Exception, SystemExit):  # judged by the checks that ask it
                        getattr(ctx.platform, name)(*call.args, **call.kwargs)
    return [name for name, _ in _left(before, _state(ctx), inside=True)]


def _kept_by_hooks(ctx: CheckContext) -> tuple[str, list[tuple[str, str]], dict[str, str]]:
    """Run the hooks on two configs.

    Returns:
        The hook that left something, what it left as name and phrase, and details for the report.
    """
    details: dict[str, str] = {}
    # A note that it has registered something is what pre_register_and_update may keep.
    _configs.run_hooks(ctx, None, (_configs.PRE_REGISTER,))
    for number, case in enumerate(("plain", "tensor-parallel")):
        config = _configs.build(ctx, case)
        if number:
            with contextlib.suppress(Exception):  # an engine whose config has no such field
                config.scheduler_config.max_num_seqs += 1
        for hook in _configs.SECOND:
            before = _state(ctx)
            try:
                _configs.run_hooks(ctx, config, (hook,))
            except (_configs.Refused, Skip, Violation) as refused:
                details[f"not tried ({case})"] = describe(refused)  # config.cases judges it
                break
            # An object that opens itself on first use has done so with the first config.
            left = list(_left(before, _state(ctx), inside=number > 0))
            if left:
                return hook, left, details
    return "", [], details


@check(
    "config.class-state",
    group="config_hooks",
    needs=_PLAIN,
    why="Workers are new processes that never run the config hooks; what a hook keeps is not there.",
    hint="Write results into the config, which every process receives.",
)
def class_state(ctx: CheckContext) -> None:
    """The hooks leave nothing on the class, its metaclass or the instance."""
    try:
        hook, left, details = ctx.apart(lambda: _kept_by_hooks(ctx))
    except ApartFailed as broken:
        raise NotRun(f"the hooks did not run in a copy of the process: {broken}") from broken
    ctx.details.update(details)
    if left:
        computed: list[str] = []
        with contextlib.suppress(ApartFailed):
            computed = ctx.apart(lambda: _computed_when_asked(ctx))
        left = [one for one in left if one[0] not in computed]
    if not left:
        return
    raise ctx.fail(
        hook,
        contract_says="The config hooks keep nothing on the class or the instance: a worker is "
        "a new process that does not run them.",
        platform_did=f"after `{hook}`, " + "; ".join(phrase for _, phrase in left[:4]),
        hint="Write it into the config (vllm_config.additional_config is yours) instead of "
        f"`{left[0][0].rpartition('.')[2]}`.",
        location=ctx.locate_write(hook, left[0][0].rpartition(".")[2]),
    )


@check(
    "config.environment-stable",
    group="config_hooks",
    needs=("config.check-idempotent", "config.defaults-idempotent"),
    why="The hooks run again in the engine core, which has the changed environment already.",
    hint="Set variables to a value that does not depend on what the hook wrote before.",
)
def environment_stable(ctx: CheckContext) -> None:
    """A second run of the hooks leaves the environment as the first one did."""
    start = dict(os.environ)
    done = _configs.ran_or_blame(ctx)
    first = dict(os.environ)
    ctx.details["environment"] = {
        name: f"{short(old)} → {short(new)}"
        for name, (old, new) in _configs.differences(start, first).items()
    }
    config = _round_trip(done.config)
    for hook in _configs.HOOKS:
        before = dict(os.environ)
        _configs.run_hooks(ctx, config, (hook,))
        drift = _configs.differences(before, dict(os.environ))
        if drift:
            raise ctx.fail(
                hook,
                contract_says="A config hook may set environment variables, and sets the same when it runs "
                "again, in the same process or in the engine core.",
                platform_did=f"called again it changed {_configs.spelled(drift)}",
                location=ctx.locate_write(hook, next(iter(drift))),
                hint="Assign the whole value, or add to the variable only what is not in it.",
            )


def _after(ctx: CheckContext, *cases: str) -> Mapping[str, str]:
    """The last case's fields after the hooks ran on each case in turn, as text."""
    done: _configs.Ran | None = None
    for case in cases:
        done = _configs.ran(ctx, case)
    return {name: short(value, 300) for name, value in done.after.items()} if done else {}


def _shared(one: Any, other: Any, changed: Mapping[str, Any]) -> Iterator[str]:
    """Fields that a hook changed and that are the same mutable object in two configs."""
    for path in changed:
        left, right = _configs.value_at(one, path), _configs.value_at(other, path)
        if left is right and isinstance(left, list | dict | set):
            yield path


@check(
    "config.independent",
    group="config_hooks",
    needs=("config.class-state", "config.check-idempotent", "config.defaults-idempotent"),
    why="Two engines live in one process: a draft model beside its target, a test after another.",
    hint="Derive everything from the config that is passed in; keep nothing in module globals.",
)
def independent(ctx: CheckContext) -> None:
    """A config comes out the same alone and after another one, and shares no object with it."""
    says = "What the hooks make of a config depends on that config alone."
    others = [
        case for case in ("additional-options", "tensor-parallel") if case in ctx.adapter.config_cases()
    ]
    pairs = [("plain", case) for case in others] + [(case, "plain") for case in others[:1]]
    for first, second in pairs:
        try:
            alone = ctx.apart(lambda case=second: _after(ctx, case))  # type: ignore[misc]
            beside = ctx.apart(lambda a=first, b=second: _after(ctx, a, b))  # type: ignore[misc]
        except ApartFailed as refused:
            ctx.details[f"{first}, then {second}"] = str(refused)
            continue
        moved = _configs.differences(alone, beside)
        if moved:
            raise ctx.fail(
                "check_and_update_config",
                contract_says=says,
                platform_did=f"the {second} config comes out otherwise after the {first} one: "
                f"{_configs.spelled(moved)}",
                hint="Remove the module global or the cache that the hook fills the first time.",
            )
    one, other = _configs.ran_or_blame(ctx), _configs.ran_or_blame(ctx)
    shared = list(_shared(one.config, other.config, one.changes()))
    findings: list[Finding] = [
        ctx.finding(
            one.writer(path),
            contract_says=says,
            platform_did=f"{path} is one and the same object in two configs",
            location=ctx.locate_write(one.writer(path), path),
            hint="Make a new list or dict for each config: `list(DEFAULTS)`.",
        )
        for path in shared
    ]
    if findings:
        raise Violation(*findings)
