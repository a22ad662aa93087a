"""The engine's own way to a config: its parser, its creation of a config, and a model that comes later."""

from __future__ import annotations

import argparse
import contextlib
import io
from typing import Any, Final

from conformance.checks import _configs
from conformance.checks.answers import DEVICE
from conformance.context import CheckContext, describe, kind_of, short
from conformance.model import NotRun, Skip, Violation
from conformance.places import quoted
from conformance.registry import check
from conformance.remedies import instead

_PROBES: Final = (
    ("--max-num-seqs", "3"),
    ("--block-size", "32"),
    ("--max-model-len", "96"),
    ("--seed", "7"),
    ("--worker-cls", "chosen.by.the.User"),
    ("--model", "chosen-by-the-user"),
)
"""Options that an engine may have, with a value that is nobody's default."""

_ASKED: Final = (
    *_configs.HOOKS,
    "check_if_supports_dtype",
    "check_max_model_len",
    "get_compile_backend",
    "get_default_ir_op_priority",
    "get_device_capability",
    "get_device_name",
    "get_device_total_memory",
    "has_device_capability",
    "is_tpu",
    "support_hybrid_kv_cache",
    "support_static_graph_mode",
    "use_custom_allreduce",
    "uses_host_device_handling",
    "validate_environ",
    "verify_quantization",
)
"""What an engine asks while it makes a config."""


@check(
    "config.parser-usable",
    group="config_hooks",
    needs=("config.pre-register",),
    why="The command line is parsed after the hook; a parser that it broke ends every start from a shell.",
    hint="Add only optional options with a prefix of your own; escape % in help texts.",
)
def parser_usable(ctx: CheckContext) -> None:
    """After `pre_register_and_update` the parser parses an empty line, prints its help and takes every option."""
    hook = _configs.PRE_REGISTER
    plain, changed = _parser(ctx), _parser(ctx)
    if plain is None or changed is None:
        raise NotRun("the installed engine has no parser to hand over")
    with ctx.adapter.active(ctx.platform):
        getattr(ctx.platform, hook)(changed)
    known = [one for one in _PROBES if one[0] in _options(plain)]
    lines = [[], *([*one] for one in known), [part for one in known for part in one]]
    for line in lines:
        text = " ".join(line) or "an empty command line"
        says = f"After `{hook}` the parser still takes {text}."
        told = io.StringIO()
        try:
            with contextlib.redirect_stderr(told):
                there = plain.parse_args(line)
                here = changed.parse_args(line)
        except SystemExit as error:
            lines_told = told.getvalue().strip().splitlines() or [describe(error)]
            raise ctx.fail(
                hook,
                contract_says=says,
                platform_did=f"parsing it ends the process: {short(lines_told[-1], 200)}",
                hint="Give your own options a default and a prefix, and require none of them.",
            ) from error
        except Exception as error:
            raise ctx.raised(
                hook, error, contract_says=says, hint="Leave the engine's own options as they are."
            ) from error
        for option, value in zip(line[::2], line[1::2], strict=True):
            name = option.removeprefix("--").replace("-", "_")
            wanted, got = getattr(there, name, None), getattr(here, name, None)
            if wanted != got:
                raise ctx.fail(
                    hook,
                    contract_says=f"What the user writes on the command line counts: {option} {value} gives "
                    f"{wanted!r}.",
                    platform_did=f"after `{hook}` it gives {kind_of(got)}",
                    hint=f"Change defaults with parser.set_defaults; leave the option {option} itself alone.",
                )
    _prints(ctx, changed)


def _parser(ctx: CheckContext) -> Any:
    calls = [one for one in ctx.adapter.arguments(_configs.PRE_REGISTER) if one.args]
    parser = calls[0].args[0] if calls else None
    return parser if isinstance(parser, argparse.ArgumentParser) else None


def _options(parser: Any) -> frozenset[str]:
    actions: Any = getattr(parser, "_option_string_actions", {})
    return frozenset(actions)


def _prints(ctx: CheckContext, parser: Any) -> None:
    hook = _configs.PRE_REGISTER
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            # As argparse prints it, whatever else the engine's own parser does with --help.
            argparse.ArgumentParser.format_help(parser)
    except (Exception, SystemExit) as error:
        raise ctx.fail(
            hook,
            contract_says=f"After `{hook}` the parser prints its help.",
            platform_did=f"format_help raised {describe(error)}",
            hint="Write %% for a percent sign in the help texts of your options.",
        ) from error


@check(
    "config.engine-accepts",
    group="config_hooks",
    needs=(
        "members.kinds",
        "members.engine-calls",
        "config.plain",
        "config.valid",
        "config.worker-cls",
        "config.startup-hooks",
        "config.pre-register",
        "config.requests",
    ),
    asks=_ASKED,
    why="After the hooks the engine checks and completes the config; a choice that it refuses ends each start.",
    hint="Write values that the engine itself accepts for your platform.",
)
def engine_accepts(ctx: CheckContext) -> None:
    """The engine creates its default config with this platform as the current one, and keeps the hooks' choice."""
    try:
        with ctx.adapter.active(ctx.platform):
            config = ctx.adapter.create_config(ctx.platform)
    except (Skip, NotRun):
        raise
    except (Exception, SystemExit) as error:
        missing = ctx.device_missing()
        if missing and not isinstance(error, TypeError | AttributeError | NameError | KeyError):
            raise Skip(f"{missing}; {describe(error)}", "run the kit where the device is") from error
        if not _lists_dtypes(ctx):
            raise NotRun("supported_dtypes is no list of dtypes, see device.answers") from error
        raise ctx.fail(
            _hook_of(error),
            contract_says="The engine creates a config for an ordinary model, without any option of the user, "
            "while the platform is the current one.",
            platform_did=f"it raised {short(describe(error), 300)}{quoted(ctx.blame(error))}",
            hint=_instead_of(ctx, error),
            location=ctx.blame(error) or ctx.locate(_hook_of(error)),
        ) from error
    before = dict(ctx.adapter.snapshot(config))
    try:
        _configs.run_hooks(ctx, config, _configs.SECOND)
    except (_configs.Refused, Skip, Violation) as again:
        # On the kit's own config the hooks ran twice already, and config.check-idempotent has told.
        ctx.details["a second run on the engine's config"] = str(again)
        return
    moved = _configs.differences(before, dict(ctx.adapter.snapshot(config)))
    if moved:
        ctx.details["changed by a second run on the engine's config"] = _configs.spelled(moved)


def _lists_dtypes(ctx: CheckContext) -> bool:
    """Say whether the platform's list of dtypes, from which the engine takes one, is such a list."""
    try:
        return DEVICE["supported_dtypes"].accepts(ctx.platform.supported_dtypes)
    except Exception:
        return False


def _instead_of(ctx: CheckContext, error: BaseException) -> str:
    """What to change: the platform's own line that raised, or the value that the engine refuses."""
    if ctx.blame(error):
        return (
            f"Change that line{instead(describe(error))}: what the engine itself sets for an ordinary model has to pass "
            "the hooks. Raise only for an option of the user's."
        )
    return (
        "Write in the config hooks only values that the engine accepts: it checks and completes the config once "
        "more after them."
    )


def _hook_of(error: BaseException) -> str:
    """The config hook that the error came out of; the one that completes the config where it was none."""
    trace, found = error.__traceback__, "check_and_update_config"
    while trace is not None:
        name = trace.tb_frame.f_code.co_name
        found = name if name in _configs.HOOKS else found
        trace = trace.tb_next
    return found


@check(
    "config.two-step",
    group="config_hooks",
    needs=("config.optional-parts", "config.worker-cls", "config.check-idempotent"),
    why="Tools build a config without a model, put the model in and let the hooks run on it again.",
    hint="Decide by what is in the config now, not by a note that the hook was here before.",
)
def two_step(ctx: CheckContext) -> None:
    """A config that got its model after the first run of the hooks comes out as usable as one built at once."""
    case = "model-none"
    if case not in ctx.adapter.config_cases():
        return
    says = "A config that gets its model after the hooks ran, and sees them again, is whole."
    config = _configs.build(ctx, case)
    try:
        _configs.run_hooks(ctx, config)
    except _configs.Refused as refused:
        raise NotRun(f"a config without a model is refused: {refused}") from refused
    config.model_config = ctx.fitted.config("plain").model_config
    try:
        _configs.run_hooks(ctx, config)
    except _configs.Refused as refused:
        raise ctx.fail(
            "check_and_update_config",
            contract_says=says,
            platform_did=str(refused),
            hint="Accept your own earlier result on a config that had no model then.",
        ) from refused
    value = ctx.adapter.worker_cls_field(config)
    if value in ("auto", "", None):
        raise ctx.fail(
            "check_and_update_config",
            contract_says=says,
            platform_did=f"parallel_config.worker_cls is still {value!r} after the second run",
            hint='Look at the field itself, `worker_cls == "auto"`, not at a mark that you left in the config.',
        )
