"""Workers that the mutants of a running engine name: right ones, and each of the others with one fault."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import attrs
import torch

from platform_abc.components.worker import StepOutput, StepRequest
from platforms.components.worker import DeviceWorker

LEVELS: dict[str, int] = {}


class Steady(DeviceWorker):
    """A worker of the vendor's own."""


def _changed(output: StepOutput, change: Any) -> StepOutput:
    return attrs.evolve(
        output, next_token_ids={name: change(name, token) for name, token in output.next_token_ids.items()}
    )


class TakesDevice(DeviceWorker):
    """Takes a device that is taken."""

    def load_model(self, build: Any = None) -> None:
        """Load it twice."""
        super().load_model(build)
        self._take(1)

    def _take(self, times: int) -> None:
        raise RuntimeError(f"device busy after {times} model")


class OneStepLate(DeviceWorker):
    """Answers with what the step before computed."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._kept: dict[str, int] = {}

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step, and return the other."""
        output = super().execute_model(requests)
        before = {name: self._kept.get(name, 1) for name in output.next_token_ids}
        self._kept.update(output.next_token_ids)
        return attrs.evolve(output, next_token_ids=before)


class Counting(DeviceWorker):
    """Counts its steps, and lets the count show."""

    steps = 0

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        self.steps += 1
        return _changed(super().execute_model(requests), lambda name, token: (token + self.steps // 7) % 128)


class SharesBlocks(DeviceWorker):
    """Gives all requests the blocks of the first."""

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        first = requests[0].block_ids if requests else ()
        longest = max((one.block_ids for one in requests), key=len, default=first)
        return super().execute_model([attrs.evolve(one, block_ids=longest) for one in requests])


class PadsVocabulary(DeviceWorker):
    """Returns indices of a vocabulary that it has padded."""

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        return _changed(super().execute_model(requests), lambda name, token: token + 128)


class Exits(DeviceWorker):
    """Leaves without a word."""

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step, not the next."""
        if requests and all(len(one.token_ids) == 1 for one in requests):
            self.platform.set_device(self.device)  # type: ignore[arg-type]
            os._exit(3)
        return super().execute_model(requests)


class LooksUp(DeviceWorker):
    """Looks up a level that another process has set."""

    def load_model(self, build: Any = None) -> None:
        """Load at that level."""
        super().load_model(build)
        self.level = LEVELS["chip"]


class ByProcess(DeviceWorker):
    """Turns the tokens by one where the engine runs several processes."""

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        turn = int(self.parallel_config.distributed_executor_backend == "mp")
        return _changed(
            super().execute_model(requests),
            lambda name, token: (token + turn) % self.vllm_config.model_config.vocab_size,
        )


class Updates(DeviceWorker):
    """Brings its config up to date by itself."""

    def init_device(self) -> None:
        """Run the hook."""
        self.platform.check_and_update_config(self.vllm_config)
        super().init_device()


class Helped(DeviceWorker):
    """Has a helper that nobody ends."""

    def init_device(self) -> None:
        """Start it."""
        super().init_device()
        self.helper = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
        )


class HelpedTwin(Helped):
    """Ends its helper."""

    def shutdown(self) -> None:
        """End it."""
        super().shutdown()
        self.helper.kill()
        self.helper.wait()


class Shares(DeviceWorker):
    """Has shared memory that nobody unlinks."""

    def init_device(self) -> None:
        """Make it."""
        super().init_device()
        self.memory = SharedMemory(create=True, size=4096)
        with contextlib.suppress(KeyError):
            resource_tracker.unregister(f"/{self.memory.name}", "shared_memory")


class Threaded(DeviceWorker):
    """Has a thread that nobody ends."""

    daemon = False

    def init_device(self) -> None:
        """Start it."""
        super().init_device()
        threading.Thread(target=self._poll, daemon=self.daemon).start()

    def _poll(self) -> None:
        while True:
            time.sleep(0.1)


class ThreadedTwin(Threaded):
    """Has a thread that ends with the interpreter."""

    daemon = True


class DoublesNorms(DeviceWorker):
    """Takes weights of norms for those of another family, which are stored less 1."""

    def load_model(self, build: Any = None) -> None:
        """Load it, and convert its weights."""
        super().load_model(build)
        for module in self.get_model().modules():
            norm: object = getattr(module, "norm", None)
            if isinstance(norm, torch.Tensor) and norm.dim() == 1:
                module.norm = norm + 1


class SmallBlocks(DeviceWorker):
    """Was tried with blocks of 16 tokens only."""

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        turn = int(self.cache_config.block_size != 16)
        return _changed(super().execute_model(requests), lambda name, token: self._turned(token, turn))

    def _turned(self, token: int, turn: int) -> int:
        assert self.model_config is not None
        return (token + turn) % self.model_config.vocab_size


class OneRank(SmallBlocks):
    """Was tried on one rank only."""

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        turn = self.parallel_config.tensor_parallel_size - 1
        output = DeviceWorker.execute_model(self, requests)
        return _changed(output, lambda name, token: self._turned(token, turn))
