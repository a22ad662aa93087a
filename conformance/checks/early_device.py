"""The device before workers: importing, detecting, configuring and front-end questions leave its runtime alone."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from conformance.checks import _configs, _watch
from conformance.checks._runtime import Runtime, initialised
from conformance.checks._shown import TIMEOUT, Shown, raise_all, shown
from conformance.context import CheckContext, locate
from conformance.general_plugins import CHECK as PLUGINS
from conformance.model import IMPORTABLE, Finding, NotRun, Skip, Unsupported, Violation
from conformance.places import quoted
from conformance.registry import check

_QUESTIONS: Final = (
    "get_device_name",
    "get_device_total_memory",
    "is_pin_memory_available",
    "get_compile_backend",
    "supported_dtypes",
    "use_custom_allreduce",
    "support_static_graph_mode",
    "get_max_output_tokens",
)
"""What the front end asks of a platform while it builds a config."""

_BIG: Final = 1 << 30
_SAYS: Final = (
    "The device's runtime is initialised in workers only: a process that has initialised it cannot fork them, "
    "and holds memory of a device that is not its own."
)


def _did(left: Mapping[str, Any]) -> tuple[str, str]:
    """What touched a device, in words, and its place; empty if nothing did."""
    calls: Sequence[Sequence[str]] = left.get("runtime", ())
    devices: Sequence[str] = left.get("devices", ())
    parts = [f"{what} was called" if place else f"{what} is initialised" for what, place in calls[:3]]
    parts += [f"{one} is open" for one in devices[:3]]
    return ", ".join(parts), next((place for _, place in calls if place), "")


def _moments(seen: Shown) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Each import or call of the vendor's code before a worker: words, member, what it left."""
    for name, function in seen.own.items():
        if not seen.has(f"activate {name}"):
            continue
        said = seen.said(f"activate {name}")
        yield "importing the detector's module", function, {**said["loading"], "at": said["place"]}
        if "calling" in said:
            yield "calling the detector", function, {**said["calling"], "at": said["place"]}
    if seen.has("module"):
        yield "importing the platform and making its instance", "", seen.said("module")


@check(
    "device.untouched-by-import",
    group="device",
    needs=(IMPORTABLE,),
    where="fresh",
    timeout=TIMEOUT,
    why="Every process imports the platform and asks its detector, also those that fork workers afterwards.",
    hint="Ask a management library or the device files; open the runtime in the worker.",
)
def by_import(ctx: CheckContext) -> None:
    """Importing the platform, and importing and calling its detector, initialises no device runtime."""
    seen = shown(ctx)
    findings: list[Finding] = []
    for moment, member, left in _moments(seen):
        did, place = _did(left)
        if did and not findings:
            findings.append(
                Finding(
                    contract_says=_SAYS,
                    platform_did=f"{moment}: {did}",
                    member=member or ctx.platform_cls.__name__,
                    location=place or left.get("at") or ctx.locate(),
                    hint="Ask the machine without the runtime: a management library, device files, or "
                    "`is_available`; keep what needs the runtime for the worker.",
                )
            )
    raise_all(findings)


@check(
    "device.untouched-by-plugins",
    group="device",
    needs=(PLUGINS, "device.untouched-by-import"),
    after_plugins=False,  # it says what was seen when they were tried
    why="General plugins run in every process, the front end among them, before workers exist.",
    hint="Register there what is needed, and leave the runtime to the worker's init_device.",
)
def by_plugins(ctx: CheckContext) -> None:
    """The general plugins that the platform's distribution publishes initialise no device runtime."""
    if not ctx.plugins.points:
        raise Unsupported("the platform comes with no general plugin")
    did, place = _did({"runtime": ctx.plugins.trial.started})
    if did:
        values = ", ".join(value for _, value in ctx.plugins.points)
        raise Violation(
            Finding(
                contract_says=_SAYS,
                platform_did=f"while the general plugins ran ({values}), {did}{quoted(place)}",
                member=ctx.plugins.points[0][1],
                location=place or _place_of(*ctx.plugins.points[0]) or ctx.plugins.points[0][1],
                hint="Let the plugin register the device and its ops without asking the device for anything; what "
                "needs the runtime belongs into the worker's init_device.",
            )
        )


def _place_of(name: str, value: str) -> str:
    """`file:line` of the function of an entry point, which has been imported before; empty where it cannot be seen."""
    try:
        return locate(importlib.metadata.EntryPoint(name, value, "").load())
    except (Exception, SystemExit):
        return ""


@check(
    "device.untouched-by-hooks",
    group="device",
    needs=("config.plain", "device.untouched-by-import", "device.untouched-by-plugins"),
    why="The config hooks run in the front end, before workers exist.",
    hint="Decide from the config, a management library or the environment; open the runtime in the worker.",
)
def by_hooks(ctx: CheckContext) -> None:
    """The config hooks initialise no device runtime."""
    _need_a_device_runtime(ctx)
    config = _configs.build(ctx, "plain")
    runtime, known = Runtime(_device_type(ctx)), _watch.open_devices()
    findings: list[Finding] = []
    for hook in _configs.HOOKS:
        with contextlib.suppress(_configs.Refused, Skip):
            _configs.run_hooks(ctx, config, (hook,))
        left = {
            "runtime": _not_by_questions(runtime.take(), ctx),
            "devices": [one for one in _watch.open_devices() if one not in known],
        }
        did, place = _did(left)
        if did:
            findings.append(
                ctx.finding(
                    hook,
                    contract_says=_SAYS,
                    platform_did=f"in `{hook}` {did}",
                    hint=f"Do without the runtime in `{hook}`; what needs it belongs into the worker's "
                    "init_device.",
                    location=place,
                )
            )
    raise_all(findings)


@check(
    "device.untouched-by-questions",
    group="device",
    severity="should",
    needs=(
        "platform.instantiable",
        "members.kinds",
        "device.untouched-by-import",
        "device.untouched-by-plugins",
    ),
    per_member=False,
    why="The front end asks for name and memory before ranks are bound: a runtime that opens there opens the "
    "same device in every rank.",
    hint="Answer from a management library, or raise NotSupported: that is a conforming answer.",
)
def by_questions(ctx: CheckContext) -> None:
    """What the front end asks while it builds a config initialises no device runtime."""
    _need_a_device_runtime(ctx)
    runtime = Runtime(_device_type(ctx))
    findings: list[Finding] = []
    for name in _QUESTIONS:
        if not ctx.knows(name) or not ctx.overridden(name):
            continue
        for _ in _asked(ctx, name):
            did, place = _did({"runtime": runtime.take()})
            if did:
                findings.append(
                    ctx.finding(
                        name,
                        contract_says=_SAYS,
                        platform_did=f"asked for `{name}`, {did}",
                        hint=f"Answer `{name}` from a management library or the host's files; where the runtime "
                        "alone knows, raise NotSupported.",
                        location=place,
                    )
                )
    raise_all(findings)


def _asked(ctx: CheckContext, name: str) -> Iterable[object]:
    """Ask a member once, whatever it answers or raises; other checks judge that."""
    with contextlib.suppress(Exception, SystemExit), ctx.adapter.active(ctx.platform):
        answer = getattr(ctx.platform, name)
        if callable(answer):
            for call in ctx.adapter.arguments(name)[:1]:
                answer(*call.args, **call.kwargs)
    return (None,)


def _not_by_questions(calls: list[list[str]], ctx: CheckContext) -> list[list[str]]:
    """The calls that the hook itself made, not a question that it asked the engine's own classes."""
    import sys

    base = ctx.adapter.base_class().__module__.partition(".")[0]
    if ctx.adapter.in_tree(ctx.platform_cls):
        return calls
    folders = [str(getattr(sys.modules.get(one), "__file__", "?")).rpartition("/")[0] for one in (base,)]
    return [one for one in calls if not any(one[1].startswith(f"{folder}/") for folder in folders)]


def _device_type(ctx: CheckContext) -> str:
    found: object = getattr(ctx.platform_cls, "device_type", "")
    return found if isinstance(found, str) else ""


def _need_a_device_runtime(ctx: CheckContext) -> None:
    """Stop where the runtime is there already, so that nothing could be seen.

    Raises:
        NotRun: it is.
        Unsupported: the class cannot have one.
    """
    there = initialised(_device_type(ctx))
    if there:
        raise NotRun(f"torch.{there[0]} is initialised in this process already")


@check(
    "import-order.fork-safe",
    group="resolution",
    needs=(IMPORTABLE,),
    where="fresh",
    timeout=TIMEOUT,
    why="Engines fork workers after the platform is imported: a fork keeps one thread, and locks that others "
    "held stay locked.",
    hint="Start threads and take memory in the worker, not at import.",
)
def fork_safe(ctx: CheckContext) -> None:
    """Importing the platform and asking its detector starts no thread and takes no great memory."""
    seen = shown(ctx)
    findings: list[Finding] = []
    for moment, member, left in _moments(seen):
        did = [f"the thread {name!r} runs" for name in left["threads"][:3]]
        if left["memory"] > _BIG:
            did.append(f"the process holds {left['memory'] / _BIG:.1f} GiB more")
        if did and not findings:
            findings.append(
                Finding(
                    contract_says="Importing the platform and asking its detector starts no thread and takes "
                    "less than 1 GiB, so that the process can fork.",
                    platform_did=f"after {moment}, {', '.join(did)}",
                    member=member or ctx.platform_cls.__name__,
                    location=left.get("at") or ctx.locate(),
                    hint="Start it where it is first needed in a worker (`init_device`), or lazily.",
                )
            )
    raise_all(findings)


@check(
    "import-order.side-effects",
    group="resolution",
    severity="should",
    needs=(IMPORTABLE,),
    where="fresh",
    timeout=TIMEOUT,
    why="Whoever imports the platform to look at it gets replaced functions, logging and variables with it.",
    hint="Do in hooks and workers what changes the process.",
)
def side_effects(ctx: CheckContext) -> None:
    """Importing the platform's module leaves functions, logging, variables, settings and files as they were."""
    seen = shown(ctx, stand_ins=True)
    left = seen.said("module")
    known: list[Any] = []
    for name in seen.own:
        if seen.has(f"activate {name}"):
            said = seen.said(f"activate {name}")
            for part in (said["loading"], said.get("calling", {})):
                known += [*part.get("code", ()), *part.get("settings", ()), *part.get("logs", ())]
                known += list(part.get("env", {}))
    did = [one for part in ("code", "logs", "settings", "files") for one in left[part] if one not in known]
    for name, (old, new) in left["env"].items():
        if old is not None and name not in known and (new is None or old not in new):
            did.append(f"{name}: {old} → {new or 'unset'}")
    if seen.has("module of a user"):
        users = seen.said("module of a user")["users"]
        did += [
            f"{name}, which a user had set, → {new or 'unset'}"
            for name, new in users.items()
            if name not in known
        ]
    ctx.details["variables"] = {name: new for name, (_, new) in left["env"].items()}
    if not did:
        return
    if ctx.adapter.in_tree(ctx.platform_cls):
        raise Unsupported(f"the engine's own platform does so: {'; '.join(did[:6])}")
    raise ctx.fail(
        "",
        contract_says="Importing the platform's module defines classes; it changes nothing of the process.",
        platform_did=f"after importing it, {'; '.join(did[:6])}",
        hint="Move it into a config hook, `import_kernels` or the worker; keep a variable that is set "
        "(os.environ.setdefault).",
    )
