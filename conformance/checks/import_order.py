"""Import order: whichever of plugin, platform and engine is imported first, the engine has the same platform."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from conformance.checks._shown import TIMEOUT, Shown, raise_all, shown
from conformance.context import CheckContext
from conformance.model import IMPORTABLE, Finding, NotRun, Skip, Unsupported
from conformance.registry import check


@check(
    "import-order.plugin-first",
    group="resolution",
    needs=(IMPORTABLE,),
    where="fresh",
    timeout=TIMEOUT,
    why="Users import a plugin before the engine; if that resolves the platform while the plugin is half "
    "imported, the process silently runs on another one.",
    hint="Let the plugin's package and the platform's module import of the engine only what resolves nothing.",
)
def plugin_first(ctx: CheckContext) -> None:
    """With the plugin's package, or the platform's module, imported before the engine, the class is chosen."""
    if ctx.adapter.in_tree(ctx.platform_cls):
        raise Unsupported("the engine ships the platform, so that its package always comes first")
    seen = shown(ctx, stand_ins=True)
    package, module = ctx.platform_cls.__module__.partition(".")[0], ctx.platform_cls.__module__
    findings: list[Finding] = []
    for scene, name in (("package first", package), ("module first", module)):
        told = seen.scenes.get(scene)
        if told is None or findings:
            continue
        if "died" in told:
            did = f"the process that imports {name} first {told['died']}"
        else:
            did = _wrong(ctx, seen, seen.said(scene), name)
        if not did:
            continue
        findings.append(
            Finding(
                contract_says="Importing a plugin resolves no platform: with its package or the platform's "
                "module imported first, the engine chooses the class as it does when the engine comes first.",
                platform_did=did,
                member=name,
                location=_place(ctx, told, package=scene == "package first"),
                hint=f"Import in {name} nothing of the engine that asks for its current platform at import; "
                "move such imports into the functions that use them.",
            )
        )
    raise_all(findings)


def _wrong(ctx: CheckContext, seen: Shown, said: Mapping[str, Any], name: str) -> str:
    """What is wrong when a module comes first; empty if nothing is.

    Raises:
        NotRun: the engine cannot import it either, which another check reports.
    """
    resolved = seen.scenes.get("resolve", {"said": {"resolved": "?"}}).get("said", {})
    if (said["error"] or said["refused"]) and not resolved.get("resolved"):
        raise NotRun(f"{said['error'] or said['refused']}, see detection.resolves")
    if said["error"]:
        return f"importing {name} first, in a fresh process, raised {said['error']}"
    if said["during"] and said["during"] != ctx.qualname:
        why = f"; loading the detector raised {said['loading'][0]}" if said["loading"] else ""
        return (
            f"while `import {name}` ran first, in a fresh process, the engine already chose its platform: "
            f"{said['during']}{why}"
        )
    if said["refused"]:
        return f"after `import {name}` the engine cannot choose its platform: {said['refused']}"
    if said["after"] and said["after"] != ctx.qualname:
        return (
            f"after `import {name}`, with the detector saying yes, the engine's platform is {said['after']}"
        )
    return ""


def _place(ctx: CheckContext, told: Mapping[str, Any], *, package: bool) -> str:
    place: str = told.get("said", {}).get("place", "")
    if place or not package:
        return place or ctx.locate()
    import sys

    found: Any = sys.modules.get(ctx.platform_cls.__module__.partition(".")[0])
    file = getattr(found, "__file__", None)
    return f"{file}:1" if file else ctx.locate()


@check(
    "import-order.engine-entries",
    group="resolution",
    needs=(IMPORTABLE, "platform.instantiable"),
    where="fresh",
    timeout=TIMEOUT,
    why="The engine asks the platform while it imports itself; what raises then, or imports what is half "
    "there, makes `import` of the engine fail for every user.",
    hint="Let members that the engine reads at import answer without importing the engine.",
)
def engine_entries(ctx: CheckContext) -> None:
    """Every part of the engine that users import first can be imported while the class is the platform."""
    if ctx.adapter.in_tree(ctx.platform_cls):
        raise Unsupported("the engine ships the platform, and is tested with it")
    said = shown(ctx).said("entries")
    if missing := "" if said["entries"] else ctx.device_missing():
        raise Skip(
            f"the engine is imported under the platform where its device is; here is no {missing.removeprefix('a ')}",
            "run the kit on a machine that has it",
        )
    if not said["entries"]:
        raise Skip(
            f"the class is not the platform of this machine (that is {said['resolved'] or 'none'})",
            "run the kit on a machine that has the device",
        )
    ctx.details["imported"] = sorted(said["entries"])
    raise_all(
        [
            Finding(
                contract_says="The engine can be imported while the class is its current platform.",
                platform_did=f"`import {name}` raised {failed[0]}",
                member=name,
                location=failed[1] or ctx.locate(),
                hint=_entry_hint(failed[0]),
            )
            for name, failed in said["entries"].items()
            if failed is not None
        ][:1]
    )


def _entry_hint(error: str) -> str:
    """What to do where the engine cannot be imported, by what that raised."""
    blocked = re.search(r"import of (\S+) halted", error)
    if blocked:
        return f'Remove what puts None at sys.modules["{blocked[1]}"]: the engine imports it.'
    return (
        "Let the member in whose line that was raised answer without importing a part of the engine: such an import "
        "belongs into a function that runs later."
    )


@check(
    "import-order.early-questions",
    group="resolution",
    needs=(IMPORTABLE, "platform.instantiable", "members.while-importing"),
    where="fresh",
    timeout=TIMEOUT,
    why="The engine asks these while it is half imported; an import of the engine there is a circle.",
    hint="Answer from the class, the machine or torch, and log through `logging`.",
)
def early_questions(ctx: CheckContext) -> None:
    """What the engine asks while it imports itself is answered without a part of the engine that is not there yet."""
    said = shown(ctx).said("early")
    if said["failed"]:
        raise NotRun(f"there is no instance in a fresh process: {said['failed']}")
    raise_all(
        [
            ctx.finding(
                name,
                contract_says=f"`{name}` answers while the engine is still being imported.",
                platform_did=f"asked in a process that has only the engine's platforms, it raised {error}",
                hint=f"Let `{name}` import nothing of the engine; where it must, do so in a try that falls "
                "back to a plain answer.",
                location=place,
            )
            for name, (error, place) in said["raised"].items()
            if "the engine is still being imported" in error
        ]
    )
