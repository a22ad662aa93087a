"""Run the config hooks on an adapter's configs, and say which hook did what."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from conformance.context import CheckContext, describe, is_a, short, unrun
from conformance.model import NotRun, Skip, Unsupported, Violation
from conformance.remedies import instead
from platform_abc.errors import DeviceUnavailable, MissingDependency

PRE_REGISTER: Final = "pre_register_and_update"
HOOKS: Final = (PRE_REGISTER, "apply_config_platform_defaults", "check_and_update_config")
"""The hooks that run while a config is built, in the engine's order."""

SECOND: Final = HOOKS[1:]
"""The hooks that run once more, on the unpickled config, in the engine core's process."""

_ADDRESS: Final = re.compile(r" at 0x[0-9A-Fa-f]+")


class Refused(Exception):
    """A hook refused the config with a reason, which a platform may do for what it does not support."""


@attrs.frozen
class Ran:
    """A config that the hooks have seen.

    Args:
        config: the config, changed.
        before: its fields before any hook.
        after: its fields after the last hook.
        writers: the hook that last changed each changed field.
    """

    config: Any
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    writers: Mapping[str, str]

    def changes(self) -> Mapping[str, tuple[Any, Any]]:
        """What the hooks changed: field -> value before, value after."""
        return differences(self.before, self.after)

    def writer(self, field: str) -> str:
        """The hook to blame for a field: the last that changed it, or a part of it."""
        inside = (hook for name, hook in self.writers.items() if name.startswith(f"{field}."))
        return self.writers.get(field) or next(inside, SECOND[-1])


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The fields of which two snapshots differ, with both values; an absent one is "(absent)"."""
    fields = dict.fromkeys((*before, *after))
    pairs = {name: (before.get(name, "(absent)"), after.get(name, "(absent)")) for name in fields}
    return {name: pair for name, pair in pairs.items() if not _same(*pair)}


def _same(one: Any, other: Any) -> bool:
    with contextlib.suppress(Exception):  # an object whose == fails is compared by how it prints
        if bool(one == other):
            return True
    return _ADDRESS.sub("", repr(one)) == _ADDRESS.sub("", repr(other))


def spelled(changes: Mapping[str, tuple[Any, Any]], limit: int = 4) -> str:
    """Changes for a sentence: `cache_config.block_size: 16 → 32; …`."""
    parts = [f"{name}: {short(old)} → {short(new)}" for name, (old, new) in list(changes.items())[:limit]]
    more = len(changes) - limit
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")


def run_hooks(ctx: CheckContext, config: Any, hooks: tuple[str, ...] = HOOKS) -> None:
    """Call hooks on a config as the engine does, with the platform as the engine's current one.

    Raises:
        Refused: a hook raised NotImplementedError or ValueError.
        Skip: a hook lacks a package or the device.
        Violation: a hook raised anything else.
    """
    with ctx.adapter.active(ctx.platform):
        for hook in filter(ctx.knows, hooks):
            call = getattr(ctx.platform, hook)
            if hook == PRE_REGISTER:
                with contextlib.suppress(Exception, SystemExit):  # config.pre-register judges what it raises
                    unrun(call())
                continue
            try:
                ctx.must_have_run(hook, call(config))
            except (Violation, NotRun):
                raise
            except (MissingDependency, DeviceUnavailable) as error:
                raise Skip(str(error), error.remedy) from error
            except (NotImplementedError, ValueError) as error:
                raise Refused(f"{hook} raised {describe(error)}") from error
            except (Exception, SystemExit) as error:
                raise hook_raised(ctx, hook, error) from error


def update_block_size(ctx: CheckContext, config: Any) -> None:
    """Call the block-size hook as a worker does; what it raises comes through.

    Raises:
        Unsupported: the installed engine has no such hook.
        Violation: it gave a coroutine or a generator.
    """
    if not ctx.knows("update_block_size_for_backend"):
        raise Unsupported("the installed engine has no update_block_size_for_backend")
    with ctx.adapter.active(ctx.platform):
        answer: object = ctx.platform.update_block_size_for_backend(config)
    ctx.must_have_run("update_block_size_for_backend", answer)


def hook_raised(ctx: CheckContext, hook: str, error: BaseException) -> Exception:
    """What a hook's exception means: a Skip where the device is absent, else a Violation."""
    mistake = isinstance(error, TypeError | AttributeError | NameError | KeyError | IndexError)
    missing = "" if mistake else ctx.device_missing()
    if missing:
        return Skip(f"{missing}; {hook} raised {describe(error)}", "run the kit where the device is")
    return ctx.raised(
        hook,
        error,
        contract_says=f"`{hook}` runs on every config that the engine builds, whatever the user turned on.",
        hint=f"Change that line{instead(describe(error))}. To refuse an option of the user's, raise NotSupported or a "
        "ValueError that names it.",
    )


def build(ctx: CheckContext, case: str) -> Any:
    """The config of a case as the first hook gets it, with the platform's device in it."""
    config = ctx.fitted.config(case)
    ctx.adapter.give_device(ctx.platform, config)
    return config


def ran(ctx: CheckContext, case: str = "plain", hooks: tuple[str, ...] = HOOKS) -> Ran:
    """Build the config of a case and run hooks on it; raises as `run_hooks` does."""
    config = build(ctx, case)
    before = after = dict(ctx.adapter.snapshot(config))
    writers: dict[str, str] = {}
    for hook in hooks:
        run_hooks(ctx, config, (hook,))
        seen = dict(ctx.adapter.snapshot(config))
        writers.update(dict.fromkeys(differences(after, seen), hook))
        after = seen
    done = Ran(config, before, after, writers)
    ctx.details[f"changed ({case})"] = {
        name: f"{short(old)} → {short(new)}" for name, (old, new) in done.changes().items()
    }
    return done


def ran_or_blame(ctx: CheckContext, case: str = "plain") -> Ran:
    """As `ran`, but a refusal is a fault: this case has to work everywhere."""
    try:
        return ran(ctx, case)
    except Refused as refused:
        hook = str(refused).split(" ", 1)[0]
        cause = refused.__cause__
        raise ctx.fail(
            hook,
            contract_says=f"The {case} config, which asks for nothing special, is accepted.",
            platform_did=str(refused),
            hint=f"Remove that refusal from `{hook}`, or write the value that you need where the user left the default; "
            "raise only for what the user asked for and you do not support.",
            location=(ctx.blame(cause) if cause is not None else "") or ctx.locate(hook),
        ) from refused


def collect(violations: list[Violation]) -> None:
    """Raise the findings of several violations as one, if there are any."""
    findings = [finding for violation in violations for finding in violation.findings]
    if findings:
        raise Violation(*findings)


def value_at(config: Any, field: str) -> Any:
    """What a config has at a dotted field of a snapshot; None where there is nothing.

    A key of a dict may have dots itself, so the longest key that fits is taken.
    """
    here, rest = config, field
    while rest:
        if is_a(here, dict):
            key = next(
                (one for one in sorted(map(str, here), key=len, reverse=True) if _leads(one, rest)), ""
            )
            here, rest = here.get(key), rest.removeprefix(key).removeprefix(".")
        else:
            name, _, rest = rest.partition(".")
            here = getattr(here, name, None)
        if here is None:
            return None
    return here


def _leads(key: str, path: str) -> bool:
    return bool(key) and (path == key or path.startswith(f"{key}."))
