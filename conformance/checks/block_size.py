"""The chain of hooks that decides the block size of the KV cache: they agree, the backends take it, it stays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from conformance.checks import _configs
from conformance.context import CheckContext, describe, kind_of
from conformance.engines.base import SelectorCall
from conformance.model import Finding, Skip, Unsupported, Violation
from conformance.places import quoted
from conformance.registry import check
from conformance.remedies import instead

_HOOK: Final = "update_block_size_for_backend"
_CHECK: Final = "check_and_update_config"
_SIZE: Final = "cache_config.block_size"
_ALIGNS: Final = "_align_hybrid_block_size"
"""The part of vLLM's base that makes attention pages and state pages one size, where it has that."""
_NOT_PLAIN: Final = frozenset({"mla", "sparse", "encoder"})
"""Questions to the attention picker that a plain decoder's layers do not ask."""


@check(
    "config.block-size-chain",
    group="config_hooks",
    needs=(
        "config.block-size",
        "config.check-idempotent",
        "config.user-values",
        "pickers.attn-backend.surface",
        "pickers.attn-backend.facts",
    ),
    why="Parts of the engine read the size between the hooks; where they disagree, the cache is cut wrongly.",
    hint="Choose the size in update_block_size_for_backend alone, from all backends of the model.",
)
def chain(ctx: CheckContext) -> None:
    """The block size that the hooks leave for a loaded model is one that its backends take, and it stays."""
    _need_hook(ctx)
    for case in (one for one in ("plain", "user-block-size") if one in ctx.adapter.config_cases()):
        findings = list(_judge(ctx, case))
        if findings:
            raise Violation(*findings[:2])


@check(
    "config.block-size-hybrid",
    group="config_hooks",
    needs=("config.block-size-chain",),
    why="Attention layers and states share one pool of pages: a page that is too small holds no state.",
    hint="Call the base's update_block_size_for_backend for hybrid models, and change the size nowhere later.",
)
def hybrid(ctx: CheckContext) -> None:
    """For a model of attention and state layers an attention page holds a state, and padding fits the page."""
    case = "hybrid"
    if case not in ctx.adapter.config_cases():
        return
    _need_hook(ctx)
    if ctx.adapter.name == "vllm":  # whose pages the worker makes, from what its base has prepared
        if not hasattr(ctx.adapter.base_class(), _ALIGNS):
            raise Unsupported("the installed engine makes pages of one size elsewhere")
        if ctx.overridden(_HOOK) and _has_own_worker(ctx):
            raise Unsupported("the platform's own worker lays out the cache")
    findings = list(_judge(ctx, case))
    if findings:
        raise Violation(*findings[:2])


def _need_hook(ctx: CheckContext) -> None:
    if not ctx.knows(_HOOK):
        raise Unsupported(f"the installed engine has no {_HOOK}")


def _has_own_worker(ctx: CheckContext) -> bool:
    """Say whether the config hooks name a worker that the engine does not ship."""
    worker = ctx.adapter.worker_cls_field(_configs.ran_or_blame(ctx).config)
    module = worker.__module__ if isinstance(worker, type) else str(worker).rpartition(".")[0]
    return not ctx.adapter.in_tree(type("Worker", (), {"__module__": module}))


def _backends(ctx: CheckContext, *, latent: bool) -> list[Any]:
    """The backends that the layers of one model pick: the plain one, and that of its other layers."""
    found: list[Any] = []
    for call in ctx.fitted.selector_calls():
        if (call.case in _NOT_PLAIN) != latent or (latent and call.case != "mla"):
            continue
        with contextlib.suppress(Exception):  # the pickers' own checks tell
            backend = _picked(ctx, call)
            if backend not in found:
                found.append(backend)
    return found


def _picked(ctx: CheckContext, call: SelectorCall) -> Any:
    with ctx.adapter.active(ctx.platform):
        name = ctx.platform.get_attn_backend_cls(*call.args, **call.kwargs)
        return ctx.adapter.resolve(name)


def _judge(ctx: CheckContext, case: str) -> Iterator[Finding]:
    """Run the chain of one case, and say what is wrong with the size that it leaves."""
    config = _configs.build(ctx, case)
    start = _size(ctx, config)
    try:
        _configs.run_hooks(ctx, config)
    except (_configs.Refused, Skip, Violation):
        return  # refused, or another check tells
    seen = _size(ctx, config)
    backends = _backends(ctx, latent=bool(_configs.value_at(config, "model_config.use_mla")))
    if not backends:
        return
    asked = bool(_configs.value_at(config, "cache_config.user_specified_block_size"))
    ctx.adapter.put_layers(config, backends)
    names = ", ".join(_name(one) for one in backends)
    try:
        _configs.update_block_size(ctx, config)
    except Exception as error:
        if asked and isinstance(error, ValueError | NotImplementedError):
            return  # a refusal of the user's size
        yield ctx.finding(
            _HOOK,
            contract_says=f"`{_HOOK}` finds a size for a loaded model whose layers use the backends that the "
            f"platform picks ({names}).",
            platform_did=f"for the {case} config it raised {describe(error)}{quoted(ctx.blame(error))}",
            hint=_instead_of(error),
            location=ctx.blame(error) or ctx.locate(_HOOK),
        )
        return
    size = _size(ctx, config)
    if not isinstance(size, int) or size <= 0:
        yield ctx.finding(
            _HOOK,
            contract_says=f"After `{_HOOK}`, {_SIZE} is a positive number of tokens.",
            platform_did=f"for the {case} config with loaded layers it is {kind_of(size)}",
            hint=f"Let `{_HOOK}` write an int of at least 1 there.",
        )
        return
    refusing = [one for one in backends if not _takes(ctx, config, one, size)]
    if refusing:
        who = _HOOK if ctx.overridden(_HOOK) or size != seen else _CHECK
        yield ctx.finding(
            who,
            contract_says=f"The size that the hooks leave is one that every backend of the model supports: {names}.",
            platform_did=f"for the {case} config {_SIZE} is {size}, which "
            f"{', '.join(_name(one) for one in refusing)} does not support (its sizes: "
            f"{_sizes(refusing[0])})",
            hint=f"Choose in `{_HOOK}` a size that get_supported_kernel_block_sizes() of every backend allows: "
            f"{_sizes(refusing[0])}.",
        )
        return
    wrong = list(_pages(ctx, case, config, backends[0]))
    yield from wrong or _undone(ctx, case, config, (start, seen, size), asked=asked)


def _instead_of(error: Exception) -> str:
    """What to write where the hook raised: a mistake in its code, or no size that fits."""
    if isinstance(error, ValueError | NotImplementedError):
        return (
            f"Let `{_HOOK}` choose a size that all of them support, and `{_CHECK}` set none that they do not."
        )
    return (
        f"Change that line{instead(describe(error))}: the layers in "
        "compilation_config.static_forward_context are the engine's own, of every kind."
    )


def _undone(
    ctx: CheckContext, case: str, config: Any, sizes: tuple[Any, Any, int], *, asked: bool
) -> Iterator[Finding]:
    """One hook sets a size, and the other sets another."""
    start, seen, size = sizes
    wrote = seen != start
    if wrote and not asked and (not isinstance(seen, int) or size < seen or size % seen):
        yield ctx.finding(
            _CHECK,
            contract_says=f"Where `{_CHECK}` sets {_SIZE}, `{_HOOK}` leaves it or raises it to a multiple: "
            "the engine's core and the runner read it in between.",
            platform_did=f"for the {case} config `{_CHECK}` set {seen}, and `{_HOOK}` then set {size}",
            hint=f"Choose the size in `{_HOOK}` alone; leave {_SIZE} untouched in `{_CHECK}`.",
            location=ctx.locate_write(_CHECK, _SIZE),
        )
        return
    before = size, _configs.value_at(config, "cache_config.mamba_page_size_padded")
    config.compilation_config.static_forward_context = {}
    try:
        _configs.run_hooks(ctx, config, _configs.SECOND)
    except (_configs.Refused, Skip, Violation):
        return  # config.check-idempotent tells
    after = _size(ctx, config), _configs.value_at(config, "cache_config.mamba_page_size_padded")
    if after != before:
        yield ctx.finding(
            _CHECK,
            contract_says=f"The config hooks run again after `{_HOOK}`, and keep the size that it chose.",
            platform_did=f"for the {case} config `{_HOOK}` set {before[0]}, and `{_CHECK}`, run again, "
            f"made it {after[0]}",
            hint=f"Choose the size in `{_HOOK}` alone; leave {_SIZE} untouched in `{_CHECK}`.",
            location=ctx.locate_write(_CHECK, _SIZE),
        )


def _pages(ctx: CheckContext, case: str, config: Any, backend: Any) -> Iterator[Finding]:
    try:
        pages = ctx.adapter.cache_pages(config, backend)
    except Skip as skip:
        ctx.details[f"pages of the {case} config"] = str(skip)
        return
    if pages is None or not pages.state:
        return
    size = _size(ctx, config)
    if pages.attention < pages.state:
        did = f"{_SIZE} is {size}, a page of {pages.attention} bytes, and a state takes {pages.state}"
    elif pages.padded is not None and pages.padded != pages.attention:
        did = (
            f"{_SIZE} is {size}, a page of {pages.attention} bytes, and "
            f"cache_config.mamba_page_size_padded is {pages.padded}"
        )
    else:
        return
    yield ctx.finding(
        _HOOK,
        contract_says="For a model with states, a page of an attention layer holds a state, and "
        "mamba_page_size_padded, where it is set, is the size of such a page.",
        platform_did=f"after the hooks on the {case} config, {did}",
        hint=f"Call super().{_HOOK}(vllm_config) last, after your own choice of a size: it makes the pages large "
        "enough.",
    )


def _size(ctx: CheckContext, config: Any) -> Any:
    return dict(ctx.adapter.snapshot(config)).get(_SIZE)


def _name(backend: Any) -> str:
    return str(getattr(backend, "__name__", backend))


def _sizes(backend: Any) -> str:
    try:
        return ", ".join(
            f"multiples of {one.base}" if hasattr(one, "base") else str(one)
            for one in backend.get_supported_kernel_block_sizes()
        )
    except Exception as error:
        return describe(error)


def _takes(ctx: CheckContext, config: Any, backend: Any, size: int) -> bool:
    """Ask a backend, the config being the engine's current one where a backend needs that."""
    try:
        with ctx.adapter.active(ctx.platform):
            return bool(backend.supports_block_size(size))
    except Exception as error:
        ctx.details[f"{_name(backend)}.supports_block_size({size})"] = describe(error)
        return True
