"""Mutants whose fault shows late: at the third call, beside another option, or in another process only."""

from __future__ import annotations

import functools
import os
import sys
import types
import warnings
from abc import ABCMeta
from collections.abc import Callable
from typing import Any

from tests.mutants.good import HERE, Good

_CALLS: dict[str, int] = {}
_SIZES: dict[str, int] = {}


def _count(name: str) -> int:
    _CALLS[name] = _CALLS.get(name, 0) + 1
    return _CALLS[name]


class _Box:
    """Holds what is hung on it, and prints as nothing in particular."""


class _Kind(ABCMeta):
    """A metaclass that has room for a note."""

    noted: int | None = None


class Noted(Good, metaclass=_Kind):
    """Keeps a size on its metaclass."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Keep it."""
        super().check_and_update_config(vllm_config)
        type(cls).noted = vllm_config.scheduler_config.max_num_seqs


class Boxed(Good):
    """Keeps a size in an object of the class that prints alike before and after."""

    _box = _Box()

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Keep it."""
        super().check_and_update_config(vllm_config)
        cls._box.seqs = vllm_config.scheduler_config.max_num_seqs  # type: ignore[attr-defined]


class Lazy(Good):
    """Keeps what it computes for itself, in every process anew, also when a hook asks first."""

    _name = ""
    _driver = _Box()

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Compute it once."""
        cls._name = cls._name or "CHIP-9"
        cls._driver.handle = 9  # type: ignore[attr-defined]
        return cls._name

    @functools.cached_property
    def supported_dtypes(self) -> list[Any]:
        """List one."""
        import torch

        return [torch.float32]

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Ask the platform itself, as the engine's current one."""
        import platforms

        super().check_and_update_config(vllm_config)
        if cls.get_device_name() == "CHIP-1" or not platforms.current_platform.supported_dtypes:
            raise ValueError("this chip is too old")


class ThirdCall(Good):
    """Changes the config when it is called for the third time."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Change it."""
        super().check_and_update_config(vllm_config)
        if _count("third") > 2:
            vllm_config.scheduler_config.max_num_seqs = 7


class WorkerBesideLinks(Good):
    """Replaces the user's worker where tensor parallelism is on."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Replace it."""
        super().check_and_update_config(vllm_config)
        if vllm_config.parallel_config.tensor_parallel_size > 1:
            vllm_config.parallel_config.worker_cls = f"{HERE}.Worker"


class WorkerBesideLinksTold(Good):
    """Replaces the user's worker where tensor parallelism is on, and says so."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Replace it."""
        super().check_and_update_config(vllm_config)
        parallel = vllm_config.parallel_config
        if parallel.tensor_parallel_size > 1 and parallel.worker_cls != f"{HERE}.Worker":
            warnings.warn(f"worker_cls {parallel.worker_cls} has no links, using the chip's", stacklevel=2)
            parallel.worker_cls = f"{HERE}.Worker"


class DropsOptions(Good):
    """Puts its own options in the place of the user's."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put them there."""
        super().check_and_update_config(vllm_config)
        vllm_config.additional_config = {"chip_seqs": vllm_config.scheduler_config.max_num_seqs}


class Forgets:
    """An option whose pickled form is empty."""

    level = 1

    def __getstate__(self) -> dict[str, int]:
        return {}


class Keeps:
    """An option that pickles whole."""

    level = 1


def _with_option(vllm_config: Any, make: Callable[[], Any]) -> None:
    options = dict(vllm_config.additional_config or {})
    if "chip" not in options:
        options["chip"] = make()
        options["chip"].level = 3
    vllm_config.additional_config = options


class OptionForgets(Good):
    """Puts an option into the config that loses its value on the way to a worker."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put it there."""
        super().check_and_update_config(vllm_config)
        _with_option(vllm_config, Forgets)


class OptionKeeps(Good):
    """Puts an option of its own class into the config."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put it there."""
        super().check_and_update_config(vllm_config)
        _with_option(vllm_config, Keeps)


class OptionOfThisProcess(Good):
    """Puts an option into the config whose module only this process has."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put it there."""
        super().check_and_update_config(vllm_config)
        module = sys.modules.setdefault("chip_made_here", types.ModuleType("chip_made_here"))
        if not hasattr(module, "Option"):
            module.Option = type("Option", (), {"__module__": "chip_made_here", "level": 1})  # type: ignore[attr-defined]
        _with_option(vllm_config, module.Option)


class BlockByHook(Good):
    """Chooses the block size from a module global that only the front end's hook has set."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Set it."""
        super().check_and_update_config(vllm_config)
        _SIZES["block"] = 64

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        """Read it."""
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = _SIZES.get("block", 32)


class GatherByVariable(Good):
    """Answers from a variable that the hook has set, and that worker processes get."""

    additional_env_vars: list[str] = ["CHIP_GATHER"]

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Set it."""
        super().check_and_update_config(vllm_config)
        os.environ.setdefault("CHIP_GATHER", "0")

    @classmethod
    def use_all_gather(cls) -> bool:
        """Read it."""
        return os.environ.get("CHIP_GATHER", "1") == "1"


def _hidden(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate without a trace of what is decorated."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


class HiddenCoroutine(Good):
    """Makes a config hook a coroutine function, behind a decorator."""

    @classmethod
    @_hidden
    async def apply_config_platform_defaults(cls, vllm_config: Any) -> None:  # type: ignore[misc]
        """Never run."""


class HiddenGenerator(Good):
    """Makes a kernel hook a generator function, behind a decorator."""

    @classmethod
    @_hidden
    def import_kernels(cls) -> Any:  # type: ignore[misc]
        """Never run."""
        yield


class Hidden(Good):
    """Decorates hooks that do run."""

    @classmethod
    @_hidden
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:  # type: ignore[misc]
        """Do nothing."""

    @classmethod
    @_hidden
    def import_kernels(cls) -> None:  # type: ignore[misc]
        """Do nothing."""


class KernelsThirdTime(Good):
    """Does not bear the third import of its kernels."""

    @classmethod
    def import_kernels(cls) -> None:
        """Count."""
        if _count("kernels") > 2:
            raise RuntimeError("out of operator slots")


class PreRegisterGrows(Good):
    """Adds to a variable at each registration."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Add to it."""
        os.environ["CHIP_METHODS"] = os.environ.get("CHIP_METHODS", "") + ",chip_w8"


class ForgetsState(Good):
    """Holds a mode that gets lost in pickling."""

    def __init__(self) -> None:
        self.mode = "fast"

    def __getstate__(self) -> dict[str, str]:
        return {}


class PickerFlips(Good):
    """Names another communicator each time it is asked."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name one of two."""
        own = f"{HERE}.Communicator"
        return (
            own if _count("picker") % 2 else "platforms.components.communicator.TorchDistributedCommunicator"
        )
