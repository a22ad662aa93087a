"""Platforms whose attention backend computes something else than attention, and one that does it in another way."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tests.mutants.good import Good

if TYPE_CHECKING:
    from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig


class Plain(Good):
    """Names a backend of the vendor's own, which is right."""

    _backend: ClassVar[str] = "attention_parts.PlainBackend"

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: AttentionBackendEnum | None,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        """Name the one backend, and refuse latent attention."""
        if selected_backend is not None and selected_backend.name != "CUSTOM":
            raise ValueError(f"attention backend {selected_backend.name} does not run on this chip")
        if attn_selector_config.use_mla:
            raise ValueError("use_mla: latent attention does not run on this chip")
        return f"tests.mutants.{cls._backend}"


class OtherWay(Plain):
    """Names a backend with limits and a cache layout of its own, which is right as well."""

    _backend: ClassVar[str] = "attention_parts.OtherBackend"


class SeesNext(Plain):
    """Its mask lets a token see the one after it."""

    _backend: ClassVar[str] = "attention_mistakes.SeesNextBackend"


class NoMask(Plain):
    """It has no causal mask in a prefill."""

    _backend: ClassVar[str] = "attention_mistakes.NoMaskBackend"


class NotItself(Plain):
    """A token does not see itself."""

    _backend: ClassVar[str] = "attention_mistakes.NotItselfBackend"


class TopLeft(Plain):
    """The mask of a chunk counts from the start of the request."""

    _backend: ClassVar[str] = "attention_mistakes.TopLeftBackend"


class ScaleTwice(Plain):
    """It scales the scores twice."""

    _backend: ClassVar[str] = "attention_mistakes.ScaleTwiceBackend"


class NoScale(Plain):
    """It does not scale."""

    _backend: ClassVar[str] = "attention_mistakes.NoScaleBackend"


class OwnScale(Plain):
    """It takes the usual scale instead of the one that it was made with."""

    _backend: ClassVar[str] = "attention_mistakes.OwnScaleBackend"


class BaseTwo(Plain):
    """Its softmax is one of powers of 2."""

    _backend: ClassVar[str] = "attention_mistakes.BaseTwoBackend"


class HeadsInterleaved(Plain):
    """Query head h uses kv head h % kv heads."""

    _backend: ClassVar[str] = "attention_mistakes.HeadsInterleavedBackend"


class HeadsFirstOnly(Plain):
    """All query heads use the first kv head."""

    _backend: ClassVar[str] = "attention_mistakes.HeadsFirstOnlyBackend"


class WindowWide(Plain):
    """A window has one token too many."""

    _backend: ClassVar[str] = "attention_mistakes.WindowWideBackend"


class WindowIgnored(Plain):
    """A window is not looked at."""

    _backend: ClassVar[str] = "attention_mistakes.WindowIgnoredBackend"


class HistoryIgnored(Plain):
    """A decode step sees its own token only."""

    _backend: ClassVar[str] = "attention_mistakes.HistoryIgnoredBackend"


class OneBeyond(Plain):
    """A decode step reads one slot too many."""

    _backend: ClassVar[str] = "attention_mistakes.OneBeyondBackend"


class ReadsBeforeStoring(Plain):
    """A decode step reads the cache before it stores the new token."""

    _backend: ClassVar[str] = "attention_mistakes.ReadsBeforeStoringBackend"


class TableSorted(Plain):
    """It reads blocks in the order of their numbers."""

    _backend: ClassVar[str] = "attention_mistakes.TableSortedBackend"


class TableContiguous(Plain):
    """It reads the blocks behind a request's first one."""

    _backend: ClassVar[str] = "attention_mistakes.TableContiguousBackend"


class LastBlockLeftOut(Plain):
    """It reads whole blocks only, where there is one."""

    _backend: ClassVar[str] = "attention_mistakes.LastBlockLeftOutBackend"


class FirstRowOfTable(Plain):
    """All requests of a batch read the blocks of the first one."""

    _backend: ClassVar[str] = "attention_mistakes.FirstRowOfTableBackend"


class RowsMixed(Plain):
    """A large batch comes out shifted by one request."""

    _backend: ClassVar[str] = "attention_mistakes.RowsMixedBackend"


class PrefixTwice(Plain):
    """An announced common prefix is attended to twice."""

    _backend: ClassVar[str] = "attention_mistakes.PrefixTwiceBackend"


class MasksWeightsOnly(Plain):
    """It reads whole blocks, and masks the weights of what is not there, but not the values."""

    _backend: ClassVar[str] = "attention_mistakes.MasksWeightsOnlyBackend"


class KeepsBlocks(Plain):
    """It keeps the blocks that are full, and does not look at them again."""

    _backend: ClassVar[str] = "attention_mistakes.KeepsBlocksBackend"


class IgnoresStride(Plain):
    """It reads queries as if their rows lay one behind the other."""

    _backend: ClassVar[str] = "attention_mistakes.IgnoresStrideBackend"


class RefusesStride(Plain):
    """It views queries in a shape that only contiguous ones have."""

    _backend: ClassVar[str] = "attention_mistakes.RefusesStrideBackend"


class OutputKept(Plain):
    """It leaves the output that it is given as it is."""

    _backend: ClassVar[str] = "attention_mistakes.OutputKeptBackend"


class OutputReplaced(Plain):
    """It returns a tensor of its own where an output is given."""

    _backend: ClassVar[str] = "attention_mistakes.OutputReplacedBackend"


class OutputHalf(Plain):
    """It writes the first half of the heads only into the output that it is given."""

    _backend: ClassVar[str] = "attention_mistakes.OutputHalfBackend"


class StoresNextBlock(Plain):
    """It stores a token in the block behind its own."""

    _backend: ClassVar[str] = "attention_mistakes.StoresNextBlockBackend"


class StoresOneFurther(Plain):
    """It stores a token in the slot behind its own, and reads it there."""

    _backend: ClassVar[str] = "attention_mistakes.StoresOneFurtherBackend"


class StoresNothing(Plain):
    """It keeps keys and values in memory of its own."""

    _backend: ClassVar[str] = "attention_mistakes.StoresNothingBackend"


class StoresPadding(Plain):
    """It stores padding too: as an index, -1 is the last slot."""

    _backend: ClassVar[str] = "attention_mistakes.StoresPaddingBackend"


class RaisesOnDecode(Plain):
    """It was never run with a step of one token."""

    _backend: ClassVar[str] = "attention_mistakes.RaisesOnDecodeBackend"


class WrongDtype(Plain):
    """It returns float64."""

    _backend: ClassVar[str] = "attention_mistakes.WrongDtypeBackend"


class SmallGroups(Plain):
    """It computes with groups of at most four query heads."""

    _backend: ClassVar[str] = "attention_mistakes.SmallGroupsBackend"


class PowersOfTwo(Plain):
    """It computes with the largest power of 2 within the head size."""

    _backend: ClassVar[str] = "attention_mistakes.PowersOfTwoBackend"


class LargeBlocks(Plain):
    """It reads at most 64 tokens of a block."""

    _backend: ClassVar[str] = "attention_mistakes.LargeBlocksBackend"


class HalfOverflows(Plain):
    """In float16 its scores are not scaled."""

    _backend: ClassVar[str] = "attention_mistakes.HalfOverflowsBackend"


class Scores(Plain):
    """It caps scores and adds position biases, which is right."""

    _backend: ClassVar[str] = "attention_slips.ScoresBackend"


class BothWays(Plain):
    """It has no mask where a step is not causal, which is right."""

    _backend: ClassVar[str] = "attention_slips.BothWaysBackend"


class MaskStays(Plain):
    """It says that it does non-causal attention, and masks all the same."""

    _backend: ClassVar[str] = "attention_slips.MaskStaysBackend"


class StoresHalf(Plain):
    """It stores keys and values in other dtypes, which is right."""

    _backend: ClassVar[str] = "attention_slips.StoresHalfBackend"


class ReadsHalfWrong(Plain):
    """It reads keys and values that are stored in another dtype as half as large."""

    _backend: ClassVar[str] = "attention_slips.ReadsHalfWrongBackend"


class NoMaximum(Plain):
    """It takes exponentials of scores as they are."""

    _backend: ClassVar[str] = "attention_slips.NoMaximumBackend"


class MaximumFromZero(Plain):
    """Its running maximum begins at 0."""

    _backend: ClassVar[str] = "attention_slips.MaximumFromZeroBackend"


class CapIgnored(Plain):
    """It takes a soft cap and does not look at it."""

    _backend: ClassVar[str] = "attention_slips.CapIgnoredBackend"


class CapBeforeScale(Plain):
    """It caps what is not scaled yet."""

    _backend: ClassVar[str] = "attention_slips.CapBeforeScaleBackend"


class BiasIgnored(Plain):
    """It takes slopes of position biases and does not look at them."""

    _backend: ClassVar[str] = "attention_slips.BiasIgnoredBackend"


class ChangesMetadata(Plain):
    """It marks the slots of a step as done, in the metadata of all layers."""

    _backend: ClassVar[str] = "attention_slips.ChangesMetadataBackend"


class KeepsByStep(Plain):
    """It keeps what it has read of a request for the rest of the step, whichever layer asks."""

    _backend: ClassVar[str] = "attention_slips.KeepsByStepBackend"


class ScalesQuery(Plain):
    """It scales the queries where they are."""

    _backend: ClassVar[str] = "attention_slips.ScalesQueryBackend"


class TilesUnmasked(Plain):
    """From row 128 on a token sees all of its tile of 64."""

    _backend: ClassVar[str] = "attention_slips.TilesUnmaskedBackend"


class SumsInHalf(Plain):
    """In bfloat16 it adds weights up in bfloat16."""

    _backend: ClassVar[str] = "attention_slips.SumsInHalfBackend"


class WindowFromBlock(Plain):
    """In a decode step a window that begins in a later block begins with that block."""

    _backend: ClassVar[str] = "attention_slips.WindowFromBlockBackend"


class ManyRequests(Plain):
    """It computes 64 rows of a step that only decodes."""

    _backend: ClassVar[str] = "attention_slips.ManyRequestsBackend"


class LargeGroups(Plain):
    """It computes sixteen heads of a group."""

    _backend: ClassVar[str] = "attention_slips.LargeGroupsBackend"


class PaddedDecode(Plain):
    """In a step that only decodes it takes every row of the query for a request."""

    _backend: ClassVar[str] = "attention_slips.PaddedDecodeBackend"
