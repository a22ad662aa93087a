"""Platforms whose communicator moves something else, and two that do it in a way of their own."""

from __future__ import annotations

from typing import ClassVar, Final

from tests.mutants.good import Good

PARTS: Final = "tests.mutants.collectives_parts"


class ByMessages(Good):
    """Everything by messages from rank to rank, which is right."""

    _communicator: ClassVar[str] = "ByMessages"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name the communicator."""
        return f"{PARTS}.{cls._communicator}"


class ForgetsRank(ByMessages):
    """Its sum leaves the last rank out."""

    _communicator: ClassVar[str] = "ForgetsRank"


class TakesMean(ByMessages):
    """It averages instead of adding up."""

    _communicator: ClassVar[str] = "TakesMean"


class ReducesNothing(ByMessages):
    """It gives each rank what it had."""

    _communicator: ClassVar[str] = "ReducesNothing"


class WidensSum(ByMessages):
    """It returns the float32 in which it added up."""

    _communicator: ClassVar[str] = "WidensSum"


class Hangs(ByMessages):
    """On all ranks but the first it waits for a message that nobody sends."""

    _communicator: ClassVar[str] = "Hangs"


class Dies(ByMessages):
    """It ends the process where there is more than one dimension."""

    _communicator: ClassVar[str] = "Dies"


class GathersReversed(ByMessages):
    """It joins the ranks from the last to the first."""

    _communicator: ClassVar[str] = "GathersReversed"


class GathersOwnFirst(ByMessages):
    """Each rank puts its own part first."""

    _communicator: ClassVar[str] = "GathersOwnFirst"


class GathersRows(ByMessages):
    """It joins rows, whatever dimension is asked for."""

    _communicator: ClassVar[str] = "GathersRows"


class GatherChangesInput(ByMessages):
    """It clears the tensor that it gathers."""

    _communicator: ClassVar[str] = "GatherChangesInput"


class ScattersNext(ByMessages):
    """Each rank gets the share of the next one."""

    _communicator: ClassVar[str] = "ScattersNext"


class ScattersUnsummed(ByMessages):
    """It divides without adding up."""

    _communicator: ClassVar[str] = "ScattersUnsummed"


class GathersEverywhere(ByMessages):
    """All ranks get what one should."""

    _communicator: ClassVar[str] = "GathersEverywhere"


class GathersAtZero(ByMessages):
    """It does not look at `dst`."""

    _communicator: ClassVar[str] = "GathersAtZero"


class BroadcastsCopy(ByMessages):
    """It returns the right tensor and leaves the given one as it was."""

    _communicator: ClassVar[str] = "BroadcastsCopy"


class BroadcastsFromZero(ByMessages):
    """It does not look at `src`."""

    _communicator: ClassVar[str] = "BroadcastsFromZero"


class SendsEarly(ByMessages):
    """It sends what the memory of a tensor holds, in the order in which it lies there."""

    _communicator: ClassVar[str] = "SendsEarly"


class ReceivesFromNext(ByMessages):
    """Its default peer to receive from is the next rank, and to send to the previous one."""

    _communicator: ClassVar[str] = "ReceivesFromNext"


class NoBarrier(ByMessages):
    """Its barrier waits for nobody."""

    _communicator: ClassVar[str] = "NoBarrier"


class ThinksItIsAlone(ByMessages):
    """It takes its rank from a variable that only some launchers set."""

    _communicator: ClassVar[str] = "ThinksItIsAlone"


class SlowStart(ByMessages):
    """Takes its time to start, which is allowed."""

    _communicator: ClassVar[str] = "SlowStart"


class AloneDivides(ByMessages):
    """It divides by the number of other ranks."""

    _communicator: ClassVar[str] = "AloneDivides"


class RankOfFirst(ByMessages):
    """It takes the rank of the first group of its process in all groups."""

    _communicator: ClassVar[str] = "RankOfFirst"


class RowsByDefault(ByMessages):
    """It joins rows where no dimension is given."""

    _communicator: ClassVar[str] = "RowsByDefault"


class ReusesBuffer(ByMessages):
    """It gathers into one buffer for each shape."""

    _communicator: ClassVar[str] = "ReusesBuffer"


class BroadcastsFloats(ByMessages):
    """It broadcasts whole numbers as float32."""

    _communicator: ClassVar[str] = "BroadcastsFloats"


class LargeTail(ByMessages):
    """It adds up whole multiples of 64 KiB, once there are as many."""

    _communicator: ClassVar[str] = "LargeTail"


class OneBuffer(ByMessages):
    """It receives into one buffer for each shape."""

    _communicator: ClassVar[str] = "OneBuffer"
