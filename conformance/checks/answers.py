"""Answers of plain type: what each member that takes plain arguments gives back, without a device."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from conformance.context import CheckContext, is_a, kind_of, short
from conformance.model import NotRun, Skip, Unsupported, Violation
from conformance.registry import check


@attrs.frozen
class Expected:
    """What a member answers with.

    Args:
        text: ends the sentence "`member` answers with …".
        accepts: says whether an answer is that.
        may_decline: NotSupported is an answer too.
        steady: it is the same each time.
    """

    text: str
    accepts: Callable[[Any], bool]
    may_decline: bool = False
    steady: bool = False


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_dtype(value: Any) -> bool:
    return type(value).__name__ == "dtype" and type(value).__module__ == "torch"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_infinity_pair(value: Any) -> bool:
    return is_a(value, tuple) and len(value) == 2 and all(map(_is_number, value)) and value[0] < value[1]


def _is_nixl_map(value: Any) -> bool:
    return is_a(value, dict) and all(
        isinstance(key, str) and is_a(buffers, tuple, list) and all(isinstance(b, str) for b in buffers)
        for key, buffers in value.items()
    )


def _is_dtypes(value: Any) -> bool:
    return is_a(value, list, tuple) and bool(value) and all(map(_is_dtype, value))


def _is_cores(value: Any) -> bool:
    return is_a(value, list, tuple) and all(
        is_a(node, list, tuple, set, frozenset) and all(isinstance(core, int) for core in node)
        for node in value
    )


def _is_nodes(value: Any) -> bool:
    return value is None or (is_a(value, list, tuple) and all(isinstance(node, int) for node in value))


def _is_architecture(value: Any) -> bool:
    return type(value).__name__ == "CpuArchEnum"


def _is_version(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_context(value: object) -> bool:
    cls = type(value)
    return all(inspect.getattr_static(cls, name, None) for name in ("__enter__", "__exit__"))


def _stops_gradients(value: Any) -> bool:
    import torch

    if not _is_context(value):
        return False
    try:
        with value:
            return torch.is_inference_mode_enabled() or not torch.is_grad_enabled()
    except Exception:
        return True  # what it raises may be for want of the device


_BOOL: Final = Expected("True or False, a real bool", _is_bool)
_BOOLS: Final = (
    "is_sleep_mode_available",
    "is_cumem_allocator_available",
    "can_update_inplace",
    "enable_multi_stream_overlap",
    "supports_mx",
    "supports_fp8",
    "is_fp8_fnuz",
    "use_all_gather",
    "use_custom_allreduce",
    "support_hybrid_kv_cache",
    "support_static_graph_mode",
    "support_deep_gemm",
    "use_custom_op_collectives",
    "is_arch_support_pdl",
    "use_sync_weight_loader",
    "opaque_attention_op",
    "is_on_gfx9",
)
_DEVICE_BOOLS: Final = (
    "is_pin_memory_available",
    "is_integrated_gpu",
    "has_device_capability",
    "is_device_capability",
    "is_device_capability_family",
    "is_fully_connected",
)
CAPABILITIES: Final = {
    **dict.fromkeys(_BOOLS, _BOOL),
    "get_nixl_supported_devices": Expected("a dict: device type to a tuple of buffer devices", _is_nixl_map),
    "get_nixl_memory_type": Expected("text or None", lambda value: value is None or isinstance(value, str)),
    "pass_key": Expected("non-empty text", lambda value: isinstance(value, str) and bool(value)),
}
DEVICE: Final = {
    **dict.fromkeys(_DEVICE_BOOLS, _BOOL),
    "supported_dtypes": Expected("a non-empty list of torch.dtype, the default first", _is_dtypes),
    "fp8_dtype": Expected("a torch.dtype", _is_dtype),
    "get_infinity_values": Expected("a pair of numbers, the smaller first", _is_infinity_pair),
    "inference_mode": Expected("a context manager in which torch records no gradient", _stops_gradients),
    "get_cpu_architecture": Expected("a member of the engine's CpuArchEnum", _is_architecture),
    "get_cuda_runtime_major": Expected("a whole number, 0 where there is no CUDA", _is_version),
    "discover_numa_topology": Expected(
        "a list of nodes, each a list of core numbers", _is_cores, may_decline=True
    ),
    "get_all_device_numa_nodes": Expected("None, or a list of node numbers", _is_nodes, may_decline=True),
}


def judge(ctx: CheckContext, expected: Iterable[tuple[str, Expected]]) -> None:
    """Ask each overridden member and collect every answer of another type into one violation.

    Raises:
        Violation: an answer is of another type, or the member raised.
        Skip: nothing is wrong, and a member could not answer on this machine.
    """
    violations: list[Violation] = []
    skipped: list[Skip] = []
    for member, what in expected:
        if not ctx.overridden(member):
            continue
        says = f"`{member}` answers with {what.text}."
        hint = f"Return from `{member}` {what.text}."
        try:
            with ctx.adapter.active(ctx.platform):
                answers = list(_answers(ctx, member, says, hint))
                again = list(_answers(ctx, member, says, hint)) if what.steady else answers
            violations += _misanswered(ctx, member, what, answers, again)
        except Skip as skip:
            skipped.append(skip)
        except NotRun as reason:
            ctx.details[member] = str(reason)
        except Unsupported as declined:
            if what.may_decline:
                ctx.details[member] = str(declined)
                continue
            violations.append(
                ctx.fail(
                    member,
                    contract_says=f"{says} It may not decline.",
                    platform_did=str(declined),
                    hint=f"{hint} A platform that cannot do it says False or leaves the base's answer.",
                )
            )
        except Violation as violation:
            violations.append(violation)
    if violations:
        raise Violation(*(finding for one in violations for finding in one.findings))
    if skipped:
        raise skipped[0]


def _misanswered(
    ctx: CheckContext,
    member: str,
    what: Expected,
    answers: Iterable[tuple[str, Any]],
    again: Iterable[tuple[str, Any]],
) -> list[Violation]:
    """The first answer that is none of those expected, or that is another one when asked again."""
    for (call, answer), (_, other) in zip(answers, again, strict=True):
        if not what.accepts(answer):
            return [
                ctx.fail(
                    member,
                    contract_says=f"`{member}` answers with {what.text}.",
                    platform_did=f"{call} gave {kind_of(answer)}",
                    hint=f"Return from `{member}` {what.text}.",
                )
            ]
        if other is not answer and other != answer:
            return [
                ctx.fail(
                    member,
                    contract_says=f"`{member}` tells a fact of the device: it answers the same each time.",
                    platform_did=f"{call} gave {short(answer)}, and {short(other)} when asked again",
                    hint=f"Compute the answer of `{member}` from the device alone, or keep the first one.",
                )
            ]
    return []


def _answers(ctx: CheckContext, member: str, says: str, hint: str) -> Iterable[tuple[str, Any]]:
    if ctx.adapter.members()[member].kind != "property":
        yield from ctx.ask_all(member, contract_says=says, hint=hint)
        return
    raw = ctx.raw(member)
    try:
        answer = raw.fget(ctx.platform) if is_a(raw, property) else getattr(ctx.platform, member)
    except AttributeError as error:
        raise NotRun(f"{member} raises AttributeError, see fallback.property-errors") from error
    except NotImplementedError as error:
        raise Unsupported(f"{member} raises {type(error).__name__}: {error}") from error
    except Exception as error:
        missing = ctx.device_missing()
        if missing:
            raise Skip(missing, "run the kit where the device is") from error
        raise ctx.raised(member, error, contract_says=says, hint=hint) from error
    if callable(answer):
        raise NotRun(f"{member} is a function, see members.kinds")
    yield member, answer


def _known(ctx: CheckContext, table: dict[str, Expected]) -> Iterable[tuple[str, Expected]]:
    members = ctx.adapter.members()
    return [(name, what) for name, what in table.items() if name in members]


@check(
    "capabilities.answers",
    group="capabilities",
    needs=("platform.instantiable", "identity.device-type"),
    why="Engines put the answers into conditions and configs; None or a truthy object means something else.",
    hint="Answer each yes/no question with a bool, without the device.",
)
def capabilities(ctx: CheckContext) -> None:
    """Each capability that the platform overrides answers with a real bool, or its own plain type."""
    judge(ctx, _known(ctx, CAPABILITIES))


@check(
    "device.answers",
    group="device",
    needs=("platform.instantiable", "identity.device-type"),
    why="Engines read dtypes and memory facts while they build the config, before any device is set up.",
    hint="Answer with the documented type, without initialising the device.",
)
def device(ctx: CheckContext) -> None:
    """Each device question that needs no device answers with its documented type."""
    judge(ctx, _known(ctx, DEVICE))


@check(
    "capabilities.graph-wrapper",
    group="capabilities",
    needs=("capabilities.answers", "pickers.static-graph.importable"),
    why="With the capability on, the engine asks for the wrapper and captures graphs with it.",
    hint="Name a graph wrapper, or answer False in support_static_graph_mode.",
)
def graph_wrapper(ctx: CheckContext) -> None:
    """A platform that says it runs static graphs names the wrapper."""
    flag, picker = "support_static_graph_mode", "get_static_graph_wrapper_cls"
    says = f"Where `{flag}` says True, `{picker}` names the wrapper."
    hint = f"Override `{picker}`, or let `{flag}` return False."
    if not ctx.ask(flag, contract_says=says, hint=hint):
        return
    try:
        ctx.ask(picker, contract_says=says, hint=hint)
    except Unsupported as declined:
        raise ctx.fail(
            flag,
            contract_says=says,
            platform_did=f"`{flag}` says True, and {declined}",
            hint=hint,
        ) from declined


@check(
    "capabilities.graph-mode-off",
    group="capabilities",
    severity="should",
    needs=("capabilities.answers", "pickers.static-graph.surface"),
    why="The engine turns graphs off without a word where the capability says no.",
    hint="Answer True in support_static_graph_mode, or remove the wrapper.",
)
def graph_mode_off(ctx: CheckContext) -> None:
    """A platform that ships a graph wrapper says that it runs static graphs."""
    flag, picker = "support_static_graph_mode", "get_static_graph_wrapper_cls"
    if not ctx.overridden(picker):
        return
    says = f"A platform that names a wrapper in `{picker}` says True in `{flag}`."
    hint = f"Let `{flag}` return True, or remove `{picker}`."
    try:
        name = ctx.ask(picker, contract_says=says, hint=hint)
    except Unsupported:
        return
    if not ctx.ask(flag, contract_says=says, hint=hint):
        raise ctx.fail(
            flag,
            contract_says=says,
            platform_did=f"`{picker}` names {name!r}, and `{flag}` says False",
            hint=hint,
        )


@check(
    "device.capability",
    group="device",
    needs=("members.kinds", "identity.predicates"),
    asks=("get_device_capability",),
    why="Kernels compare the pair with others and read its parts; another type fails in the comparison.",
    hint="Return the engine's DeviceCapability, or None where the device has no such numbers.",
)
def capability(ctx: CheckContext) -> None:
    """`get_device_capability` gives None or a pair of numbers that compares and converts."""
    member = "get_device_capability"
    says = f"`{member}` gives None, or a DeviceCapability with whole numbers `major` and `minor`."
    hint = f"Return DeviceCapability(major, minor) or None from `{member}`."
    for call, answer in ctx.ask_all(member, contract_says=says, hint=hint):
        if answer is None:
            continue
        parts = [getattr(answer, name, None) for name in ("major", "minor")]
        whole = all(isinstance(part, int) and not isinstance(part, bool) and part >= 0 for part in parts)
        if not whole or not callable(getattr(answer, "to_int", None)):
            raise ctx.fail(
                member, contract_says=says, platform_did=f"{call} gave {kind_of(answer)}", hint=hint
            )


@check(
    "device.ids",
    group="device",
    needs=("identity.device-variable", "members.engine-calls"),
    asks=("device_id_to_physical_device_id",),
    why="The engine maps ids before any worker starts, also on a head node where the variable is empty.",
    hint="Treat an empty variable as an unset one, and leave the mapping to the base where you can.",
)
def ids(ctx: CheckContext) -> None:
    """With the device variable unset or empty, device 0 has a physical id, a whole number."""
    import os

    member = "device_id_to_physical_device_id"
    variable: str = ctx.attribute("device_control_env_var")
    saved = os.environ.get(variable)
    try:
        for value in (None, ""):
            os.environ.pop(variable, None)
            state = "unset"
            if value is not None:
                os.environ[variable] = value
                state = "set to the empty string"
            says = f"With {variable} {state}, `{member}(0)` gives a whole number."
            hint = f'Read the variable with os.environ.get("{variable}", "") and return the id where it is empty.'
            answer = ctx.ask(member, 0, contract_says=says, hint=hint)
            if not isinstance(answer, int) or isinstance(answer, bool):
                raise ctx.fail(
                    member, contract_says=says, platform_did=f"it gave {kind_of(answer)}", hint=hint
                )
    finally:
        os.environ.pop(variable, None)
        if saved is not None:
            os.environ[variable] = saved
