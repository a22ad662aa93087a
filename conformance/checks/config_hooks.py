"""Config hooks: they accept what an engine builds, set the worker, keep what the user set, leave it valid."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import attrs

from conformance.checks import _configs
from conformance.checks._resolve import resolve_class, surface
from conformance.context import CheckContext, describe, kind_of, short, spell
from conformance.engines.base import Arguments
from conformance.model import NotRun, Skip, Unsupported, Violation
from conformance.registry import check
from conformance.remedies import instead


@check(
    "config.plain",
    group="config_hooks",
    needs=(
        "platform.instantiable",
        "identity.enum",
        "identity.device-type",
        "members.kinds",
        "members.engine-calls",
    ),
    asks=_configs.HOOKS,
    why="Every start of the engine runs these hooks on a config like this one.",
    hint="Let the config hooks run on a plain config without a device.",
)
def plain(ctx: CheckContext) -> None:
    """The hooks run on the plain config."""
    _configs.ran_or_blame(ctx)


@check(
    "config.cases",
    group="config_hooks",
    needs=("config.plain",),
    why="Users turn on tensor parallelism, LoRA or quantization; a hook must handle or refuse each.",
    hint="Refuse what is not supported with NotSupported or a ValueError that names the option.",
)
def cases(ctx: CheckContext) -> None:
    """On each special config the hooks run, or refuse it with NotSupported or a ValueError."""
    violations: list[Violation] = []
    for case in ctx.adapter.config_cases():
        if case == "plain" or case.endswith("-none"):
            continue
        try:
            _configs.ran(ctx, case)
        except _configs.Refused as refused:
            ctx.details[f"refused ({case})"] = str(refused)
        except Skip as skip:
            ctx.details[f"not tried ({case})"] = str(skip)
        except Violation as violation:
            findings = [
                attrs.evolve(one, platform_did=f"for the {case} config {one.platform_did}")
                for one in violation.findings
            ]
            violations.append(Violation(*findings))
    _configs.collect(violations)


@check(
    "config.optional-parts",
    group="config_hooks",
    needs=("config.plain",),
    why="Tools and tests build configs without a model or without other parts; the hooks run on them too.",
    hint="Test each optional part for None before reading it: `if vllm_config.model_config is not None`.",
)
def optional_parts(ctx: CheckContext) -> None:
    """The hooks run where an optional part of the config is None."""
    violations: list[Violation] = []
    for case in ctx.adapter.config_cases():
        if not case.endswith("-none"):
            continue
        try:
            _configs.ran_or_blame(ctx, case)
        except Skip as skip:
            ctx.details[f"not tried ({case})"] = str(skip)
        except Violation as violation:
            part = case.removesuffix("-none")
            findings = [
                ctx.finding(
                    one.member,
                    contract_says=f"`{one.member}` runs on a config whose {part} part is None.",
                    platform_did=one.platform_did + _half_changed(ctx, case),
                    hint=f"Test before that line whether the {part} part is None, and go on without it.",
                    location=one.location,
                )
                for one in violation.findings
            ]
            violations.append(Violation(*findings))
    _configs.collect(violations)


def _half_changed(ctx: CheckContext, case: str) -> str:
    """What a hook that raises has changed by then, as the end of a sentence; empty where nothing."""
    config = _configs.build(ctx, case)
    before = dict(ctx.adapter.snapshot(config))
    with contextlib.suppress(_configs.Refused, Skip, Violation):
        _configs.run_hooks(ctx, config)
    changes = _configs.differences(before, dict(ctx.adapter.snapshot(config)))
    return f" (the config is half changed then: {_configs.spelled(changes, 2)})" if changes else ""


@check(
    "config.worker-cls",
    group="config_hooks",
    needs=("config.plain",),
    why='With "auto" left in place the engine fails late, on a name that it cannot split or import.',
    hint='Write the dotted name of your worker into parallel_config.worker_cls where it is "auto".',
)
def worker_cls(ctx: CheckContext) -> None:
    """After the hooks the worker class is named."""
    done = _configs.ran_or_blame(ctx)
    value = ctx.adapter.worker_cls_field(done.config)
    if value in ("auto", "", None):
        raise ctx.fail(
            "check_and_update_config",
            contract_says="After `check_and_update_config`, parallel_config.worker_cls names the worker class.",
            platform_did=f"it is {value!r}",
            hint='Write `if vllm_config.parallel_config.worker_cls == "auto": '
            'vllm_config.parallel_config.worker_cls = "mypkg.worker.MyWorker"`.',
        )


@check(
    "config.worker-cls-importable",
    group="config_hooks",
    needs=("config.worker-cls", "config.valid"),
    why="Each worker process imports this class by name and calls it to load and run the model.",
    hint="Name a class that imports without the device and derives from the engine's worker base.",
)
def worker_importable(ctx: CheckContext) -> None:
    """The worker class imports and is a worker."""
    value = ctx.adapter.worker_cls_field(_configs.ran_or_blame(ctx).config)
    says = "parallel_config.worker_cls is the dotted name of a worker class"
    cls = value if isinstance(value, type) else resolve_class(ctx, "check_and_update_config", value, says)
    for picked in ctx.adapter.picked():
        if picked.picker == "worker_cls":
            surface(ctx, "check_and_update_config", cls, picked)


@check(
    "config.valid",
    group="config_hooks",
    needs=("config.plain",),
    why="The engine checks the config again after the hooks and in each process that receives it.",
    hint="Write values of the field's own type and range.",
)
def valid(ctx: CheckContext) -> None:
    """What the hooks wrote passes the engine's own validation."""
    done = _configs.ran_or_blame(ctx)
    try:
        ctx.adapter.validate_config(done.config)
    except Exception as error:
        changes = _configs.spelled(done.changes()) or "nothing that a snapshot shows"
        named = next((field for field in done.writers if field in str(error)), "")
        raise ctx.fail(
            done.writer(named),
            contract_says="A config is valid after the hooks, field by field.",
            platform_did=f"the engine refuses it: {describe(error)} (the hooks changed {changes})",
            hint=f"Write into {named or 'that field'} a value of the kind that the engine asks for there.",
        ) from error


@check(
    "config.block-size",
    group="config_hooks",
    needs=("members.kinds", "members.engine-calls", "config.valid"),
    asks=("update_block_size_for_backend",),
    why="Workers call this after the model is loaded; a size that is no positive number stops the cache.",
    hint="Leave the hook to the base class, or set cache_config.block_size to a size your backend accepts.",
)
def block_size(ctx: CheckContext) -> None:
    """The block-size hook runs after the config hooks and leaves a positive number."""
    done = _configs.ran_or_blame(ctx)
    hook = "update_block_size_for_backend"
    try:
        _configs.update_block_size(ctx, done.config)
    except (Violation, Unsupported):
        raise
    except NotImplementedError as error:
        raise ctx.raised(
            hook,
            error,
            contract_says=f"`{hook}` runs in every worker; nothing there catches NotImplementedError.",
            hint=f"Remove `{hook}` from the class: the base chooses the size.",
        ) from error
    except (Exception, SystemExit) as error:
        raise _configs.hook_raised(ctx, hook, error) from error
    size = dict(ctx.adapter.snapshot(done.config)).get("cache_config.block_size")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size <= 0):
        raise ctx.fail(
            hook,
            contract_says="cache_config.block_size is a positive number of tokens.",
            platform_did=f"after the hook it is {kind_of(size)}",
            hint=f"Let `{hook}` write an int of at least 1 there.",
            location=ctx.locate_write(hook, "cache_config.block_size"),
        )


@check(
    "config.pre-register",
    group="config_hooks",
    needs=("platform.instantiable", "members.kinds", "members.engine-calls"),
    asks=(_configs.PRE_REGISTER,),
    why="The hook runs with the command line's parser and once more without one, before any config exists.",
    hint="Handle `parser=None`, and do nothing the second time.",
)
def pre_register(ctx: CheckContext) -> None:
    """`pre_register_and_update` runs with a parser and without one, each twice."""
    hook = "pre_register_and_update"
    for _ in range(2):
        for call in reversed(ctx.adapter.arguments(hook)):
            spelling = call.case or "without a parser"
            try:
                with ctx.adapter.active(ctx.platform):
                    ctx.must_have_run(hook, getattr(ctx.platform, hook)(*call.args, **call.kwargs))
            except Violation:
                raise
            except (Exception, SystemExit) as error:
                raise ctx.raised(
                    hook,
                    error,
                    contract_says=f"`{hook}` runs {spelling}, and again in the same process.",
                    hint=_instead_of(hook, error, with_parser=bool(call.args)),
                ) from error


def _instead_of(hook: str, error: BaseException, *, with_parser: bool) -> str:
    """What to write where the hook raised, by what it seems to have missed."""
    if not with_parser and "NoneType" in str(error):
        return f"Use the parser in `{hook}` only `if parser is not None`."
    if "NoneType" in str(error) or not isinstance(
        error, ValueError | RuntimeError | KeyError | AssertionError
    ):
        return f"Change that line{instead(describe(error))}."
    return f"Test in `{hook}` whether it has done that already, and return then: it runs several times in a process."


@check(
    "config.after-parser",
    group="config_hooks",
    needs=("config.pre-register", "config.check-idempotent", "config.defaults-idempotent"),
    why="A process that parsed a command line may build further configs that did not come from it.",
    hint="Keep no note of the parser on the class; decide from the config alone.",
)
def after_parser(ctx: CheckContext) -> None:
    """A config that did not come from a command line is accepted after a parser was there, and comes out alike."""
    alone = _configs.ran_or_blame(ctx)
    for call in ctx.adapter.arguments(_configs.PRE_REGISTER):
        with ctx.adapter.active(ctx.platform):
            getattr(ctx.platform, _configs.PRE_REGISTER)(*call.args, **call.kwargs)
    says = "The config hooks treat a config alike whether or not a parser was there before in the process."
    hint = (
        f"Remove the note that `{_configs.PRE_REGISTER}` leaves on the class or in a module, and what reads it; for "
        "another default on the command line write parser.set_defaults(…)."
    )
    try:
        done = _configs.ran(ctx)
    except _configs.Refused as refused:
        raise ctx.fail(
            "check_and_update_config",
            contract_says=says,
            platform_did=f"after `{_configs.PRE_REGISTER}` with a parser, {refused}",
            hint=hint,
        ) from refused
    moved = _configs.differences(alone.after, done.after)
    if moved:
        raise ctx.fail(
            "check_and_update_config",
            contract_says=says,
            platform_did=f"after `{_configs.PRE_REGISTER}` with a parser it comes out otherwise: "
            f"{_configs.spelled(moved)}",
            hint=hint,
        )


_LISTS: Final = {
    "verify_quantization": "supported_quantization",
    "check_if_supports_dtype": "supported_dtypes",
}
"""Start-up hooks that are asked for each entry of a list of the platform's own."""

_STARTS: Final = (
    "log_warnings",
    "validate_environ",
    "verify_model_arch",
    "register_custom_kv_cache_specs",
    "get_default_ir_op_priority",
    "verify_quantization",
    "check_if_supports_dtype",
    "check_runner_kv_caches_multi_layer",
)
"""Hooks of a start besides those that make the config."""


@check(
    "config.startup-hooks",
    group="config_hooks",
    needs=("members.kinds", "config.plain"),
    asks=_STARTS,
    why="The engine calls these at every start; an exception for an ordinary model ends it.",
    hint="Raise only for what the platform really does not support, and say what.",
)
def startup_hooks(ctx: CheckContext) -> None:
    """The other hooks of a start accept an ordinary model and what the platform itself declares."""
    violations: list[Violation] = []
    for member in _STARTS:
        if not ctx.overridden(member):
            continue
        calls: list[tuple[Any, ...]] = [one.args for one in ctx.adapter.arguments(member)]
        declared = _listed(ctx, _LISTS[member]) if member in _LISTS else []
        calls += [(one,) for one in declared]
        for args in calls:
            says = f"`{member}` accepts an ordinary model and what the platform itself lists."
            listed = any(args[0] is one for one in declared)
            hint = f"Let `{member}` return for {_what(args)}: do not raise there."
            try:
                with ctx.adapter.active(ctx.platform):
                    answer = ctx.ask(member, *args, contract_says=says, hint=hint)
            except (Unsupported, Skip, NotRun) as reason:
                ctx.details[member] = str(reason)
                continue
            except Violation as violation:
                if not listed:  # what refuses an entry, the check of the list tells
                    violations.append(violation)
                break
            if answer is False:
                violations.append(_unread(ctx, member, f"{member}({_what(args)})"))
                break
            if member == "get_default_ir_op_priority" and answer is None:
                violations.append(
                    ctx.fail(
                        member,
                        contract_says=f"`{member}` returns the platform's priorities, an object of the engine.",
                        platform_did="it returned None",
                        hint=f"Return what the base's `{member}` returns, changed.",
                    )
                )
    _configs.collect(violations)


def _given(call: Arguments) -> int:
    """The number that a call passes."""
    return next(one for one in (*call.args, *call.kwargs.values()) if isinstance(one, int))


def _changes_request(ctx: CheckContext, member: str, before: str, after: str) -> Violation:
    pairs = zip(before.split(", "), after.split(", "), strict=False)
    old, new = next((pair for pair in pairs if pair[0] != pair[1]), (before, after))
    return ctx.fail(
        member,
        contract_says=f"`{member}` accepts a request or raises; the request stays what the user sent.",
        platform_did=f"it changed the request: `{old[:80]}` became `{new[:80]}`",
        hint=f"Raise ValueError in `{member}` for what the device cannot serve; change nothing of the request.",
    )


def _unread(ctx: CheckContext, member: str, call: str) -> Violation:
    return ctx.fail(
        member,
        contract_says=f"`{member}` refuses by raising ValueError, and otherwise returns; nobody reads its answer.",
        platform_did=f"{call} returned False, and the engine goes on as if nothing had been said",
        hint=f"Raise ValueError with the reason where `{member}` returns False, and return nothing otherwise.",
    )


def _what(args: tuple[Any, ...]) -> str:
    """What a start-up hook was asked about."""
    return ", ".join(short(one, 60) for one in args) or "this call"


def _listed(ctx: CheckContext, name: str) -> list[Any]:
    """What the platform lists; nothing where it cannot be read, which the check of the list judges."""
    try:
        return list(getattr(ctx.platform, name))
    except Exception as error:
        ctx.details[name] = describe(error)
        return []


@check(
    "config.requests",
    group="config_hooks",
    needs=("members.engine-calls",),
    asks=("validate_request", "get_max_output_tokens", "check_max_model_len"),
    why="Every request passes these hooks; an exception or a wrong number refuses requests that would run.",
    hint="Return for an ordinary request; return whole numbers of tokens.",
)
def requests(ctx: CheckContext) -> None:
    """An ordinary request is accepted before any config exists, and limits are whole numbers."""
    violations: list[Violation] = []
    for member, is_number in (
        ("validate_request", False),
        ("get_max_output_tokens", True),
        ("check_max_model_len", True),
    ):
        if not ctx.overridden(member):
            continue
        number = " and returns a number of tokens, at least 1" if is_number else ""
        says = f"`{member}` accepts an ordinary request{number}."
        hint = (
            f"Let `{member}` return for an ordinary request: no config hook has run before it in this process, "
            "and nothing that one leaves may be needed."
        )
        try:
            for call in ctx.adapter.arguments(member):
                before = [repr(one) for one in (*call.args, *call.kwargs.values())]
                answer = ctx.ask(member, *call.args, contract_says=says, hint=hint, **call.kwargs)
                after = [repr(one) for one in (*call.args, *call.kwargs.values())]
                changed = next((pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]), None)
                if changed is not None:
                    violations.append(_changes_request(ctx, member, *changed))
                    break
                if not is_number and answer is False:
                    violations.append(_unread(ctx, member, spell(member, call)))
                    break
                good = isinstance(answer, int) and not isinstance(answer, bool) and answer >= 1
                if is_number and not good:
                    violations.append(
                        ctx.fail(
                            member,
                            contract_says=says,
                            platform_did=f"{spell(member, call)} returned {kind_of(answer)}",
                            hint=f"Return a number of tokens from `{member}`, an int of at least 1.",
                        )
                    )
                elif member == "check_max_model_len" and answer > (most := _given(call)):
                    violations.append(
                        ctx.fail(
                            member,
                            contract_says=f"`{member}` may lower the longest sequence that the model allows, and "
                            "otherwise returns it as it is.",
                            platform_did=f"{spell(member, call)} returned {answer}, more than {most}",
                            hint=f"Return at most the length that `{member}` is given.",
                        )
                    )
        except Unsupported as declared:
            violations.append(
                ctx.fail(
                    member,
                    contract_says=says,
                    platform_did=short(str(declared)),
                    hint=f"Remove `{member}` from the class, the base accepts everything.",
                )
            )
        except NotRun as reason:
            ctx.details[member] = str(reason)
        except Violation as violation:
            violations.append(violation)
    _configs.collect(violations)
