"""Components that test platforms name: each works, and says that it was used."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from platform_abc.components.attention import MultipleOf
from platform_abc.components.compile import CompilePass, DefaultPassManager, PassManager
from platform_abc.components.graph import StaticGraphWrapper
from platform_abc.components.kv_cache import DefaultKVCacheConfigBuilder, KVCacheConfig
from platform_abc.components.lora import PunicaWrapperBase
from platform_abc.components.quantization import QuantizationMethod
from platforms.components.attention import TorchSdpaBackend
from platforms.components.worker import DeviceWorker


class NotingWorker(DeviceWorker):
    """A worker that writes down its end, in the file that a variable names."""

    def shutdown(self) -> None:
        with Path(os.environ["TESTS_NOTES"]).open("a", encoding="utf-8") as notes:
            notes.write("shutdown\n")
        super().shutdown()


class OtherBackend(TorchSdpaBackend):
    """A backend under another name."""

    @staticmethod
    def get_name() -> str:
        return "OTHER"


class OnlyHalf(TorchSdpaBackend):
    """A backend that computes in float16 only."""

    supported_dtypes: ClassVar[Sequence[str]] = ("float16",)


class Sixteens(TorchSdpaBackend):
    """A backend for blocks of multiples of 16."""

    @staticmethod
    def get_name() -> str:
        return "SIXTEENS"

    @staticmethod
    def get_supported_kernel_block_sizes() -> Sequence[int | MultipleOf]:
        return (MultipleOf(16),)


class CountingWrapper(StaticGraphWrapper):
    """Runs what it wraps, and counts."""

    calls: ClassVar[list[str]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append(self.runtime_mode.name)
        return self.runnable(*args, **kwargs)


class TorchPunica(PunicaWrapperBase):
    """Adapters by plain torch, for linear layers."""

    def add_lora_linear(
        self,
        y: Any,
        x: Any,
        lora_a_stacked: Sequence[Any],
        lora_b_stacked: Sequence[Any],
        scale: float,
        output_slices: Sequence[int],
        *,
        buffer: Any = None,
        **kwargs: Any,
    ) -> Any:
        for token, slot in enumerate(self.token_slots):
            if slot >= 0:
                y[token] += (x[token] @ lora_a_stacked[0][slot].T) @ lora_b_stacked[0][slot].T * scale
        return y

    def add_shrink(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def add_expand(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def add_lora_embedding(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def add_lora_logits(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class CountingPasses(DefaultPassManager):
    """The default manager, which remembers its instances."""

    made: ClassVar[list[PassManager]] = []

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)


class Nothing(CompilePass):
    """A pass that changes nothing."""

    def __call__(self, graph: Any) -> None:
        return


class FewBlocks(DefaultKVCacheConfigBuilder):
    """A builder that makes five blocks, whatever fits."""

    def build(self, specs: Any, available_bytes: int) -> KVCacheConfig:
        self.config.cache_config.num_gpu_blocks_override = 5
        return super().build(specs, available_bytes)


class Rounded(QuantizationMethod):
    """Weights rounded to eighths."""

    @classmethod
    def get_name(cls) -> str:
        return "rounded"

    @classmethod
    def get_supported_act_dtypes(cls) -> list[torch.dtype]:
        return [torch.float32]

    def quantize(self, weight: torch.Tensor) -> Mapping[str, torch.Tensor]:
        return {"eighths": (weight * 8).round().to(torch.int16)}

    def apply(
        self, stored: Mapping[str, torch.Tensor], x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        return torch.nn.functional.linear(x, stored["eighths"].to(x.dtype) / 8, bias)


NOT_A_CLASS: Callable[..., int] = len
