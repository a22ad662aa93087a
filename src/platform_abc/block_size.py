"""How many tokens a block of the KV cache holds: the choice, its alignment, and the final check.

The steps are pure functions; `update_block_size` applies them to a config and is what the hook
`update_block_size_for_backend` does by default. Applying it twice changes nothing.

A size that the user set is kept, unless pages of different kinds of layers must be made equal: then it
is raised to the next multiple of itself that does.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import attrs

from platform_abc.components.attention import smallest
from platform_abc.config_parts import DEFAULT_BLOCK_SIZE

if TYPE_CHECKING:
    from platform_abc.components.attention import AttentionLayerBase, MultipleOf
    from platform_abc.components.kv_cache import KVCacheSpec
    from platform_abc.config import EngineConfig, ModelConfig

logger = logging.getLogger(__name__)

T = TypeVar("T")

_DENSE: Final = 4096
"""So many tokens on from a size that may be common, all its multiples are tried."""

_MOST_COMBINATIONS: Final = 1024
"""So many combinations of declared sizes are followed, the smallest first."""

_MLA_ALIGNMENT: Final = 128
"""Tokens that latent-attention kernels read at once; blocks of a hybrid model are a multiple of it."""


class SizedBackend(Protocol):
    """What the choice asks of an attention backend; every `type[AttentionBackend]` is one."""

    def get_name(self) -> str:
        """Return its name, for messages."""
        ...

    def get_supported_kernel_block_sizes(self) -> Sequence[int | MultipleOf]:
        """Return the sizes that its kernels take; empty means any."""
        ...

    def supports_block_size(self, block_size: int | None, /) -> bool:
        """Say whether a cache may have blocks of this size."""
        ...

    def get_preferred_block_size(self, default_block_size: int, /) -> int:
        """Return what it would choose alone."""
        ...


def _name(backend: SizedBackend) -> str:
    """Return a backend's name, by its class where it has none to tell."""
    try:
        name = cast("object", backend.get_name())
    except Exception:  # noqa: BLE001 - a name for a message, from foreign code
        name = None
    return name if isinstance(name, str) and name else getattr(backend, "__qualname__", repr(backend))


def _asked(backend: SizedBackend, what: str, ask: Callable[[], T]) -> T:
    """Return a backend's answer about its sizes; whatever it raises becomes one error with its name."""
    try:
        return ask()
    except Exception as error:
        raise ValueError(
            f"attention backend {_name(backend)} cannot say {what}: {type(error).__name__}: {error}"
        ) from error


def _declared(backend: SizedBackend) -> list[int | MultipleOf]:
    return _asked(backend, "its block sizes", lambda: list(backend.get_supported_kernel_block_sizes()))


def _accepts(backend: SizedBackend, size: int) -> bool:
    return bool(_asked(backend, f"whether it takes {size} tokens", lambda: backend.supports_block_size(size)))


def kernel_sizes(backend: SizedBackend) -> list[int]:
    """Return the supported sizes as plain numbers, a multiple by its base; `[1]` where any will do.

    Args:
        backend: the backend.

    Raises:
        ValueError: it declares something that is no size, or raises.
    """
    declared = _declared(backend)
    try:
        return [smallest(size) for size in declared] or [1]
    except ValueError as error:
        raise ValueError(f"attention backend {_name(backend)}: {error}") from error


def describe(backends: Sequence[SizedBackend]) -> str:
    """Return the backends and their sizes for a message: `A: 16, 32; B: multiple of 64`."""
    return "; ".join(f"{_name(b)}: {', '.join(map(_size_text, _declared(b))) or 'any'}" for b in backends)


def _size_text(size: int | MultipleOf) -> str:
    # By its attribute, as `smallest` reads it: another engine's "multiple of" has no text of its own.
    base: object = getattr(size, "base", None)
    return repr(size) if base is None else f"multiple of {base}"


def choose_block_size(backends: Sequence[SizedBackend], default: int = DEFAULT_BLOCK_SIZE) -> int:
    """Choose a size that every backend accepts, for a user who asked for none.

    That is what the backend prefers, where there is only one; else the default, where all accept it;
    else the smallest size that all accept.

    Args:
        backends: the backends of the model's attention layers, at least one; one that stands there
            twice counts once.
        default: the engine's default, in tokens.

    Returns:
        The size in tokens.

    Raises:
        ValueError: there is no backend; the backends share no size, which names them and their sizes;
            or the preferred size is one that the backend itself refuses.
    """
    if not backends:
        raise ValueError("a block size is chosen for at least one attention backend, got none")
    backends = [backend for index, backend in enumerate(backends) if backend not in backends[:index]]
    candidates = _candidates(backends)
    if len(backends) == 1:
        return _preferred(backends[0], default)
    for size in itertools.chain([default], candidates):
        if all(_accepts(backend, size) for backend in backends):
            return size
    raise ValueError(f"the attention backends share no KV cache block size ({describe(backends)})")


def _preferred(backend: SizedBackend, default: int) -> int:
    preferred = cast(
        "object", _asked(backend, "what it prefers", lambda: backend.get_preferred_block_size(default))
    )
    if not isinstance(preferred, int) or isinstance(preferred, bool) or preferred < 1:
        raise ValueError(
            f"attention backend {_name(backend)} prefers the block size {preferred!r}: "
            "expected a whole number of at least 1"
        )
    if not _accepts(backend, preferred):
        raise ValueError(
            f"attention backend {_name(backend)} prefers a block size of {preferred} tokens "
            f"but does not accept it ({describe([backend])})"
        )
    return preferred


def _candidates(backends: Sequence[SizedBackend], step: int = 1, at_least: int = 1) -> list[int]:
    """Return, rising, the sizes that may be common: multiples of `step` that are large enough.

    Each is a multiple of one declared size of each backend, and where backends accept all multiples of
    what they declare, or exactly what they declare, the smallest of these combinations is the answer.
    Some accept nothing below or above a limit, so multiples of the combinations follow. However many
    sizes there are, the list stays so short that asking about all of it takes no noticeable time.
    """
    bases = {step}
    for sizes in map(kernel_sizes, backends):
        bases = set(
            heapq.nsmallest(_MOST_COMBINATIONS, {math.lcm(base, size) for base in bases for size in sizes})
        )
    found: set[int] = set()
    for base in bases:
        first = -(-at_least // base) * base
        found.update(range(first, first + max(_DENSE, 8 * base) + 1, base))
    return sorted(found)


def first_accepted(backends: Sequence[SizedBackend], step: int, at_least: int) -> int:
    """Return the smallest multiple of `step` that is large enough and that every backend accepts.

    Args:
        backends: the backends.
        step: what the size must be a multiple of, in tokens.
        at_least: the least size, in tokens.

    Returns:
        The size; where no multiple is accepted, the smallest that is large enough, which the final
        check then refuses by name.
    """
    first = max(step, -(-at_least // step) * step)
    for size in _candidates(backends, step, first):
        if all(_accepts(backend, size) for backend in backends):
            return size
    return first


@attrs.frozen(kw_only=True)
class Alignment:
    """A block size and the page size that follows from it.

    Args:
        block_size: tokens of a block.
        page_size: bytes of one block of one attention layer.
        padded: bytes to which the other kind's page must be padded; None where it is equal already.
    """

    block_size: int
    page_size: int
    padded: int | None


def align_hybrid(
    backends: Sequence[SizedBackend],
    *,
    block_size: int,
    attention_bytes_per_token: int,
    state_page_bytes: int,
    use_mla: bool = False,
) -> Alignment:
    """Make an attention page at least as large as a state page, so that both share one pool.

    Args:
        backends: the backends of the attention layers; the state-space ones are not among them.
        block_size: tokens of a block so far; the result is a multiple of it.
        attention_bytes_per_token: bytes of one token in one attention layer.
        state_page_bytes: bytes of one state; 0 means that there is none.
        use_mla: the attention layers keep a latent, whose kernels want a multiple of 128 tokens.

    Returns:
        The smallest block size that fits, the attention page, and the size to pad a state page to.

    Raises:
        ValueError: a number of bytes makes no sense.
    """
    if attention_bytes_per_token < 1 or state_page_bytes < 0:
        raise ValueError(
            "alignment needs at least 1 byte per attention token and no negative state page, got "
            f"{attention_bytes_per_token} and {state_page_bytes}"
        )
    if state_page_bytes == 0:
        return Alignment(block_size=block_size, page_size=block_size * attention_bytes_per_token, padded=None)
    step = math.lcm(block_size, _MLA_ALIGNMENT) if use_mla else block_size
    aligned = first_accepted(backends, step, -(-state_page_bytes // attention_bytes_per_token))
    page = aligned * attention_bytes_per_token
    return Alignment(block_size=aligned, page_size=page, padded=None if page == state_page_bytes else page)


def align_heterogeneous(
    backends: Sequence[SizedBackend],
    *,
    block_size: int,
    primary_bytes_per_token: int,
    skipped_bytes_per_token: int,
) -> Alignment:
    """Make a quantized page at least as large as a page of the layers that are not quantized.

    The layers that keep the model's dtype store more bytes a token. They use the smallest block of
    their kernels; the quantized block grows until its page holds that, and their page is padded to it.

    Args:
        backends: the backends of the attention layers.
        block_size: tokens of a block so far; the result is a multiple of it.
        primary_bytes_per_token: bytes of one token in a quantized layer.
        skipped_bytes_per_token: bytes of one token in a layer that keeps the model's dtype.

    Returns:
        The smallest block size that fits, the quantized page, and the size to pad the others to; None
        where a token takes the same either way, so that nothing needs padding.

    Raises:
        ValueError: the layers that keep the model's dtype would store less than the quantized ones.
    """
    if primary_bytes_per_token < 1:
        raise ValueError(f"a token takes at least 1 byte, got {primary_bytes_per_token}")
    if skipped_bytes_per_token < primary_bytes_per_token:
        raise ValueError(
            f"a layer that keeps the model's dtype takes {skipped_bytes_per_token} bytes per token, less than "
            f"the {primary_bytes_per_token} of the quantized cache: cache_config.cache_dtype saves nothing"
        )
    if skipped_bytes_per_token == primary_bytes_per_token:
        return Alignment(block_size=block_size, page_size=block_size * primary_bytes_per_token, padded=None)
    smallest_block = math.lcm(*(min(kernel_sizes(backend)) for backend in backends))
    needed = skipped_bytes_per_token * smallest_block
    aligned = first_accepted(backends, block_size, -(-needed // primary_bytes_per_token))
    page = aligned * primary_bytes_per_token
    return Alignment(block_size=aligned, page_size=page, padded=page)


def check_aligned(backends: Sequence[SizedBackend], block_size: int, *, wanted_by: str = "alignment") -> None:
    """Refuse a size that a backend does not accept, now and not when its kernels run.

    Args:
        backends: the backends of the attention layers.
        block_size: tokens of a block.
        wanted_by: where the size comes from, for the message.

    Raises:
        ValueError: naming the size, where it comes from, and the backends that refuse it.
    """
    refusing = [backend for backend in backends if not _accepts(backend, block_size)]
    if refusing:
        raise ValueError(
            f"a KV cache block size of {block_size} tokens, from {wanted_by}, is not supported by "
            f"{len(refusing)} of {len(backends)} attention backends ({describe(refusing)})"
        )


def attention_layers(config: EngineConfig) -> list[AttentionLayerBase]:
    """Return the layers of the loaded model that select an attention backend, in layer order.

    Args:
        config: the configuration, whose `static_forward_context` the loaded model has filled.
    """
    layers = config.compilation_config.static_forward_context.values()
    return [cast("AttentionLayerBase", layer) for layer in layers if hasattr(layer, "get_attn_backend")]


def attention_backends(config: EngineConfig) -> list[SizedBackend]:
    """Return the distinct backends of the attention layers, in layer order, state-space ones left out.

    Args:
        config: the configuration, after the model was loaded.
    """
    backends: list[SizedBackend] = []
    for layer in attention_layers(config):
        backend: Any = layer.get_attn_backend()
        if not backend.is_ssm() and backend not in backends:
            backends.append(backend)
    return backends


def state_page_bytes(config: EngineConfig) -> int:
    """Return the bytes of the largest state among the state-space layers, unpadded; 0 without any.

    Args:
        config: the configuration, after the model was loaded.
    """
    pages = [0]
    for layer in attention_layers(config):
        if layer.get_attn_backend().is_ssm():
            spec = layer.get_kv_cache_spec(config)
            pages.append(0 if spec is None else spec.unpadded_page_size_bytes)
    return max(pages)


def bytes_per_token(config: EngineConfig, model: ModelConfig, backend: SizedBackend, cache_dtype: str) -> int:
    """Return the bytes that one token takes in one attention layer of this rank.

    Args:
        config: the configuration.
        model: its model part.
        backend: the backend, which may pack keys and values in its own way.
        cache_dtype: how keys and values are stored; `auto` is the model's dtype.
    """
    from platform_abc.components.kv_cache import AttentionSpec, MLAAttentionSpec

    kind = MLAAttentionSpec if model.use_mla else AttentionSpec
    spec: KVCacheSpec = kind(
        block_size=1,
        num_kv_heads=model.get_num_kv_heads(config.parallel_config),
        head_size=model.get_head_size(),
        dtype="float32" if model.dtype in ("auto", "float") else model.dtype,
        cache_dtype=cache_dtype,
    )
    customize: Any = getattr(backend, "customize_spec", None)
    return int((spec if customize is None else customize(spec)).page_size_bytes)


def update_block_size(config: EngineConfig) -> None:
    """Set `cache_config.block_size` to what all backends of the loaded model accept, and align pages.

    Without a model, or without attention layers in `static_forward_context`, nothing changes.

    Args:
        config: the configuration, after the model was loaded; its `cache_config` is changed.

    Raises:
        ValueError: no size fits; the message names the backends and their sizes.
    """
    from platform_abc.config import use_config

    model = config.model_config
    if model is None:
        return
    with use_config(config):
        backends = attention_backends(config)
        if backends:
            _update(config, model, backends)


def _update(config: EngineConfig, model: ModelConfig, backends: Sequence[SizedBackend]) -> None:
    cache = config.cache_config
    wanted_by = "cache_config.block_size as the user set it"
    size = cache.block_size
    if not cache.user_specified_block_size:
        size = choose_block_size(backends)
        wanted_by = "the choice for these backends"
    state = state_page_bytes(config) if model.is_hybrid else 0
    state_padded: int | None = None
    skip_padded: int | None = None
    if state:
        aligned = align_hybrid(
            backends,
            block_size=size,
            attention_bytes_per_token=bytes_per_token(config, model, backends[0], cache.cache_dtype),
            state_page_bytes=state,
            use_mla=model.use_mla,
        )
        if aligned.block_size != size:
            wanted_by = f"alignment with a state of {state} bytes"
        size, state_padded = aligned.block_size, aligned.padded
    if cache.kv_cache_dtype_skip_layers:
        aligned = align_heterogeneous(
            backends,
            block_size=size,
            primary_bytes_per_token=bytes_per_token(config, model, backends[0], cache.cache_dtype),
            skipped_bytes_per_token=bytes_per_token(config, model, backends[0], "auto"),
        )
        if aligned.block_size != size:
            wanted_by = "alignment of layers with different KV cache dtypes"
        size, skip_padded = aligned.block_size, aligned.padded
        if state:
            state_padded = None if aligned.page_size == state else aligned.page_size
    check_aligned(backends, size, wanted_by=wanted_by)
    if size != cache.block_size:
        logger.info(
            "KV cache block size: %d tokens instead of %d, from %s", size, cache.block_size, wanted_by
        )
    cache.block_size = size
    if state:
        cache.mamba_page_size_padded = state_padded
        if cache.mamba_cache_mode == "align":
            cache.mamba_block_size = size
    if cache.kv_cache_dtype_skip_layers:
        cache.skip_page_size_padded = skip_padded
