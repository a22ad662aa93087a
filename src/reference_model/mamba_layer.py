"""A state-space layer: a diagonal recurrence whose state lives in one block of the paged cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import attrs
import torch
from torch.nn.functional import silu, softplus

from platform_abc.components.attention import (
    AttentionBackend,
    AttentionImpl,
    AttentionMetadata,
    AttentionMetadataBuilder,
    CommonAttentionMetadata,
)
from platform_abc.components.kv_cache import MambaSpec
from platform_abc.errors import NotSupported
from reference_model.forward_context import get_forward_context
from reference_model.linear import Build, Linear, Part

if TYPE_CHECKING:
    from platform_abc.components.kv_cache import KVCacheSpec
    from platform_abc.config import EngineConfig

STATES: Final = 16
"""Numbers that each channel remembers."""
_WIDER: Final = 2
"""Channels are so many times the width of the residual stream."""
_INTO: Final = ("gate", "value", "step")
_VECTORS: Final = ("input", "output")

_side_streams: dict[torch.device, Any] = {}


@attrs.frozen(kw_only=True, eq=False)
class StateMetadata(AttentionMetadata):
    """Where the states of a step's requests are.

    Args:
        starts: where each request's tokens start, and where the last one's end.
        fresh: bool `[R]`, the requests that have no state yet.
        read: int64 `[R]`, the block of the state before this step; any for a fresh one.
        written: int64 `[R]`, the block of the state after it.
    """

    starts: Sequence[int]
    fresh: torch.Tensor
    read: torch.Tensor
    written: torch.Tensor


class StateMetadataBuilder(AttentionMetadataBuilder[StateMetadata]):
    """Finds the blocks of the states; a block's last token decides which state it holds."""

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> StateMetadata:
        """Build the metadata of one step.

        Args:
            common_prefix_len: not used.
            common_attn_metadata: the batch.
            fast_build: not used.
        """
        del common_prefix_len, fast_build
        batch, size = common_attn_metadata, self.kv_cache_spec.block_size
        starts = batch.query_start_loc.long()
        lengths, table = batch.seq_lens.long(), batch.block_table.long()
        before = lengths - (starts[1:] - starts[:-1])
        rows = torch.arange(batch.num_reqs, device=table.device)
        return StateMetadata(
            starts=[int(start) for start in starts],
            fresh=before == 0,
            read=table[rows, (before - 1).clamp(min=0) // size],
            written=table[rows, (lengths - 1) // size],
        )


class StateBackend(AttentionBackend):
    """What the engine shows of a state-space layer where it shows attention backends."""

    supported_dtypes = ("float32", "float16", "bfloat16")

    @staticmethod
    def get_name() -> str:
        """Return the name for messages."""
        return "DIAGONAL_STATE"

    @staticmethod
    def get_impl_cls() -> type[AttentionImpl[Any]]:
        """Refuse: the layer itself computes.

        Raises:
            NotSupported: always.
        """
        _refuse("get_impl_cls")

    @staticmethod
    def get_builder_cls() -> type[AttentionMetadataBuilder[Any]]:
        """Return the class that builds the metadata of a step."""
        return StateMetadataBuilder

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_size: int,
        cache_dtype_str: str = "auto",
    ) -> tuple[int, ...]:
        """Refuse: a state has no keys and values; its spec says its shape.

        Raises:
            NotSupported: always.
        """
        del num_blocks, block_size, num_kv_heads, head_size, cache_dtype_str
        _refuse("get_kv_cache_shape")

    @classmethod
    def is_ssm(cls) -> bool:
        """Say yes."""
        return True


def _refuse(member: str) -> NoReturn:
    raise NotSupported(member, StateBackend.get_name(), "ask is_ssm first: such a layer keeps a state")


class MambaLayer(torch.nn.Module):
    """A gated recurrence over each request's tokens, with a step size of each token's own.

    Each channel forgets at its own rate and remembers what the token's input vector says; the token's
    output vector says what of it is given out.

    Args:
        build: what it is built from; its ranks divide the channels. The layer enters the configuration's
            `static_forward_context`.
        index: of the layer.
    """

    def __init__(self, build: Build, index: int) -> None:
        super().__init__()
        self.layer_name, name = f"layers.{index}.mamba", f"model.layers.{index}.mamba"
        width, channels = build.model.hidden_size, _WIDER * build.model.hidden_size
        rows = build.share(0, channels)
        self.channels = channels // build.group.world_size
        self.into = Linear(
            build,
            [Part(name=f"{name}.{part}_proj", outputs=channels, inputs=width, cut=rows) for part in _INTO],
        )
        self.vectors = Linear(
            build, [Part(name=f"{name}.{part}_proj", outputs=STATES, inputs=width) for part in _VECTORS]
        )
        out = Part(name=f"{name}.out_proj", outputs=width, inputs=channels, cut=build.share(1, channels))
        self.out = Linear(build, [out])
        self.rate = build.weights.take(f"{name}.rate", (channels,), rows).float().exp()
        self.skip = build.weights.take(f"{name}.skip", (channels,), rows).float()
        named = build.config.cache_config.mamba_ssm_cache_dtype
        self.state_dtype: torch.dtype = torch.float32 if named == "auto" else getattr(torch, named)
        build.config.compilation_config.static_forward_context[self.layer_name] = self

    def get_attn_backend(self) -> type[AttentionBackend]:
        """Return what stands for a backend of this layer."""
        return StateBackend

    def get_kv_cache_spec(self, config: EngineConfig) -> KVCacheSpec | None:
        """Return what the layer stores: one state of a request, or one each `mamba_block_size` tokens.

        Args:
            config: the configuration, once the block size is chosen.
        """
        cache = config.cache_config
        longest = config.scheduler_config.max_model_len
        return MambaSpec(
            block_size=cache.mamba_block_size or max(longest, cache.block_size),
            page_size_padded=cache.mamba_page_size_padded,
            shapes=((self.channels, STATES),),
            dtypes=(self.state_dtype,),
        )

    def forward(self, x: torch.Tensor, *_angles: torch.Tensor) -> torch.Tensor:
        """Run the tokens of the current step.

        Args:
            x: `[T, hidden]`.
            *_angles: what attention would turn heads by; not used.
        """
        context = get_forward_context()
        batch = context.attn_metadata[self.layer_name]
        assert isinstance(batch, StateMetadata)
        needed = self.channels * STATES * self.state_dtype.itemsize
        kept = context.kv_caches[self.layer_name][:, :needed].view(self.state_dtype)
        kept = kept.view(-1, self.channels, STATES)
        state = kept[batch.read].float().masked_fill(batch.fresh[:, None, None], 0)
        into, vectors = run_both(lambda: self.into(x), lambda: self.vectors(x), batch, x.device)
        gate, value, step = into.float().chunk(3, dim=-1)
        read, given = vectors.float().chunk(2, dim=-1)
        step = softplus(step)
        fades = torch.exp(-step * self.rate).unsqueeze(-1)
        new = (step * value).unsqueeze(-1) * read.unsqueeze(1)
        seen = self._recur(state, fades, new, given, batch.starts)
        kept[batch.written] = state.to(self.state_dtype)
        answer: torch.Tensor = self.out(((seen + self.skip * value) * silu(gate)).to(x.dtype))
        return answer

    @staticmethod
    def _recur(
        state: torch.Tensor,
        fades: torch.Tensor,
        new: torch.Tensor,
        given: torch.Tensor,
        starts: Sequence[int],
    ) -> torch.Tensor:
        """Walk through each request's tokens, one after the other; requests with one token go together.

        Args:
            state: `[R, C, S]`, changed in place.
            fades: `[T, C, 1]`, what is left of the state at each token.
            new: `[T, C, S]`, what each token adds to it.
            given: `[T, S]`, what each token gives out of it.
            starts: `R + 1` numbers.

        Returns:
            `[T, C]`.
        """
        if starts[-1] == len(starts) - 1:
            state.mul_(fades).add_(new)
            return (state * given.unsqueeze(1)).sum(-1)
        seen = torch.empty(new.shape[:2], device=new.device)
        for request, end in enumerate(starts[1:]):
            for token in range(starts[request], end):
                state[request].mul_(fades[token]).add_(new[token])
                seen[token] = (state[request] * given[token]).sum(-1)
        return seen


def run_both(
    first: Callable[[], torch.Tensor],
    second: Callable[[], torch.Tensor],
    metadata: AttentionMetadata,
    device: torch.device,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run both, the second on a stream of its own where the device has streams and the platform says so.

    Args:
        first: some kernels.
        second: some others, which read nothing that the first write.
        metadata: of the step, by which the platform decides.
        device: where they run.

    Returns:
        Both results, ready for the current stream.
    """
    from platforms import current_platform

    streams: list[Any] | None = None
    if device.type != "cpu":
        streams = [_side_streams.setdefault(device, torch.Stream(device))]
    if not current_platform.enable_multi_stream_overlap(streams, metadata) or not streams:
        return first(), second()
    side, current = streams[0], torch.accelerator.current_stream(device)
    side.wait_stream(current)
    with side:
        beside = second()
    before = first()
    current.wait_stream(side)
    return before, beside
