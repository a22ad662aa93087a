"""What the scenes of `conformance.checks._observe` showed of the platform under test, for the checks to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from conformance.context import CheckContext
from conformance.isolation.died import ChildDied
from conformance.model import Finding, NotRun, Skip, Unsupported, Violation

OBSERVE: Final = "conformance.checks._observe:observe"


@attrs.frozen
class Shown:
    """The answers of the scenes.

    Args:
        own: the platform's own entry points, by name.
        places: `file:line` of each in its distribution's metadata.
        scenes: by name what `conformance.checks._scenes.play` gives.
    """

    own: Mapping[str, str]
    places: Mapping[str, str]
    scenes: Mapping[str, Mapping[str, Any]]

    def said(self, scene: str) -> Mapping[str, Any]:
        """What a scene returned.

        Raises:
            NotRun: its process died, which another check reports.
            RuntimeError: the kit's own code raised there.
        """
        told = self.scenes.get(scene)
        if told is None:
            raise NotRun(f"the detector hangs or ends its process, so that {scene!r} was not tried")
        if "died" in told:
            raise NotRun(
                f"the process of {scene!r} {told['died']}, see detection.detector or platform.importable"
            )
        if "raised" in told:
            raise RuntimeError(f"{scene}: {told['raised']} at {told['place']}")
        said: Mapping[str, Any] = told["said"]
        return said

    def has(self, scene: str) -> bool:
        """Say whether a scene was played and returned."""
        return "said" in self.scenes.get(scene, {})


TIMEOUT: Final = 600.0
"""Seconds for a check that reads what the scenes showed: one after the other they take long where all hang."""

_SPANS: Final = 5
"""How many scenes may follow one another and take all their time."""


def shown(ctx: CheckContext, *, stand_ins: bool = False) -> Shown:
    """What one fresh interpreter shows of the platform; the first check that asks starts it.

    Args:
        stand_ins: the check asks for imports only, which stand-ins do not disturb.

    Raises:
        Skip: it did not get through on this machine, which is slow; a scene that hangs ends before.
        Skip: stand-ins take the place of modules, which a detector must not meet.
    """
    if ctx.stubs and not stand_ins:
        raise Skip(
            f"stand-ins take the place of {', '.join(ctx.stubs)}, and a detector must not meet them",
            "run the kit without --conformance-stub where the modules are",
        )
    in_tree = ctx.adapter.in_tree(ctx.platform_cls)
    device_type: object = getattr(ctx.platform_cls, "device_type", "")
    bases = sorted({one.__module__.partition(".")[0] for one in ctx.platform_cls.__mro__} - {"builtins"})
    limit: float = getattr(getattr(ctx.fresh, "__self__", None), "limit", TIMEOUT)
    try:
        answer = ctx.fresh(
            OBSERVE,
            ctx.adapter.name,
            ctx.platform_cls.__module__,
            ctx.platform_cls.__qualname__,
            device_type if isinstance(device_type, str) else "",
            bases,
            in_tree,
            not in_tree and not ctx.device_missing(),
            limit / _SPANS,
            list(ctx.stubs),
            shared=True,
        )
    except ChildDied as died:
        if died.how != "timeout":
            raise
        raise Skip(
            f"the interpreter that imports the platform in every order {died}",
            "run the kit again with a longer --conformance-timeout",
        ) from died
    return Shown(answer["own"], answer["places"], answer["scenes"])


def need_detectors(ctx: CheckContext, seen: Shown) -> Mapping[str, str]:
    """The platform's own detectors.

    Raises:
        Unsupported: the engine ships the platform and asks for it itself.
        Skip: nothing that is installed leads to the platform's package.
    """
    if seen.own:
        return seen.own
    if ctx.adapter.in_tree(ctx.platform_cls):
        raise Unsupported("the engine ships the platform and detects it itself, without an entry point")
    package = ctx.platform_cls.__module__.partition(".")[0]
    raise Skip(
        f"no installed entry point leads into the package {package!r}",
        "install the package that ships the platform, with its entry point for platform plugins, "
        "into this environment",
    )


def activations(ctx: CheckContext) -> Iterator[tuple[str, str, Mapping[str, Any], Shown]]:
    """For each detector and moment, `importing` and `calling`: what that left in the process.

    Yields:
        The detector's `module:function`, the moment in words, what it left, and everything.
    """
    seen = shown(ctx)
    for name, function in need_detectors(ctx, seen).items():
        said = seen.said(f"activate {name}")
        for moment, words in (
            ("loading", "importing the detector's module"),
            ("calling", "calling the detector"),
        ):
            if moment in said:
                yield function, words, {**said[moment], "at": said["place"]}, seen


def raise_all(findings: list[Finding]) -> None:
    """Fail for findings, if there are any."""
    if findings:
        raise Violation(*findings)
