"""Right platforms that differ from ours as vendors' do: few sizes, memory made in advance, tiles, whole blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from platform_abc.errors import ConfigError, NotSupported
from tests.mutants.attention import Plain
from tests.mutants.numbers import Eighths, Quantises
from tests.mutants.workers import Copies

if TYPE_CHECKING:
    import torch

    from platform_abc.components.quantization import QuantizationMethod
    from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig, EngineConfig


class FewSizes(Plain):
    """Serves two head sizes, one dtype and one block size, and refuses others wherever it is asked."""

    _backend: ClassVar[str] = "right_parts.FewSizesBackend"

    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        """The one dtype of its kernels."""
        import torch

        return [torch.float16]

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        """Refuse models of other sizes in the front end."""
        super().check_and_update_config(vllm_config)
        model = vllm_config.model_config
        if model is not None and model.get_head_size() not in (64, 128):
            raise ConfigError(f"model_config.head_size = {model.get_head_size()}: expected 64 or 128")

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: AttentionBackendEnum | None,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        """Name the one backend where it serves the layer."""
        if attn_selector_config.head_size not in (64, 128) or "float16" not in str(
            attn_selector_config.dtype
        ):
            raise ValueError(
                f"the kernels of this chip take heads of 64 or 128 in float16: {attn_selector_config}"
            )
        return super().get_attn_backend_cls(selected_backend, attn_selector_config, num_heads)


class RefusingBackend(Plain):
    """Names its backend for every layer, and lets that refuse: head sizes, and a dtype that the platform lists."""

    _backend: ClassVar[str] = "right_parts.FewSizesBackend"


class Bounds(Plain):
    """Its cache keeps the bounds of the keys of each block beside them."""

    _backend: ClassVar[str] = "right_parts.BoundsBackend"


class InTiles(Eighths):
    """Its kernel takes whole tiles, and says so."""

    def quantize(self, weight: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Return whole numbers, and the scale of each row."""
        if weight.shape[0] % 64 or weight.shape[1] % 128:
            raise ValueError(f"expected multiples of 64 outputs and 128 inputs, got {list(weight.shape)}")
        return super().quantize(weight)


class QuantisesInTiles(Quantises):
    """Registers a quantization method that refuses shapes that its tiles do not fit."""

    _method: ClassVar[type[QuantizationMethod]] = InTiles


class WholeBlocks(Copies):
    """Its worker gives whole blocks of memory, also of the user's number, and leaves `shutdown` to the base."""

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        """Name the worker where the user did not."""
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = "tests.mutants.right_parts.WholeBlocks"


class NoVision(Plain):
    """Has no attention backend for vision encoders."""

    @classmethod
    def get_supported_vit_attn_backends(cls) -> list[Any]:
        """List none."""
        return []

    @classmethod
    def get_vit_attn_backend(cls, head_size: int, dtype: torch.dtype, backend: Any = None) -> Any:
        """Decline."""
        raise NotSupported("get_vit_attn_backend", cls.__name__, "choose a model without images")
