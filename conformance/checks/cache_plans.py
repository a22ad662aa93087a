"""The plan of the KV cache that the picked builder makes: it fits, it has a place for each layer, and none is shared twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from conformance.checks._resolve import resolve_class
from conformance.checks.pickers import asked, says_of
from conformance.context import CheckContext, describe, kind_of, short
from conformance.model import Level, Unsupported
from conformance.numeric.attention_run import part_fails
from conformance.places import quoted
from conformance.registry import check

_PICKER: Final = "get_kv_cache_config_builder_cls"
_NEEDS: Final = (
    "members.kinds",
    "members.engine-calls",
    "pickers.kv-cache-builder.importable",
    "pickers.kv-cache-builder.surface",
    "pickers.signatures",
    "pickers.complete",
)
_SAYS: Final = "The plan of a cache fits into the memory that there is, and gives each layer a place of its own for all blocks."
_HINT: Final = (
    "Divide the memory by what one block of all layers takes, and give each layer a tensor of `page_size_bytes * "
    "num_blocks`; only layers of different groups may share one."
)


def _specs(count: int, window: int) -> dict[str, Any]:
    """What the layers of a model store: full attention, and every third with a sliding window."""
    from platform_abc.components.kv_cache import AttentionSpec

    return {
        f"model.layers.{number}.attn": AttentionSpec(
            block_size=16,
            num_kv_heads=2,
            head_size=32,
            dtype="bfloat16",
            sliding_window=window if window and number % 3 == 2 else None,
        )
        for number in range(count)
    }


@check(
    "pickers.kv-cache-builder.plans",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=_NEEDS,
    asks=(_PICKER,),
    why="Workers allocate what the plan says: too much of it ends the run, and a shared place mixes two layers.",
    hint=_HINT,
)
def plans(ctx: CheckContext) -> None:
    """Plans for several models and amounts of memory fit, and give each layer a place of its own."""
    ctx.need_device()
    config = ctx.fitted.config("plain")
    name = asked(ctx, _PICKER)
    if not name:
        raise Unsupported(f"{_PICKER} names no class")
    cls: Any = resolve_class(ctx, _PICKER, name, says_of(_PICKER))
    for specs, memory, asked_for in (
        (_specs(2, 0), 1 << 20, None),
        (_specs(7, 0), 12_345_678, None),
        (_specs(6, 64), 1 << 22, None),
        (_specs(2, 0), 1 << 20, 5),
    ):
        config.cache_config.num_gpu_blocks_override = asked_for
        try:
            with ctx.adapter.active(ctx.platform):
                plan = cls(config).build(specs, memory)
        except (Exception, SystemExit) as error:
            place = ctx.blame(error)
            raise part_fails(
                ctx,
                _PICKER,
                cls,
                "build",
                says=_SAYS,
                did=f"for {len(specs)} layers and {memory} bytes it raised {describe(error)}{quoted(place)}",
                hint="Correct that line; raise ValueError only where not even one block fits.",
                place=place,
            ) from error
        did = _wrong(plan, specs, memory)
        if not did and asked_for is not None and plan.num_blocks != asked_for:
            did = f"with num_gpu_blocks_override {asked_for} the plan has {plan.num_blocks} blocks"
        if did:
            did = f"for {len(specs)} layers and {memory} bytes {did}"
            raise part_fails(ctx, _PICKER, cls, "build", says=_SAYS, did=did, hint=_HINT)


def _wrong(plan: Any, specs: Mapping[str, Any], memory: int) -> str:
    """What is wrong with a plan, in words; empty if nothing."""
    from platform_abc.components.kv_cache import KVCacheConfig

    if not isinstance(plan, KVCacheConfig):
        return f"it gave {kind_of(plan)}, not a KVCacheConfig"
    blocks: Any = plan.num_blocks
    if not isinstance(blocks, int) or blocks < 1:
        return f"the plan has {kind_of(blocks)} blocks"
    grouped = [name for group in plan.kv_cache_groups for name in group.layer_names]
    placed = [name for tensor in plan.kv_cache_tensors for name in tensor.shared_by]
    for what, names in (("group", grouped), ("tensor", placed)):
        odd = sorted({*specs} ^ {*names}) or sorted({one for one in names if names.count(one) > 1})
        if odd:
            return f"{short(odd)} is in no {what} of the plan, or in several"
    whole = sum(tensor.size for tensor in plan.kv_cache_tensors)
    if whole > memory:
        return f"the tensors of the plan take {whole} bytes together"
    group_of = {
        name: number for number, group in enumerate(plan.kv_cache_groups) for name in group.layer_names
    }
    for tensor in plan.kv_cache_tensors:
        groups: Sequence[int] = [group_of[name] for name in tensor.shared_by]
        if len(set(groups)) < len(groups):
            return f"{short(list(tensor.shared_by))}, which are in one group and so use the same blocks, share one tensor"
        needed = max(specs[name].page_size_bytes for name in tensor.shared_by) * plan.num_blocks
        if tensor.size < needed:
            return (
                f"the tensor of {short(list(tensor.shared_by))} has {tensor.size} bytes, and {plan.num_blocks} blocks take "
                f"{needed}"
            )
    return ""
