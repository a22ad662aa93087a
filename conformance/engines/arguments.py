"""Harmless calls of the members whose parameters are plain values, the same on every engine.

The values are small and real: device 0, a float32, a capability pair. Members that take an object of
the engine (a config, a request, a parser) are the adapters' to supply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from conformance.engines.base import Arguments


def plain(member: str) -> Sequence[Arguments]:
    """Return harmless calls of a member, empty where they need types of the engine.

    Imports torch for the members that take a dtype; call it in a child only.
    """
    if member in _NEEDS_ENGINE or member.startswith("_"):
        return ()
    if member in _TAKE_DTYPE:
        import torch

        return (Arguments((*_TAKE_DTYPE[member], torch.float32)),)
    return _CALLS.get(member, (Arguments(),))


def _weight_loader(*args: object, **kwargs: object) -> str:
    return "loaded"


_TAKE_DTYPE: Final[Mapping[str, tuple[object, ...]]] = {
    "get_vit_attn_backend": (64,),
    "get_infinity_values": (),
}
"""Members whose last positional argument is a dtype, with what comes before it."""

_CALLS: Final[Mapping[str, Sequence[Arguments]]] = {
    "get_max_output_tokens": (Arguments((16,)),),
    "device_control_id_to_physical_device_id": (Arguments(("0",)),),
    "device_id_to_physical_device_id": (Arguments((0,)),),
    "logical_device_id_to_visible_device_id": (Arguments((0,)),),
    "visible_device_id_to_physical_device_id": (Arguments((0,)),),
    "has_device_capability": (Arguments((80,), case="80"), Arguments(((8, 0),), case="(8, 0)")),
    "is_device_capability": (Arguments((80,), case="80"), Arguments(((8, 0),), case="(8, 0)")),
    "is_device_capability_family": (Arguments((90,)),),
    "is_fully_connected": (Arguments(([0],)),),
    "set_device": (Arguments(("cpu",)),),
    "manual_seed_all": (Arguments((0,)),),
    "verify_model_arch": (Arguments(("LlamaForCausalLM",)),),
    "verify_quantization": (),
    "make_synced_weight_loader": (Arguments((_weight_loader,)),),
    "check_if_supports_dtype": (),
    "check_max_model_len": (Arguments((128,)),),
    "enable_multi_stream_overlap": (Arguments((None, None)),),
    "validate_environ": (Arguments((False,)),),
}
"""Calls with plain values; a member that is not here takes none, and an empty entry has none to offer."""

_NEEDS_ENGINE: Final = frozenset(
    {
        "apply_config_platform_defaults",
        "check_and_update_config",
        "get_attn_backend_cls",
        "get_default_ir_op_priority",
        "get_kv_cache_config_builder_cls",
        "get_mla_prefill_backend_cls",
        "insert_blocks_to_device",
        "pack_kv_cache",
        "pre_register_and_update",
        "register_custom_kv_cache_specs",
        "set_additional_forward_context",
        "stateless_init_device_torch_dist_pg",
        "swap_out_blocks_to_host",
        "update_block_size_for_backend",
        "validate_request",
    }
)
