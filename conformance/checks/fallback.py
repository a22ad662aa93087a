"""The fallback: names that no group defines are answered by torch.<device_type>, as it is now."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Final

from conformance.context import CheckContext, describe, kind_of
from conformance.model import Finding, Skip, Unsupported, Violation
from conformance.places import quoted
from conformance.registry import check
from conformance.remedies import instead

_UNKNOWN: Final = "conformance_kit_unknown_name"
_DUNDER: Final = "__conformance_kit_unknown__"
_PROBE: Final = "conformance_kit_probe"


def _need_fallback(ctx: CheckContext) -> None:
    if inspect.getattr_static(ctx.adapter.base_class(), "__getattr__", None) is None:
        raise Unsupported("the installed engine's base class has no fallback for unknown names")


_END: Final = "In `__getattr__`, end with `return super().__getattr__(key)` for every name that is not the platform's own,"


@check(
    "fallback.unknown-name",
    group="device",
    why="Engines probe for optional names; an exception there stops a run that does not need them.",
    hint="Remove `__getattr__` from the platform: the base answers from torch and else with None.",
)
def unknown_name(ctx: CheckContext) -> None:
    """A name that nobody has gives None."""
    _need_fallback(ctx)
    says = "A name that neither the platform nor torch has is answered with None, without an exception."
    try:
        value = getattr(ctx.platform, _UNKNOWN)
    except Exception as error:
        raise ctx.raised(
            "__getattr__", error, contract_says=says, hint=f"{_END} without raising before it."
        ) from error
    if value is not None:
        raise ctx.fail(
            "__getattr__",
            contract_says=says,
            platform_did=f"platform.{_UNKNOWN} is {kind_of(value)}",
            hint=f"{_END} as it is: an answer in the place of None hides a missing member.",
        )


@check(
    "fallback.dunder",
    group="device",
    why="Pickle and copy ask for optional dunder names; any answer but AttributeError breaks them.",
    hint="Raise AttributeError for names with leading and trailing double underscores.",
)
def dunder(ctx: CheckContext) -> None:
    """A dunder name that nobody has raises AttributeError."""
    says = "A dunder name that the class does not have raises AttributeError."
    hint = (
        "Remove `__getattr__`, or start it with: if the name begins and ends with `__`, raise AttributeError."
    )
    try:
        value = getattr(ctx.platform, _DUNDER)
    except AttributeError:
        return
    except Exception as error:
        raise ctx.raised("__getattr__", error, contract_says=says, hint=hint) from error
    if not ctx.overridden("__getattr__"):
        raise Unsupported("the fallback of the installed engine's base answers dunder names too")
    raise ctx.fail(
        "__getattr__", contract_says=says, platform_did=f"{_DUNDER} gave {kind_of(value)}", hint=hint
    )


@check(
    "fallback.live",
    group="device",
    needs=("fallback.unknown-name", "identity.device-type"),
    why="Engines call torch's device functions through the platform; a stale or missing one acts elsewhere.",
    hint="Leave unknown names to the base, which reads torch.<device_type> at each access.",
)
def live(ctx: CheckContext) -> None:
    """What torch.<device_type> has now is what the platform answers, also after it was replaced."""
    import torch

    _need_fallback(ctx)
    device_type: Any = ctx.attribute("device_type")
    runtime: Any = getattr(torch, device_type, None)
    if runtime is None:
        raise Skip(f"torch has no torch.{device_type} here", "install the torch extension of the device")
    value: object = None
    for what in ("a new name", "a replaced value"):
        last, value = value, object()
        setattr(runtime, _PROBE, value)
        try:
            answer = getattr(ctx.platform, _PROBE, None)
        finally:
            delattr(runtime, _PROBE)
        if answer is not value:
            raise ctx.fail(
                "__getattr__",
                contract_says=f"A name that torch.{device_type} has is answered with that very object, "
                "looked up at each read.",
                platform_did=f"for {what} in torch.{device_type} the platform answered "
                + (
                    "None"
                    if answer is None
                    else "the value that was there before"
                    if answer is last
                    else kind_of(answer)
                ),
                hint=f"{_END} without keeping the answer.",
            )


@check(
    "fallback.property-errors",
    group="device",
    why="An AttributeError in a property makes Python ask the fallback, which hides it behind a None.",
    hint="Fix the attribute that the property's body asks for.",
)
def property_errors(ctx: CheckContext) -> None:
    """No property of the platform raises AttributeError."""
    findings: list[Finding] = []
    for name in dir(ctx.platform_cls):
        raw: Any = ctx.raw(name)
        if not isinstance(raw, property | functools.cached_property) or not ctx.overridden(name):
            continue
        read = raw.fget if isinstance(raw, property) else raw.func
        if read is None:
            continue
        try:
            read(ctx.platform)
        except AttributeError as error:
            findings.append(
                ctx.finding(
                    name,
                    contract_says="A property's own AttributeError must not turn into the fallback's answer.",
                    platform_did=f"the body of `{name}` raised {describe(error)}{quoted(ctx.blame(error))}",
                    hint=f"Change that line{instead(describe(error))}.",
                    location=ctx.blame(error) or ctx.locate(name),
                )
            )
        except Exception as error:  # other errors are seen by whoever reads it, and judged where it matters
            ctx.details[name] = describe(error)
    if findings:
        raise Violation(*findings)
