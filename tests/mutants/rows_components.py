"""Rows of the zoo's table about what the picked components compute."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

_ATTENTION: Final = "attention:Plain"
_OTHER: Final = "attention:OtherWay"

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
)
"""Every mutant of the native base whose components compute something else."""
