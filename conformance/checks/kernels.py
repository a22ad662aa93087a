"""Kernel hooks: they may run more than once, and give the engine what it goes on with."""

from __future__ import annotations

from typing import Any, Final

from conformance.checks import _process
from conformance.context import CheckContext, describe, is_a, kind_of
from conformance.model import NotRun, Unsupported, Violation
from conformance.registry import check

_IMPORTS: Final = ("import_kernels", "import_ir_kernels", "register_triton_kernel_overrides")

_ONCE: Final = "Register each thing once in `{}`: test whether it is there already, and return then."
_HINTS: Final = {
    "the first time": "Let `{}` return: import in a `try … except ImportError` what may be absent, log what else fails.",
    "called again": _ONCE,
    "called a third time": _ONCE,
}
"""What to do where an import hook raises, by the time that it is called."""


@check(
    "kernels.imports",
    group="kernel_hooks",
    needs=("members.kinds",),
    asks=_IMPORTS,
    why="Each is called several times in one worker; an exception ends the process that loads the model.",
    hint="Import with plain import statements and register each thing once; log what is optional.",
)
def imports(ctx: CheckContext) -> None:
    """The import and registration hooks run any number of times in one process."""
    violations: list[Violation] = []
    replaced = _process.Lent(ctx)
    for member in _IMPORTS:
        for time in _HINTS:
            says = f"`{member}` can be called any number of times in one process."
            hint = _HINTS[time].format(member)
            try:
                with ctx.adapter.active(ctx.platform):
                    ctx.ask(member, contract_says=says, hint=hint)
            except (Unsupported, NotRun) as reason:
                ctx.details[member] = str(reason)
                break
            except Violation as violation:
                violations.append(violation)
                break
    names = replaced.new()
    if names:  # the worker is the platform's own process, but the user's front end runs these hooks too
        ctx.details["replaced"] = names
    if violations:
        raise Violation(*(finding for one in violations for finding in one.findings))


@check(
    "kernels.weight-loader",
    group="kernel_hooks",
    needs=("members.kinds", "members.engine-calls"),
    asks=("make_synced_weight_loader", "use_sync_weight_loader"),
    why="Every parameter of the model is loaded through the wrapper; what it swallows is never loaded.",
    hint="Return a function that calls the original loader with all its arguments and returns its result.",
)
def weight_loader(ctx: CheckContext) -> None:
    """The wrapped weight loader calls the original one, with everything it got."""
    import torch

    member = "make_synced_weight_loader"
    says = f"`{member}` gives a function that calls the original loader and returns what that returned."
    hint = f"Let `{member}` return a function `(param, *args, **kwargs)` that calls the original."
    seen: list[tuple[Any, ...]] = []

    def loader(*args: object, **kwargs: object) -> str:
        seen.append((args, kwargs))
        return "loaded"

    wrapped = ctx.ask(member, loader, contract_says=says, hint=hint)
    if not callable(wrapped):
        raise ctx.fail(member, contract_says=says, platform_did=f"it gave {kind_of(wrapped)}", hint=hint)
    parameter = torch.zeros(1)
    try:
        answer = wrapped(parameter, parameter, shard_id=0)
    except Exception as error:
        raise ctx.raised(member, error, contract_says=says, hint=hint) from error
    got = seen[0] if seen else None
    passed = got is not None and len(got[0]) == 2 and got[0][0] is parameter and got[1] == {"shard_id": 0}
    if len(seen) > 1:
        raise ctx.fail(
            member,
            contract_says=says,
            platform_did=f"for one weight it called the original {len(seen)} times",
            hint=f"Call the original once in what `{member}` returns: a loader may add to the parameter.",
        )
    if answer != "loaded" or not passed:
        did = "it did not call the original" if got is None else f"it returned {kind_of(answer)}"
        if got is not None and not passed:
            did = (
                f"it passed {len(got[0])} positional arguments and the keywords {sorted(got[1])}, not 2 and "
            )
            did += "['shard_id']"
        raise ctx.fail(member, contract_says=says, platform_did=did, hint=hint)


@check(
    "kernels.forward-context",
    group="kernel_hooks",
    needs=("members.engine-calls",),
    asks=("set_additional_forward_context",),
    why="Each step merges the answer into its context; anything but a dict stops the first step.",
    hint="Return a dict, empty where there is nothing to add.",
)
def forward_context(ctx: CheckContext) -> None:
    """`set_additional_forward_context` answers the engine's call with a dict of text keys."""
    member = "set_additional_forward_context"
    says = f"`{member}` takes the keywords of a step and gives a dict with text keys."
    hint = f"Let `{member}` take **kwargs and return a dict."
    if not ctx.knows(member):
        raise Unsupported(f"the installed engine has no {member}")
    for call in ctx.adapter.arguments(member):
        try:
            with ctx.adapter.active(ctx.platform):
                answer = ctx.ask(member, *call.args, contract_says=says, hint=hint, **call.kwargs)
        except Unsupported as declined:
            raise ctx.fail(
                member,
                contract_says=says,
                platform_did=describe(declined),
                hint=f"Remove `{member}` from the class: the base adds nothing.",
            ) from declined
        if not is_a(answer, dict) or not all(isinstance(key, str) for key in answer):
            raise ctx.fail(
                member,
                contract_says=says,
                platform_did=f"{member}({', '.join(f'{name}=…' for name in call.kwargs)}) gave {kind_of(answer)}",
                hint=hint,
            )
