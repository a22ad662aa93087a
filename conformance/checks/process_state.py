"""The process that runs a hook: what is not the platform's stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from conformance.checks import _configs, _process
from conformance.context import CheckContext
from conformance.model import Finding, Violation
from conformance.registry import check

_KERNEL_HOOKS: Final = ("import_kernels", "import_ir_kernels", "register_triton_kernel_overrides")
_SAYS: Final = (
    "`{}` may change what the timeline lists for it (the config and the environment, or operators); what "
    "belongs to the whole process stays as it is."
)
_HINT: Final = "Remove what does that from `{}`, or do it in the worker, which is the platform's own process."


def _run_config_hook(ctx: CheckContext, hook: str, config: object) -> None:
    if hook == "log_warnings":
        with ctx.adapter.active(ctx.platform):
            ctx.ask(hook, contract_says=f"`{hook}` returns.", hint=f"Correct `{hook}`.")
        return
    _configs.run_hooks(ctx, config, (hook,))


def _changed_settings(ctx: CheckContext, hooks: Iterable[str], run: Callable[[str], None]) -> None:
    """Fail for the first hook that changes a setting of the process."""
    findings: list[Finding] = []
    for hook in hooks:
        before = _process.settings()
        run(hook)
        changes = _process.changed(before, _process.settings())
        if changes:
            findings.append(
                ctx.finding(
                    hook,
                    contract_says=_SAYS.format(hook),
                    platform_did=f"after `{hook}`, {changes}",
                    hint=_HINT.format(hook),
                )
            )
    if findings:
        raise Violation(*findings)


@check(
    "config.process-settings",
    group="config_hooks",
    needs=("config.plain",),
    why="The hooks run in the user's own process: its folder, signals and torch's defaults serve other code.",
    hint="Leave the working directory, signals, the locale, threads and torch's defaults as they are.",
)
def config_settings(ctx: CheckContext) -> None:
    """The config hooks leave the settings of the process as they are, and start no thread that holds it."""
    config = _configs.build(ctx, "plain")
    _changed_settings(ctx, _configs.HOOKS, lambda hook: _run_config_hook(ctx, hook, config))


@check(
    "kernels.process-settings",
    group="kernel_hooks",
    needs=("kernels.imports",),
    why="Kernels are imported while the engine imports; torch's defaults decide how every model is loaded.",
    hint="Register operators only; leave torch's defaults, signals and the working directory as they are.",
)
def kernel_settings(ctx: CheckContext) -> None:
    """The kernel hooks leave the settings of the process as they are."""

    def run(hook: str) -> None:
        try:
            ctx.ask(hook, contract_says=f"`{hook}` returns.", hint=f"Correct `{hook}`.")
        except Exception as error:  # kernels.imports has judged it
            ctx.details[hook] = str(error)

    with ctx.adapter.active(ctx.platform):
        _changed_settings(ctx, [one for one in _KERNEL_HOOKS if ctx.overridden(one)], run)


@check(
    "config.patches",
    group="config_hooks",
    severity="should",
    needs=("config.plain", "config.startup-hooks", "config.class-state"),
    why="Other code in the process meets replaced functions, filters and logging that it did not ask for.",
    hint="Put what differs into your own worker and components instead of replacing the engine's or torch's.",
)
def patches(ctx: CheckContext) -> None:
    """The config hooks replace no function of torch or the engine, and leave logging and import paths alone."""
    lent = _process.Lent(ctx)
    packages = lent.packages
    config = _configs.build(ctx, "plain")
    findings: list[Finding] = []
    for hook in (*_configs.HOOKS, *(("log_warnings",) if ctx.overridden("log_warnings") else ())):
        habits, functions = _process.habits(), _process.functions(packages)
        _run_config_hook(ctx, hook, config)
        did = [_process.changed(habits, _process.habits())]
        names = list(_process.replaced(functions))
        names += [name for name in lent.new() if name not in names]
        did += [f"{name} is replaced" for name in names[:4]]
        text = "; ".join(one for one in did if one)
        if text:
            findings.append(
                ctx.finding(
                    hook,
                    contract_says=f"`{hook}` "
                    + ("writes to a logger" if hook == "log_warnings" else "works on the config")
                    + "; it leaves other libraries as they are.",
                    platform_did=f"after `{hook}`, {text}",
                    hint=f"Remove what does that from `{hook}`, or do it in the worker.",
                )
            )
    if findings:
        raise Violation(*findings)
