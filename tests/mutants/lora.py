"""Platforms whose LoRA wrapper adds something else, and two whose wrapper is right."""

from __future__ import annotations

from typing import ClassVar, Final

from tests.mutants.good import Good

PARTS: Final = "tests.mutants.lora_parts"


class Plain(Good):
    """Names a LoRA wrapper that is right."""

    _wrapper: ClassVar[str] = "Plain"

    @classmethod
    def get_punica_wrapper(cls) -> str:
        """Name the wrapper."""
        return f"{PARTS}.{cls._wrapper}"


class Returns(Plain):
    """Cannot update tensors in place, and names a wrapper that returns its results, which is right as well."""

    _wrapper: ClassVar[str] = "Returns"

    @classmethod
    def can_update_inplace(cls) -> bool:
        """Say no."""
        return False


class ReturnsOnly(Plain):
    """Says that it updates in place, and names a wrapper that only returns its results."""

    _wrapper: ClassVar[str] = "Returns"


class GivesNone(Returns):
    """Says that it cannot update in place, and names a wrapper that returns nothing."""

    _wrapper: ClassVar[str] = "Plain"


class FirstSlotOnly(Plain):
    """All tokens use the adapter of slot 0."""

    _wrapper: ClassVar[str] = "FirstSlotOnly"


class AdaptersMixed(Plain):
    """The tokens of a batch get each other's adapters where a layer shrinks and expands at once."""

    _wrapper: ClassVar[str] = "AdaptersMixed"


class ShrinkAdds(Plain):
    """Its shrink adds to what is in the buffer."""

    _wrapper: ClassVar[str] = "ShrinkAdds"


class ScaleLeftOut(Plain):
    """It does not scale."""

    _wrapper: ClassVar[str] = "ScaleLeftOut"


class SlicesReversed(Plain):
    """It expands the slices from the last to the first."""

    _wrapper: ClassVar[str] = "SlicesReversed"


class OffsetIgnored(Plain):
    """It begins at the first column."""

    _wrapper: ClassVar[str] = "OffsetIgnored"


class Overwrites(Plain):
    """A linear layer's own result is overwritten by the adapter's."""

    _wrapper: ClassVar[str] = "Overwrites"


class LogitsByToken(Plain):
    """It takes the adapters of logits from the tokens."""

    _wrapper: ClassVar[str] = "LogitsByToken"


class EmbeddingTwice(Plain):
    """It adds to an embedding twice."""

    _wrapper: ClassVar[str] = "EmbeddingTwice"


class BaseChanged(Plain):
    """Where a layer shrinks and expands at once, tokens without an adapter use the last slot's."""

    _wrapper: ClassVar[str] = "BaseChanged"


class KeepsFirstBatch(Plain):
    """It derives the slots of a batch's tokens once."""

    _wrapper: ClassVar[str] = "KeepsFirstBatch"


class KeepsSlots(Plain):
    """It remembers in which slot an adapter was first."""

    _wrapper: ClassVar[str] = "KeepsSlots"


class RefusesMixed(Plain):
    """It takes batches of one adapter only."""

    _wrapper: ClassVar[str] = "RefusesMixed"


class SmallRanks(Plain):
    """It computes ranks of sixteen at most."""

    _wrapper: ClassVar[str] = "SmallRanks"


class KeepsPacked(Plain):
    """It packs the weights of a stack once."""

    _wrapper: ClassVar[str] = "KeepsPacked"


class LeavesRubbish(Plain):
    """Its shrink leaves the rows of tokens without an adapter as they were."""

    _wrapper: ClassVar[str] = "LeavesRubbish"


class BufferLeaks(Plain):
    """It multiplies what its buffer holds by zero, for tokens without an adapter."""

    _wrapper: ClassVar[str] = "BufferLeaks"


class ScalesInput(Plain):
    """It scales the input of a layer where it is."""

    _wrapper: ClassVar[str] = "ScalesInput"


class DoublesHalf(Plain):
    """In bfloat16 its shrink gives twice as much."""

    _wrapper: ClassVar[str] = "DoublesHalf"
