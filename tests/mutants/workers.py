"""Platforms whose worker does something else than its steps, and two whose worker is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from tests.mutants.good import Good

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig

PARTS: Final = "tests.mutants.worker_parts"


class Copies(Good):
    """Names a worker that changes a copy of the config, which is right."""

    _worker: ClassVar[str] = "Copies"

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        """Name the worker where the user did not."""
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = f"{PARTS}.{cls._worker}"


class OneByOne(Copies):
    """Names a worker that runs the requests of a step one after the other, which is right as well."""

    _worker: ClassVar[str] = "OneByOne"


class SpecsByNumber(Copies):
    """Names its layers by their numbers."""

    _worker: ClassVar[str] = "SpecsByNumber"


class NeedsPorts(Copies):
    """Wants a place where ranks meet, also when it is alone."""

    _worker: ClassVar[str] = "NeedsPorts"


class ChangesConfig(Copies):
    """Its loader sets the dtype that it wants in the live config."""

    _worker: ClassVar[str] = "ChangesConfig"


class TakesAll(Copies):
    """Gives the whole memory of the device for the cache."""

    _worker: ClassVar[str] = "TakesAll"


class CountsGib(Copies):
    """Gives the memory for the cache in GiB."""

    _worker: ClassVar[str] = "CountsGib"


class NamesMixed(Copies):
    """The tokens of a batch are given to the requests in reverse."""

    _worker: ClassVar[str] = "NamesMixed"


class LastLeftOut(Copies):
    """A prefill runs without its last token."""

    _worker: ClassVar[str] = "LastLeftOut"


class PlacesShifted(Copies):
    """A decode step counts one token less before it."""

    _worker: ClassVar[str] = "PlacesShifted"


class ChunksAlone(Copies):
    """A chunk of a prompt is run as if it were the start of it."""

    _worker: ClassVar[str] = "ChunksAlone"


class Keeps(Copies):
    """Its module holds every model that it has loaded."""

    _worker: ClassVar[str] = "Keeps"


class LeavesLayers(Copies):
    """It does nothing when it is closed."""

    _worker: ClassVar[str] = "LeavesLayers"


class IgnoresShare(Copies):
    """It takes nine tenths of the memory, whatever share the user gives."""

    _worker: ClassVar[str] = "IgnoresShare"


class IgnoresBytes(Copies):
    """It measures, whatever number of bytes the user gives."""

    _worker: ClassVar[str] = "IgnoresBytes"


class RemembersBlocks(Copies):
    """It keeps the blocks that a request had first."""

    _worker: ClassVar[str] = "RemembersBlocks"


class CopiesCaches(Copies):
    """It gives copies of its caches."""

    _worker: ClassVar[str] = "CopiesCaches"


class EightRequests(Copies):
    """It answers eight requests of a step, and repeats itself for the others."""

    _worker: ClassVar[str] = "EightRequests"
