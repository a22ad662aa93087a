"""Attention implementations that go wrong where few look: long requests, odd scores, other layers; and right ones."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from platform_abc.components.attention import AttentionImpl, AttentionLayer
from platform_abc.errors import NotSupported
from tests.mutants.attention_parts import Batch, Plain, PlainBackend


class Scores(Plain):
    """Attention whose scores and weights are steps of their own; it caps scores and adds position biases."""

    def check_arguments(self) -> None:
        """Take both."""

    def attend(
        self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int
    ) -> torch.Tensor:
        """Attend from the new tokens of one request."""
        here = torch.arange(length - len(rows), length).unsqueeze(1)
        there = torch.arange(keys.shape[0]).unsqueeze(0)
        scores = self.scores(torch.einsum("qhd,khd->hqk", rows, self.spread(keys)))
        if self.alibi_slopes is not None:
            # By the place alone, as many kernels do: what is the same for all tokens changes no weight.
            scores = scores + torch.tensor(self.alibi_slopes)[:, None, None] * there
        weights = self.weights(scores, self.sees(here, there))
        return torch.einsum("hqk,khd->qhd", weights, self.spread(values))

    def scores(self, products: torch.Tensor) -> torch.Tensor:
        """Scale, and cap."""
        scaled = products * self.scale
        cap = self.logits_soft_cap
        return cap * torch.tanh(scaled / cap) if cap else scaled

    def weights(self, scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Turn scores into weights."""
        return torch.softmax(scores.masked_fill(~seen, -torch.inf), dim=-1)


class NoMaximum(Scores):
    """It takes exponentials of scores as they are."""

    def weights(self, scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Turn scores into weights."""
        powers = scores.masked_fill(~seen, -torch.inf).exp()
        return powers / powers.sum(-1, keepdim=True)


class MaximumFromZero(Scores):
    """Its running maximum begins at 0."""

    def weights(self, scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Turn scores into weights."""
        masked = scores.masked_fill(~seen, -torch.inf)
        powers = (masked - masked.amax(-1, keepdim=True).clamp(min=0)).exp()
        return powers / powers.sum(-1, keepdim=True)


class CapIgnored(Scores):
    """It takes a soft cap and does not look at it."""

    def scores(self, products: torch.Tensor) -> torch.Tensor:
        """Scale."""
        return products * self.scale


class CapBeforeScale(Scores):
    """It caps what is not scaled yet."""

    def scores(self, products: torch.Tensor) -> torch.Tensor:
        """Cap, and scale."""
        cap = self.logits_soft_cap
        return (cap * torch.tanh(products / cap) if cap else products) * self.scale


class BiasIgnored(Plain):
    """It takes slopes of position biases and does not look at them."""

    def check_arguments(self) -> None:
        """Refuse capped scores."""
        if self.logits_soft_cap:
            raise NotSupported("logits_soft_cap", "CUSTOM", "use a model whose scores are not capped")


class BothWays(Plain):
    """It has no mask where a step is not causal."""

    causal = True

    def forward(
        self,
        layer: AttentionLayer,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Batch,
        output: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Store, attend, and write the result."""
        self.causal = attn_metadata.whole.causal
        return super().forward(layer, query, key, value, kv_cache, attn_metadata, output)

    def sees(self, here: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Say which token sees which."""
        return super().sees(here, there) if self.causal else (here >= 0) & (there >= 0)


class ChangesMetadata(Plain):
    """It marks the slots of a step as done, in the metadata of all layers."""

    def forward(
        self,
        layer: AttentionLayer,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Batch,
        output: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Store, attend, and write the result."""
        result = super().forward(layer, query, key, value, kv_cache, attn_metadata, output)
        attn_metadata.whole.slot_mapping.fill_(-1)
        return result


class KeepsByStep(Plain):
    """It keeps what it has read of a request for the rest of the step, whichever layer asks."""

    kept: ClassVar[dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]]] = {}
    steps: ClassVar[list[Batch]] = []

    def gather(
        self, cache: torch.Tensor, batch: Batch, request: int, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the keys and values of a request, `[length, K, D]` each."""
        self.steps.append(batch)  # so that no other takes its place in memory
        found = self.kept.get((id(batch), request))
        if found is None:
            found = self.kept[id(batch), request] = super().gather(cache, batch, request, length)
        return found


class ScalesQuery(Plain):
    """It scales the queries where they are."""

    def rows(self, query: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """Return the queries of a request."""
        return query[start:end].mul_(self.scale).float()

    def factor(self) -> float:
        """Return the factor of the scores."""
        return 1.0


class TilesUnmasked(Plain):
    """From row 128 on a token sees all of its tile of 64."""

    def sees(self, here: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Say which token sees which."""
        whole = (here >= 128) & (here // 64 == there // 64) & (len(here) > 128)
        return super().sees(here, there) | whole


class SumsInHalf(Scores):
    """In bfloat16 it adds weights up in bfloat16."""

    half = False

    def check_arguments(self) -> None:
        """Refuse what plain attention refuses."""
        Plain.check_arguments(self)

    def rows(self, query: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """Return the queries of a request."""
        self.half = query.dtype is torch.bfloat16
        return super().rows(query, start, end)

    def weights(self, scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Turn scores into weights."""
        if not self.half:
            return super().weights(scores, seen)
        masked = scores.masked_fill(~seen, -torch.inf)
        powers = (masked - masked.amax(-1, keepdim=True)).exp()
        whole = torch.zeros(powers.shape[:2], dtype=torch.bfloat16)
        for column in powers.unbind(-1):
            whole = whole + column.to(torch.bfloat16)
        return powers / whole.float().unsqueeze(-1)


class ReadsHalfWrong(Plain):
    """It reads keys and values that are stored in another dtype as half as large."""

    def gather(
        self, cache: torch.Tensor, batch: Batch, request: int, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the keys and values of a request, `[length, K, D]` each."""
        keys, values = super().gather(cache, batch, request, length)
        return (keys, values) if self.kv_cache_dtype == "auto" else (keys, values / 2)


class WindowFromBlock(Plain):
    """In a decode step a window that begins in a later block begins with that block."""

    def sees(self, here: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Say which token sees which."""
        if self.sliding_window is None or len(here) > 1:
            return super().sees(here, there)
        first = here - self.sliding_window + 1
        return (there <= here) & (there >= torch.where(first >= 16, first // 16 * 16, first))


class ManyRequests(Plain):
    """It computes 64 rows of a step that only decodes."""

    def finish(self, result: torch.Tensor, output: torch.Tensor | None) -> torch.Tensor:
        """Hand the result over."""
        if len(result) == 67:
            result[64:] = 0
        return super().finish(result, output)


class LargeGroups(Plain):
    """It computes sixteen heads of a group."""

    def spread(self, of_heads: torch.Tensor) -> torch.Tensor:
        """Give each query head its kv head."""
        whole = super().spread(of_heads).clone()
        if self.num_queries_per_kv > 16:
            whole[:, 16:] = 0
        return whole


class PaddedDecode(Plain):
    """In a step that only decodes it takes every row of the query for a request."""

    def forward(
        self,
        layer: AttentionLayer,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Batch,
        output: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Store, attend, and write the result."""
        if attn_metadata.whole.max_query_len == 1:
            assert [attn_metadata.lengths[row] for row in range(len(query))]
        return super().forward(layer, query, key, value, kv_cache, attn_metadata, output)


class ScoresBackend(PlainBackend):
    """Attention by `Scores`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = Scores


class BothWaysBackend(PlainBackend):
    """Attention by `BothWays`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = BothWays

    @classmethod
    def supports_non_causal(cls) -> bool:
        """Say yes."""
        return True


class MaskStaysBackend(BothWaysBackend):
    """Attention by `Plain`, which does not look at `causal`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = Plain


class StoresHalfBackend(PlainBackend):
    """Attention by `Plain`, which stores in any dtype; its list has one that no tensor has, too."""

    supported_kv_cache_dtypes: ClassVar[tuple[str, ...]] = ("auto", "bfloat16", "float16", "fp8")


class ReadsHalfWrongBackend(StoresHalfBackend):
    """Attention by `ReadsHalfWrong`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = ReadsHalfWrong


class NoMaximumBackend(PlainBackend):
    """Attention by `NoMaximum`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = NoMaximum


class MaximumFromZeroBackend(PlainBackend):
    """Attention by `MaximumFromZero`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = MaximumFromZero


class CapIgnoredBackend(PlainBackend):
    """Attention by `CapIgnored`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = CapIgnored


class CapBeforeScaleBackend(PlainBackend):
    """Attention by `CapBeforeScale`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = CapBeforeScale


class BiasIgnoredBackend(PlainBackend):
    """Attention by `BiasIgnored`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = BiasIgnored


class ChangesMetadataBackend(PlainBackend):
    """Attention by `ChangesMetadata`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = ChangesMetadata


class KeepsByStepBackend(PlainBackend):
    """Attention by `KeepsByStep`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = KeepsByStep


class ScalesQueryBackend(PlainBackend):
    """Attention by `ScalesQuery`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = ScalesQuery


class TilesUnmaskedBackend(PlainBackend):
    """Attention by `TilesUnmasked`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = TilesUnmasked


class SumsInHalfBackend(PlainBackend):
    """Attention by `SumsInHalf`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = SumsInHalf


class WindowFromBlockBackend(PlainBackend):
    """Attention by `WindowFromBlock`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = WindowFromBlock


class ManyRequestsBackend(PlainBackend):
    """Attention by `ManyRequests`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = ManyRequests


class LargeGroupsBackend(PlainBackend):
    """Attention by `LargeGroups`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = LargeGroups


class PaddedDecodeBackend(PlainBackend):
    """Attention by `PaddedDecode`."""

    impl: ClassVar[type[AttentionImpl[Any]]] = PaddedDecode
