"""Stand-ins for the layers of a loaded model of vLLM, which decide the block size of its cache."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

from conformance.engines.base import CachePages
from conformance.model import Skip


@functools.cache
def _layer_class() -> type:
    base: Any = _module("vllm.model_executor.layers.attention_layer_base").AttentionLayerBase

    def take(self: Any, backend: Any) -> None:
        self.backend = backend

    def answer(self: Any) -> Any:
        return self.backend

    def nothing(_self: Any, _config: Any) -> None:
        return None

    return type(
        "StandInLayer",
        (base,),
        {"__init__": take, "get_attn_backend": answer, "get_kv_cache_spec": nothing},
    )


class _State:
    """The backend of a layer that keeps a state."""

    @classmethod
    def is_ssm(cls) -> bool:
        """Say that it is one."""
        return True

    @staticmethod
    def get_name() -> str:
        """Return its name."""
        return "STATE"


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Skip(
            f"the installed vLLM has no {name}", "use a vLLM that chooses the block size after the model"
        ) from error


def put_layers(config: Any, backends: Sequence[Any]) -> None:
    """Fill a config's `static_forward_context` as a loaded model does.

    Raises:
        Skip: this vLLM does not choose the block size from the layers.
    """
    layer: Any = _layer_class()
    layers = {f"layers.{number}.attention": layer(backend) for number, backend in enumerate(backends)}
    if config.model_config is not None and config.model_config.is_hybrid:
        layers["layers.0.state"] = layer(_State)
    config.compilation_config.static_forward_context = layers


def cache_pages(config: Any, backend: Any) -> CachePages | None:
    """Return the bytes of a page of the attention layers and of a state; None without a state.

    Raises:
        Skip: this vLLM computes them otherwise.
    """
    model, cache = config.model_config, config.cache_config
    if model is None or not model.is_hybrid:
        return None
    try:
        specs = _module("vllm.v1.kv_cache_interface")
        kind = specs.MLAAttentionSpec if model.use_mla else specs.FullAttentionSpec
        spec = kind(
            block_size=1,
            num_kv_heads=model.get_num_kv_heads(config.parallel_config),
            head_size=model.get_head_size(),
            dtype=model.dtype,
        )
        customize = getattr(backend, "customize_spec", None)
        token = int((spec if customize is None else customize(spec)).page_size_bytes)
        registry = _module("vllm.model_executor.models").ModelRegistry
        cls, _ = registry.resolve_model_cls(model.architecture, model_config=model)
        state = specs.MambaSpec(
            shapes=cls.get_mamba_state_shape_from_config(config),
            dtypes=cls.get_mamba_state_dtype_from_config(config),
            block_size=-1,
        ).page_size_bytes
        return CachePages(cache.block_size * token, int(state), cache.mamba_page_size_padded)
    except (AttributeError, TypeError) as error:
        raise Skip(
            f"this vLLM computes the pages of a hybrid model otherwise: {error}", "use another vLLM"
        ) from error
