"""Rows of the zoo's table about what the picked components compute."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

_ATTENTION: Final = "attention:Plain"
_OTHER: Final = "attention:OtherWay"
_MESSAGES: Final = "collectives:ByMessages"
_SLOW: Final = "collectives:SlowStart"
_LORA: Final = "lora:Plain"
_RETURNS: Final = "lora:Returns"
_REPLAYS: Final = "graphs:Replays"
_PASSES: Final = "graphs:Passes"

ROWS: Final = (
    Mutant("attention:SeesNext", "attention.causal", _OTHER),
    Mutant("attention:NoMask", "attention.causal", _ATTENTION),
    Mutant("attention:NotItself", "attention.causal", _ATTENTION),
    Mutant("attention:TopLeft", "attention.chunk", _OTHER),
    Mutant("attention:ScaleTwice", "attention.scale", _ATTENTION),
    Mutant("attention:NoScale", "attention.scale", _ATTENTION),
    Mutant("attention:OwnScale", "attention.scale", _OTHER),
    Mutant("attention:BaseTwo", "attention.scale", _ATTENTION),
    Mutant("attention:HeadsInterleaved", "attention.heads", _ATTENTION),
    Mutant("attention:HeadsFirstOnly", "attention.heads", _OTHER),
    Mutant("attention:WindowWide", "attention.window", _ATTENTION),
    Mutant("attention:WindowIgnored", "attention.window", _ATTENTION),
    Mutant("attention:HistoryIgnored", "attention.decode", _OTHER),
    Mutant("attention:OneBeyond", "attention.decode", _ATTENTION),
    Mutant("attention:ReadsBeforeStoring", "attention.decode", _ATTENTION),
    Mutant("attention:TableSorted", "attention.blocks", _OTHER),
    Mutant("attention:TableContiguous", "attention.blocks", _ATTENTION),
    Mutant("attention:LastBlockLeftOut", "attention.blocks", _ATTENTION),
    Mutant("attention:FirstRowOfTable", "attention.batch", _OTHER),
    Mutant("attention:RowsMixed", "attention.batch", _ATTENTION),
    Mutant("attention:PrefixTwice", "attention.shared-blocks", _ATTENTION),
    Mutant("attention:MasksWeightsOnly", "attention.stale-blocks", _OTHER),
    Mutant("attention:KeepsBlocks", "attention.reused-blocks", _ATTENTION),
    Mutant("attention:IgnoresStride", "attention.strides", _ATTENTION),
    Mutant("attention:RefusesStride", "attention.strides", _OTHER),
    Mutant("attention:OutputKept", "attention.output", _ATTENTION),
    Mutant("attention:OutputReplaced", "attention.output", _ATTENTION),
    Mutant("attention:OutputHalf", "attention.output", _OTHER),
    Mutant("attention:StoresNextBlock", "attention.cache-slots", _ATTENTION),
    Mutant("attention:StoresOneFurther", "attention.cache-slots", _ATTENTION),
    Mutant("attention:StoresNothing", "attention.cache-slots", _OTHER),
    Mutant("attention:StoresPadding", "attention.padding", _ATTENTION),
    Mutant("attention:RaisesOnDecode", "attention.runs", _ATTENTION),
    Mutant("attention:WrongDtype", "attention.runs", _OTHER),
    Mutant("attention:SmallGroups", "attention.groups", _ATTENTION),
    Mutant("attention:PowersOfTwo", "attention.head-sizes", _ATTENTION),
    Mutant("attention:LargeBlocks", "attention.block-sizes", _OTHER),
    Mutant("attention:HalfOverflows", "attention.dtypes", _ATTENTION),
    Mutant("collectives:ForgetsRank", "collectives.all-reduce", _MESSAGES),
    Mutant("collectives:TakesMean", "collectives.all-reduce", _SLOW),
    Mutant("collectives:ReducesNothing", "collectives.all-reduce", _MESSAGES),
    Mutant("collectives:WidensSum", "collectives.all-reduce", _SLOW),
    Mutant("collectives:Hangs", "collectives.all-reduce", _MESSAGES),
    Mutant("collectives:Dies", "collectives.all-reduce", _SLOW),
    Mutant("collectives:GathersReversed", "collectives.all-gather", _MESSAGES),
    Mutant("collectives:GathersOwnFirst", "collectives.all-gather", _SLOW),
    Mutant("collectives:GathersRows", "collectives.all-gather", _MESSAGES),
    Mutant("collectives:GatherChangesInput", "collectives.all-gather", _SLOW),
    Mutant("collectives:ScattersNext", "collectives.reduce-scatter", _MESSAGES),
    Mutant("collectives:ScattersUnsummed", "collectives.reduce-scatter", _SLOW),
    Mutant("collectives:GathersEverywhere", "collectives.gather", _MESSAGES),
    Mutant("collectives:GathersAtZero", "collectives.gather", _SLOW),
    Mutant("collectives:BroadcastsCopy", "collectives.broadcast", _MESSAGES),
    Mutant("collectives:BroadcastsFromZero", "collectives.broadcast", _SLOW),
    Mutant("collectives:SendsEarly", "collectives.send-recv", _MESSAGES),
    Mutant("collectives:ReceivesFromNext", "collectives.send-recv", _SLOW),
    Mutant("collectives:NoBarrier", "collectives.start", _MESSAGES),
    Mutant("collectives:ThinksItIsAlone", "collectives.start", _SLOW),
    Mutant("lora:FirstSlotOnly", "lora.shrink", _LORA),
    Mutant("lora:AdaptersMixed", "lora.linear", _RETURNS),
    Mutant("lora:ShrinkAdds", "lora.shrink", _LORA),
    Mutant("lora:ScaleLeftOut", "lora.shrink", _RETURNS),
    Mutant("lora:SlicesReversed", "lora.expand", _LORA),
    Mutant("lora:OffsetIgnored", "lora.expand", _RETURNS),
    Mutant("lora:Overwrites", "lora.linear", _LORA),
    Mutant("lora:LogitsByToken", "lora.logits", _RETURNS),
    Mutant("lora:EmbeddingTwice", "lora.embedding", _LORA),
    Mutant("lora:BaseChanged", "lora.base-tokens", _RETURNS),
    Mutant("lora:KeepsFirstBatch", "lora.next-batch", _LORA),
    Mutant("lora:KeepsSlots", "lora.next-batch", _RETURNS),
    Mutant("lora:RefusesMixed", "lora.start", _LORA),
    Mutant("lora:ReturnsOnly", "lora.start", _RETURNS),
    Mutant("lora:GivesNone", "lora.start", _LORA),
    Mutant("graphs:StaleInput", "graphs.replay", _REPLAYS),
    Mutant("graphs:KeywordsStale", "graphs.replay", _PASSES),
    Mutant("graphs:CapturesOnly", "graphs.start", _REPLAYS),
    Mutant("graphs:WrapsAgain", "graphs.start", _PASSES),
    Mutant("graphs:OneShape", "graphs.shapes", _REPLAYS),
    Mutant("graphs:SharedAnswer", "graphs.answers-kept", _PASSES),
    Mutant("graphs:AnyMode", "graphs.other-modes", _REPLAYS),
    Mutant("graphs:CopiesCaches", "graphs.persistent", _PASSES),
    Mutant("graphs:FirstCacheOnly", "graphs.persistent", _REPLAYS),
)
"""Every mutant of the native base whose components compute something else."""
