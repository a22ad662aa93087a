"""The native engine's configs, questions and arguments for the kit: small, whole, and built offline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from conformance.engines.base import Arguments, SelectorCall
from conformance.engines.shapes import USUAL, PlainLayer
from conformance.model import NotRun

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig

USER_WORKER: Final = "platform_abc.components.worker.WorkerBase"
"""Stands for a worker class that the user chose; the hooks only have to leave its name alone."""

USER_BLOCK_SIZE: Final = 48
"""A block size that no platform picks by itself."""


_HEADS: Final = 2
_chosen: list[PlainLayer] = [USUAL]
"""The attention layers of the plain model in this process."""


def use_layer(layer: PlainLayer) -> None:
    """Let the plain model, and the questions of its layers, be of another size and dtype.

    Args:
        layer: that the platform serves.
    """
    _chosen[:] = [layer]


def _model(**facts: Any) -> Any:
    from platform_abc.config import ModelConfig

    layer = _chosen[0]
    plain: dict[str, Any] = {
        "dtype": layer.torch_dtype,
        "hidden_size": _HEADS * layer.head_size,
        "num_attention_heads": _HEADS,
        "max_model_len": 128,
    }
    return ModelConfig(**{**plain, **facts})


def _plain(**parts: Any) -> EngineConfig:
    from platform_abc.config import EngineConfig

    model = parts.pop("model_config", None) or _model(num_layers=2)
    return EngineConfig(model_config=model, **parts)


def _tensor_parallel() -> EngineConfig:
    from platform_abc.config import ParallelConfig

    return _plain(parallel_config=ParallelConfig(tensor_parallel_size=2))


def _lora() -> EngineConfig:
    from platform_abc.config import LoRAConfig

    return _plain(lora_config=LoRAConfig(max_lora_rank=8))


def _quantized() -> EngineConfig:
    from platform_abc.config import QuantizationConfig

    quantized = QuantizationConfig(quant_method="fp8")
    return _plain(model_config=_model(quantization="fp8"), quant_config=quantized)


def _user_block_size() -> EngineConfig:
    from platform_abc.config import CacheConfig

    return _plain(cache_config=CacheConfig(block_size=USER_BLOCK_SIZE, user_specified_block_size=True))


def _user_worker() -> EngineConfig:
    from platform_abc.config import ParallelConfig

    return _plain(parallel_config=ParallelConfig(worker_cls=USER_WORKER))


def _mla() -> EngineConfig:
    return _plain(model_config=_model(use_mla=True))


def _hybrid() -> EngineConfig:
    hybrid = {"layer_kinds": ["attention", "mamba"], "is_hybrid": True, "has_inner_state": True}
    return _plain(model_config=_model(num_layers=2, **hybrid))


def _model_none() -> EngineConfig:
    from platform_abc.config import EngineConfig

    return EngineConfig(model_config=None)


def _additional_options() -> EngineConfig:
    return _plain(additional_config={"conformance_kit": {"probe": 1}})


def _additional_none() -> EngineConfig:
    return _plain(additional_config=None)


CASES: Final[Mapping[str, Callable[[], EngineConfig]]] = {
    "plain": _plain,
    "model-none": _model_none,
    "additional_config-none": _additional_none,
    "additional-options": _additional_options,
    "tensor-parallel": _tensor_parallel,
    "lora": _lora,
    "quantized": _quantized,
    "user-block-size": _user_block_size,
    "user-worker-cls": _user_worker,
    "user-dtype": _plain,
    "mla": _mla,
    "hybrid": _hybrid,
}
"""The representative configs by name; a name that ends in `-none` lacks an optional part."""


def give_device(platform: Any, config: EngineConfig) -> None:
    """Make the device part of a config from the platform.

    Raises:
        NotRun: the platform's device type is not what a config takes, or the platform cannot be asked.
    """
    from platform_abc.config import DeviceConfig
    from platform_abc.errors import ConfigError

    try:
        on_host = platform.uses_host_device_handling()
    except Exception as error:
        # What it asks are predicates, and those have checks of their own.
        raise NotRun(
            f"uses_host_device_handling raises {type(error).__name__}: {error}, see identity.predicates"
        ) from error
    device = "cpu" if on_host else platform.device_type
    try:
        config.device_config = DeviceConfig(device=device, device_type=platform.device_type)
    except ConfigError as error:
        raise NotRun(
            f"the config has no device part for device type {platform.device_type!r}: {error}"
        ) from error


def selector_calls() -> Sequence[SelectorCall]:
    """The questions to the attention picker, as the engine's selector asks them."""
    from platform_abc.config import AttentionSelectorConfig

    layer = _chosen[0]

    def ask(case: str, *, must_answer: bool = False, **facts: Any) -> SelectorCall:
        plain = AttentionSelectorConfig(
            head_size=layer.head_size, dtype=layer.torch_dtype, kv_cache_dtype="auto", block_size=None
        )
        config = plain._replace(**facts)
        return SelectorCall(
            case, (None,), {"attn_selector_config": config, "num_heads": _HEADS}, must_answer=must_answer
        )

    return (
        ask("plain", must_answer=True),
        ask("block-size", block_size=16),
        ask("mla", use_mla=True),
        ask("sparse", use_mla=True, use_sparse=True),
        ask("fp8-kv", kv_cache_dtype="fp8"),
        ask("sliding-window", has_sliding_window=True),
        ask("encoder", attn_type="encoder_only"),
    )


def _request() -> Sequence[Arguments]:
    from platform_abc.requests import EngineInput, PoolingParams, SamplingParams

    return tuple(
        Arguments((EngineInput(prompt_token_ids=[1, 2, 3]), params), case=case)
        for case, params in (("a sampling request", SamplingParams()), ("a pooling request", PoolingParams()))
    )


def _step() -> Sequence[Arguments]:
    from platform_abc.config import CUDAGraphMode

    context = {
        "attn_metadata": None,
        "vllm_config": _plain(),
        "dp_metadata": None,
        "num_tokens": 1,
        "num_tokens_across_dp": None,
        "cudagraph_runtime_mode": CUDAGraphMode.NONE,
        "batch_descriptor": None,
        "ubatch_slices": None,
    }
    return (Arguments(kwargs=context),)


def _mla_question() -> Sequence[Arguments]:
    import torch

    from platform_abc.config import MLAPrefillSelectorConfig

    return (Arguments((MLAPrefillSelectorConfig(dtype=torch.float32),)),)


def _config() -> Sequence[Arguments]:
    return (Arguments((_plain(),)),)


ARGUMENTS: Final[Mapping[str, Callable[[], Sequence[Arguments]]]] = {
    "pre_register_and_update": lambda: (Arguments(), Arguments((_parser(),), case="with a parser")),
    "validate_request": _request,
    "set_additional_forward_context": _step,
    "get_mla_prefill_backend_cls": _mla_question,
    "get_default_ir_op_priority": _config,
    "register_custom_kv_cache_specs": _config,
    "get_kv_cache_config_builder_cls": _config,
    "update_block_size_for_backend": _config,
    "apply_config_platform_defaults": _config,
    "check_and_update_config": _config,
}
"""Harmless calls of the members that take objects of this engine, made anew each time."""


def _parser() -> object:
    import argparse

    parser = argparse.ArgumentParser(prog="engine", add_help=False)
    parser.add_argument("--model", default="toy")
    parser.add_argument("--quantization", default=None)
    return parser
