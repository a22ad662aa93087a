"""Mutants whose fault only a running engine shows: at the next step, in another process, at the end."""

from __future__ import annotations

import multiprocessing
from typing import Any

import attrs

from tests.mutants import engine_workers
from tests.mutants.good import Good

WORKERS = engine_workers.__name__
_SEEN: dict[str, int] = {}


def _in_child(name: str = "") -> bool:
    """Say whether this is one of the engine's own processes, of that name."""
    return multiprocessing.parent_process() is not None and name in multiprocessing.current_process().name


class Named(Good):
    """Names a worker of its own, which a subclass says."""

    worker = "Steady"

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Name it where the user did not."""
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = f"{WORKERS}.{cls.worker}"


# ------------------------------------------------------------------------------ in one process


class ManyTokens(Named):
    """Cannot make the context of a step of more than sixteen tokens."""

    @classmethod
    def set_additional_forward_context(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Look up a plan by the number of tokens."""
        plans = {size: f"plan-{size}" for size in range(17)}
        return {"plan": plans[kwargs["num_tokens"]]}


class ManyTokensTwin(Named):
    """Has a plan for any number of tokens."""

    @classmethod
    def set_additional_forward_context(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Name the next larger plan."""
        return {"plan": f"plan-{-(-kwargs['num_tokens'] // 16) * 16}"}


class LongPrompts(Named):
    """Takes a prompt of more than thirty tokens for one of text, in the request hook."""

    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        """Count what is there."""
        if len(processed_inputs.prompt_token_ids) > 30 and len(processed_inputs.prompt) > 1000:
            raise ValueError("the prompt is too long")


class SecondLoad(Named):
    """Builds its model twice, and the device is taken then."""

    worker = "TakesDevice"


class Stale(Named):
    """Returns for each request the token of the step before."""

    worker = "OneStepLate"


class Drifting(Named):
    """Adds a little of its own to the tokens, another little each time."""

    worker = "Counting"


class Mixing(Named):
    """Lets all requests of a step write to the blocks of the first one."""

    worker = "SharesBlocks"


class Beyond(Named):
    """Returns tokens that the vocabulary does not have."""

    worker = "PadsVocabulary"


class Leaves(Named):
    """Ends the process when the first step with one token comes."""

    worker = "Exits"


# ---------------------------------------------------------------------- with worker processes


class NeedsFront(Named):
    """Chooses the block size from what the config hook has noted in another process."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Note it."""
        super().check_and_update_config(vllm_config)
        if not _in_child():
            _SEEN["block"] = 16

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        """Use it, in a worker of an engine."""
        if _in_child("worker"):
            vllm_config.cache_config.block_size = _SEEN["block"]
        else:
            super().update_block_size_for_backend(vllm_config)


class CoreRefuses(Named):
    """Refuses the config in the engine core, where its driver cannot be asked."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Ask the driver."""
        if _in_child("engine core"):
            raise RuntimeError("no driver in this process")
        super().check_and_update_config(vllm_config)


class CoreGrows(Named):
    """Makes room for one more sequence in the engine core."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Make it."""
        super().check_and_update_config(vllm_config)
        if _in_child("engine core"):
            vllm_config.scheduler_config.max_num_seqs += 1


class WorkerNeedsFront(Named):
    """Has a worker that looks up in its module what the config hook has put there."""

    worker = "LooksUp"

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put it there, as what the engine asks first does."""
        super().check_and_update_config(vllm_config)

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Put it there."""
        engine_workers.LEVELS["chip"] = 3


class OtherTokens(Named):
    """Computes other tokens in a worker process than in one process."""

    worker = "ByProcess"


# -------------------------------------------------------------------------------- at the end


class RunsHooks(Named):
    """Has a worker that runs the config hooks itself."""

    worker = "Updates"


class LeavesProcess(Named):
    """Has a worker whose helper process goes on when the engine is closed."""

    worker = "Helped"


class LeavesProcessTwin(Named):
    """Has a worker whose helper process ends with it."""

    worker = "HelpedTwin"


class LeavesMemory(Named):
    """Has a worker whose shared memory stays when the engine is closed."""

    worker = "Shares"


class LeavesThread(Named):
    """Has a worker with a thread that keeps the interpreter from ending."""

    worker = "Threaded"


class LeavesThreadTwin(Named):
    """Has a worker with a thread that ends with the interpreter."""

    worker = "ThreadedTwin"


@attrs.frozen
class Option:
    """An option of the vendor's own."""

    level: int


class Unusual(Named):
    """Does much that is allowed: an option of its own class, a cache, a helper that ends, a user's logger."""

    worker = "HelpedTwin"
    _cache: dict[str, int] = {}

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put an option there once."""
        super().check_and_update_config(vllm_config)
        options = dict(vllm_config.additional_config or {})
        options.setdefault("chip", Option(3))
        vllm_config.additional_config = options

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Compute it once in each process."""
        return cls._cache.setdefault("memory", 8 << 30)

    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        """Refuse what no device can do."""
        if len(processed_inputs.prompt_token_ids) > 10_000:
            raise ValueError("the prompt is too long")
