"""Mutants of the config hooks, and their right twins."""

from __future__ import annotations

import os
import threading
from typing import Any

from tests.mutants.good import HERE, Good

_FIRST: dict[str, dict[str, Any]] = {}
_OPS = ["+chip_norm"]


class Crashes(Good):
    """Raises for every config."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Ask a driver that is not there."""
        super().check_and_update_config(vllm_config)
        raise RuntimeError("chip driver is not running")


class RefusesPlain(Good):
    """Refuses the plainest config."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Ask for a block size that nobody set."""
        super().check_and_update_config(vllm_config)
        if vllm_config.cache_config.block_size != 128:
            raise ValueError("cache_config.block_size must be 128")


class TableOfSizes(Good):
    """Looks the tensor-parallel size up in a table that has only 1."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Look it up."""
        super().check_and_update_config(vllm_config)
        slots = {1: 128}[vllm_config.parallel_config.tensor_parallel_size]
        vllm_config.scheduler_config.max_num_seqs = min(vllm_config.scheduler_config.max_num_seqs, slots)


class RefusesTwo(Good):
    """Refuses tensor parallelism with a reason."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Refuse it."""
        super().check_and_update_config(vllm_config)
        if vllm_config.parallel_config.tensor_parallel_size > 1:
            raise ValueError("parallel_config.tensor_parallel_size: the chip has no links, use 1")


class NeedsModel(Good):
    """Reads the model without a test for None."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Read the model."""
        super().check_and_update_config(vllm_config)
        if vllm_config.model_config.use_mla:
            vllm_config.scheduler_config.max_num_seqs = 64


class AsksForModel(Good):
    """Reads the model where there is one."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Read the model."""
        super().check_and_update_config(vllm_config)
        if vllm_config.model_config is not None and vllm_config.model_config.use_mla:
            vllm_config.scheduler_config.max_num_seqs = 64


class NeedsOptions(Good):
    """Indexes into the options, which may be None."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Read an option."""
        super().check_and_update_config(vllm_config)
        if "fast" in vllm_config.additional_config:
            vllm_config.scheduler_config.max_num_seqs = 64


class WorkerAuto(Good):
    """Leaves the worker class as it is."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Do nothing."""


class WorkerMissing(Good):
    """Names a worker that does not exist."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Name it."""
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = "tests.mutants.worker_v2.Worker"


class WorkerUnrelated(Good):
    """Names a class that is no worker."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Name it."""
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = f"{HERE}.Unrelated"


class OverwritesWorker(Good):
    """Replaces the worker that the user chose."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Replace it."""
        vllm_config.parallel_config.worker_cls = f"{HERE}.Worker"


class OverwritesBlockSize(Good):
    """Replaces the block size that the user chose, in the worker."""

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        """Replace it."""
        vllm_config.cache_config.block_size = 128


class KeepsBlockSize(Good):
    """Sets a block size where the user set none."""

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        """Set it."""
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = 128


class WritesNonsense(Good):
    """Puts a number where names belong, past the check of the assignment."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put it there."""
        super().check_and_update_config(vllm_config)
        if 7 not in vllm_config.compilation_config.custom_ops:
            vllm_config.compilation_config.custom_ops.append(7)


class BlockSizeRaises(Good):
    """Raises in the worker's hook."""

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        """Index into nothing."""
        vllm_config.cache_config.block_size = [16, 32][5]


class NeedsParser(Good):
    """Uses the parser without a test for None."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Set a default."""
        parser.set_defaults(quantization="chip_w8")


class RegistersTwice(Good):
    """Does not bear to be called again."""

    _registered: list[str] = []

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Register a method by name."""
        if "chip_w8" in cls._registered and parser is None:
            raise ValueError("quantization method chip_w8 is registered already")
        if parser is None:
            cls._registered.append("chip_w8")


class UsesParser(Good):
    """Uses the parser where there is one."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Set a default."""
        if parser is not None:
            parser.set_defaults(quantization="chip_w8")


class RemembersParser(Good):
    """Notes that there was a command line, and then asks every config for what it set."""

    _with_parser = False

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Note it."""
        if parser is not None:
            cls._with_parser = True

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Ask for it."""
        super().check_and_update_config(vllm_config)
        if cls._with_parser and vllm_config.scheduler_config.async_scheduling is None:
            raise ValueError("scheduler_config.async_scheduling: set it on the command line")


class RefusesModels(Good):
    """Raises for an ordinary model."""

    @classmethod
    def verify_model_arch(cls, model_arch: str) -> None:
        """Look it up in a list of one."""
        if model_arch not in ["ChipForCausalLM"]:
            raise ValueError(f"{model_arch} does not run on the chip")


class RefusesOwnMethod(Good):
    """Lists a quantization method that it then refuses."""

    @classmethod
    def verify_quantization(cls, quant: str) -> None:
        """Refuse it."""
        if quant == "chip_w8":
            raise ValueError("chip_w8 is not supported")


class RefusesOthers(Good):
    """Refuses what it does not list."""

    @classmethod
    def verify_quantization(cls, quant: str) -> None:
        """Refuse what is not listed."""
        if quant not in cls.supported_quantization:
            raise ValueError(f"{quant} is not supported")


class RequestNeedsState(Good):
    """Needs a config hook before the first request."""

    _limits: Any = None

    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        """Read what was never set."""
        assert cls._limits is not None


class LimitAsText(Good):
    """Gives a limit as text."""

    def get_max_output_tokens(self, prompt_len: int) -> int:
        """Return text."""
        return "2048"  # type: ignore[return-value]


class LimitAsNumber(Good):
    """Gives a limit as a number."""

    def get_max_output_tokens(self, prompt_len: int) -> int:
        """Return a number."""
        return max(1, 2048 - prompt_len)


class Lambda(Good):
    """Puts a lambda into the config."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put it there."""
        super().check_and_update_config(vllm_config)
        if vllm_config.additional_config is not None:
            vllm_config.additional_config["loader"] = lambda name: name


class Lock(Good):
    """Hangs a lock on a part of the config."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Hang it there."""
        super().check_and_update_config(vllm_config)
        vllm_config.cache_config.chip_lock = threading.Lock()


class DefaultsGrow(Good):
    """Appends an op at each call of the defaults hook."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        """Append it."""
        vllm_config.compilation_config.custom_ops.append("+chip_norm")


class DefaultsOnce(Good):
    """Appends an op where it is not yet."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        """Append it."""
        if "+chip_norm" not in vllm_config.compilation_config.custom_ops:
            vllm_config.compilation_config.custom_ops.append("+chip_norm")


class CheckGrows(Good):
    """Adds one to a limit at each call."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Add one."""
        super().check_and_update_config(vllm_config)
        vllm_config.scheduler_config.max_num_seqs += 1


class SecondRaises(Good):
    """Raises on a config that it has changed before."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Refuse its own result."""
        if vllm_config.parallel_config.worker_cls == f"{HERE}.Worker":
            raise ValueError("parallel_config.worker_cls must be auto")
        super().check_and_update_config(vllm_config)


class StateOnClass(Good):
    """Keeps the config's sizes on the class."""

    _sizes: dict[str, int] | None = None

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Keep them."""
        super().check_and_update_config(vllm_config)
        cls._sizes = {"seqs": vllm_config.scheduler_config.max_num_seqs}


class StateInConfig(Good):
    """Keeps the sizes in the config."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Keep them."""
        super().check_and_update_config(vllm_config)
        options = dict(vllm_config.additional_config or {})
        options["chip_seqs"] = vllm_config.scheduler_config.max_num_seqs
        vllm_config.additional_config = options


class EnvironmentGrows(Good):
    """Prepends to a variable at each call."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Prepend."""
        super().check_and_update_config(vllm_config)
        os.environ["CHIP_PRELOAD"] = "libchip.so:" + os.environ.get("CHIP_PRELOAD", "")


class EnvironmentSet(Good):
    """Sets a variable where the user has not, and lists it."""

    additional_env_vars: list[str] = ["CHIP_PRELOAD"]

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Set it."""
        super().check_and_update_config(vllm_config)
        os.environ.setdefault("CHIP_PRELOAD", "libchip.so")


class FirstConfigWins(Good):
    """Derives its options once a process, from the first config."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Derive them."""
        super().check_and_update_config(vllm_config)
        kept = _FIRST.setdefault("options", dict(vllm_config.additional_config or {}))
        vllm_config.additional_config = dict(kept)


class SharedList(Good):
    """Puts one and the same list into every config."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        """Put it there."""
        vllm_config.compilation_config.custom_ops = _OPS


class OwnList(Good):
    """Puts a new list into every config."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        """Put it there."""
        ops = vllm_config.compilation_config.custom_ops
        vllm_config.compilation_config.custom_ops = [*(one for one in ops if one not in _OPS), *_OPS]
