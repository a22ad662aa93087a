"""Names that the engine asks of its platform although no base defines them, and questions at odd moments."""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Final

from conformance.context import CheckContext, describe, kind_of
from conformance.engines.base import EngineCall
from conformance.engines.source_scan import applies, by_member
from conformance.model import Finding, Unsupported, Violation
from conformance.registry import check

_MOST_SITES: Final = 3
_NO_NAMES: Final = ("fallback.unknown-name", "identity.device-type")


def _missing(ctx: CheckContext) -> Mapping[str, Sequence[EngineCall]]:
    """Names that the engine calls without a guard and that this platform answers with None, with the calls.

    What an engine's own platform lacks too, from which this one derives, is the engine's affair.
    """
    import torch

    members = ctx.adapter.members()
    runtime: object = getattr(torch, ctx.attribute("device_type"), None)
    parent = next((one for one in ctx.platform_cls.__mro__ if _is_whole(ctx, one)), None)
    found: dict[str, Sequence[EngineCall]] = {}
    for name, uses in by_member(ctx.adapter.engine_calls()).items():
        if name in members or name.startswith("_") or getattr(runtime, name, None) is not None:
            continue
        if inspect.getattr_static(ctx.platform_cls, name, None) is not None:
            continue
        if parent is not None and not _answers(parent, name):
            continue
        calls = [
            one for one in uses if not one.is_read and not one.guarded and applies(one.requires, ctx.platform)
        ]
        with contextlib.suppress(Exception):  # an own `__getattr__` may answer it
            if getattr(ctx.platform, name) is not None:
                continue
        if calls:
            found[name] = calls
    return found


def _answers(cls: type, name: str) -> bool:
    """Say whether a platform's class has a name itself, or by way of torch."""
    import torch

    runtime: object = getattr(torch, str(getattr(cls, "device_type", "")), None)
    return inspect.getattr_static(cls, name, None) is not None or getattr(runtime, name, None) is not None


def _is_whole(ctx: CheckContext, cls: type) -> bool:
    """Say whether a class is a platform that the engine ships, not the base of all."""
    base = ctx.adapter.base_class()
    return ctx.adapter.in_tree(cls) and issubclass(cls, base) and cls is not base


def _spelled(calls: Sequence[EngineCall]) -> str:
    sites = ", ".join(one.site for one in calls[:_MOST_SITES])
    more = len(calls) - _MOST_SITES
    return sites + (f" and {more} more" if more > 0 else "")


def _findings(ctx: CheckContext, *, common: bool) -> Iterator[Finding]:
    device_type = ctx.attribute("device_type")
    found = _missing(ctx)
    for name in sorted(found, key=lambda one: (-len(found[one]), one)):
        calls = found[name]
        if any(one.common for one in calls) is not common:
            continue
        when = "Every run calls" if common else "The engine has calls of"
        yield ctx.finding(
            name,
            contract_says=f"{when} `{name}` of the platform, without a look at whether it is there: {_spelled(calls)}.",
            platform_did=f"neither the base, nor {ctx.platform_cls.__name__}, nor torch.{device_type} has `{name}`, so "
            "the fallback answers None, and calling None is a TypeError",
            hint=f"Define `{name}` in {ctx.platform_cls.__name__}"
            + ("." if common else ", if your users reach that code."),
            location=ctx.locate(),
        )


@check(
    "fallback.engine-calls",
    group="device",
    needs=_NO_NAMES,
    why="The fallback turns a missing name into None, and the call of None stops every run far from here.",
    hint="Define the name in the platform: the engine calls it in every run.",
    engines=("vllm",),
)
def engine_calls(ctx: CheckContext) -> None:
    """No name that every run calls on the platform is answered with None."""
    findings = list(_findings(ctx, common=True))
    if findings:
        raise Violation(*findings)


@check(
    "fallback.engine-names",
    group="device",
    severity="should",
    needs=_NO_NAMES,
    why="A feature that calls the name fails with a TypeError about None, which says nothing of the platform.",
    hint="Define the names whose features your users can turn on.",
    engines=("vllm",),
)
def engine_names(ctx: CheckContext) -> None:
    """No name that the engine calls anywhere on such a platform is answered with None, the most used first."""
    findings = list(_findings(ctx, common=False))
    if findings:
        raise Violation(*findings)


# -------------------------------------------------------------------------------- odd moments

_AT_IMPORT: Final = (
    "is_pin_memory_available",
    "fp8_dtype",
    "is_fp8_fnuz",
    "get_cpu_architecture",
    "support_static_graph_mode",
    "is_cuda",
    "is_cuda_alike",
    "is_rocm",
    "is_xpu",
    "is_tpu",
    "is_cpu",
    "is_out_of_tree",
    "get_compile_backend",
    "use_sync_weight_loader",
    "use_custom_op_collectives",
)
"""Questions that engines ask while their own modules are being imported."""

_HALF_IMPORTED: Final = (
    "vllm.distributed",
    "vllm.v1",
    "vllm.model_executor",
    "vllm.engine",
    "reference_model",
    "reference_engine",
)
"""Parts of an engine that are not there yet at that moment."""


@contextlib.contextmanager
def _half_imported() -> Generator[None]:
    """Make the engine's later parts unimportable for a while, as they are while the engine is being imported."""
    taken = {
        name: module
        for name, module in sys.modules.items()
        if any(name == one or name.startswith(f"{one}.") for one in _HALF_IMPORTED)
    }
    for name in taken:
        del sys.modules[name]
    for name in _HALF_IMPORTED:
        sys.modules[name] = None  # type: ignore[assignment]  # Python's own way to say "cannot be imported"
    try:
        yield
    finally:
        for name in _HALF_IMPORTED:
            sys.modules.pop(name, None)
        sys.modules.update(taken)


@check(
    "members.while-importing",
    group="identity",
    after_plugins=False,  # which an engine runs once it has been imported
    per_member=True,
    needs=("members.kinds", "members.engine-calls"),
    why="The engine asks while its own modules are being imported; what needs more of them fails its import.",
    hint="Answer from the class's own data; import nothing of the engine's there, nor in a logger's once-only call.",
)
def while_importing(ctx: CheckContext) -> None:
    """Questions that the engine asks during its own import need none of its later parts."""
    findings: list[Finding] = []
    for member in _AT_IMPORT:
        if not ctx.knows(member) or not ctx.overridden(member):
            continue
        owner = ctx.owner(member)
        if owner is not None and ctx.adapter.in_tree(owner):
            continue
        call = getattr(ctx.platform, member)
        if not callable(call):
            continue
        try:
            call()
        except (Exception, SystemExit) as error:
            ctx.details[member] = describe(error)  # judged by the check of its answer
            continue
        try:
            with _half_imported():
                call()
        except ImportError as error:
            findings.append(
                ctx.finding(
                    member,
                    contract_says=f"`{member}` answers while the engine is being imported, without its later parts.",
                    platform_did=f"where {error.name or 'they'} cannot be imported yet, it raised {describe(error)}",
                    hint=f"Remove that import from `{member}` and from what it calls.",
                    location=ctx.blame(error) or ctx.locate(member),
                )
            )
    if findings:
        raise Violation(*findings)


_FROM_THREADS: Final = (
    "manual_seed_all",
    "inference_mode",
    "get_device_name",
    "get_device_capability",
    "get_device_total_memory",
    "import_kernels",
    "is_pin_memory_available",
    "device_id_to_physical_device_id",
    "num_compute_units",
    "get_current_memory_usage",
    "set_device",
)
"""Members that executors call from helper threads, or that two threads may call at once."""


@check(
    "members.other-thread",
    group="identity",
    per_member=True,
    needs=("members.kinds", "members.engine-calls"),
    why="Executors ask from helper threads; an exception there ends the thread, and the run waits for ever.",
    hint="Keep nothing in thread-local storage, and start no event loop or signal handler in a member.",
)
def other_thread(ctx: CheckContext) -> None:
    """What a member does in the main thread it does in another one too."""
    findings: list[Finding] = []
    for member in _FROM_THREADS:
        if not ctx.knows(member) or not ctx.overridden(member):
            continue
        for call in ctx.adapter.arguments(member):
            function = getattr(ctx.platform, member)

            def ask(function: Any = function, call: Any = call) -> object:
                return function(*call.args, **call.kwargs)

            first = _outcome(ask)
            if isinstance(first, BaseException):
                ctx.details[member] = describe(first)  # judged by the checks of its answer
                continue
            other = _in_thread(ask)
            again = _outcome(ask) if isinstance(other, BaseException) else first
            if isinstance(again, BaseException):
                ctx.details[member] = describe(again)  # it raises the second time, in whatever thread
                continue
            if isinstance(other, BaseException):
                did = f"in another thread it raised {describe(other)}; in the main thread it gave {kind_of(first)}"
            elif type(other) is not type(first):
                did = f"in another thread it gave {kind_of(other)}; in the main thread {kind_of(first)}"
            else:
                continue
            findings.append(
                ctx.finding(
                    member,
                    contract_says=f"`{member}` can be called from any thread.",
                    platform_did=did,
                    hint=f"Let `{member}` use nothing that only the main thread has.",
                    location=(ctx.blame(other) if isinstance(other, BaseException) else "")
                    or ctx.locate(member),
                )
            )
            break
    if findings:
        raise Violation(*findings)


def _outcome(ask: Any) -> object:
    try:
        return ask()
    except (Exception, SystemExit) as error:
        return error


def _in_thread(ask: Any) -> object:
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(_outcome(ask)), name="conformance-helper")
    thread.start()
    thread.join()
    return answers[0] if answers else Unsupported("the thread ended without an answer")
