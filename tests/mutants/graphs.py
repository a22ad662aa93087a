"""Platforms whose graph wrapper replays something else, and two whose wrapper is right."""

from __future__ import annotations

from typing import ClassVar, Final

from tests.mutants.good import Good

PARTS: Final = "tests.mutants.graph_parts"


class Replays(Good):
    """Names a graph wrapper that keeps memory as a device's graphs do, which is right."""

    _wrapper: ClassVar[str] = "Replays"

    @classmethod
    def get_static_graph_wrapper_cls(cls) -> str:
        """Name the wrapper."""
        return f"{PARTS}.{cls._wrapper}"

    @classmethod
    def support_static_graph_mode(cls) -> bool:
        """Say yes."""
        return True


class Passes(Replays):
    """Names a graph wrapper that runs the callable as it is, which is right as well."""

    _wrapper: ClassVar[str] = "Passes"


class StaleInput(Replays):
    """A replay reads the inputs of the capture."""

    _wrapper: ClassVar[str] = "StaleInput"


class KeywordsStale(Replays):
    """A replay reads the keywords of the capture."""

    _wrapper: ClassVar[str] = "KeywordsStale"


class CapturesOnly(Replays):
    """The step that captures returns memory that nothing was computed in."""

    _wrapper: ClassVar[str] = "CapturesOnly"


class OneShape(Replays):
    """It finds a graph by the number of inputs, and cuts them to the shape of the first."""

    _wrapper: ClassVar[str] = "OneShape"


class SharedAnswer(Replays):
    """All steps of a shape return the same memory."""

    _wrapper: ClassVar[str] = "SharedAnswer"


class AnyMode(Replays):
    """It replays in every step, whatever its mode."""

    _wrapper: ClassVar[str] = "AnyMode"


class CopiesCaches(Replays):
    """It copies what is named as persistent, once."""

    _wrapper: ClassVar[str] = "CopiesCaches"


class FirstCacheOnly(Replays):
    """It does not look whether it is given another cache than at the capture."""

    _wrapper: ClassVar[str] = "FirstCacheOnly"


class WrapsAgain(Replays):
    """It gives another callable back than it was made with."""

    _wrapper: ClassVar[str] = "WrapsAgain"


class ListsStale(Replays):
    """A replay reads the tensors within lists and mappings that the capture had."""

    _wrapper: ClassVar[str] = "ListsStale"


class NumbersBaked(Replays):
    """A replay computes with the numbers of the capture."""

    _wrapper: ClassVar[str] = "NumbersBaked"


class SharesGraphs(Replays):
    """All wrappers find their graphs in one table."""

    _wrapper: ClassVar[str] = "SharesGraphs"


class Swallows(Replays):
    """It logs what the callable raises, and returns nothing."""

    _wrapper: ClassVar[str] = "Swallows"


class KeepsBroken(Replays):
    """It keeps a graph whose capture has failed."""

    _wrapper: ClassVar[str] = "KeepsBroken"
