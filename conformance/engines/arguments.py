"""Harmless calls of the members whose parameters are plain values, the same on every engine.

The values are small and real: device 0, a float32, a capability pair. Members that take an object of
the engine (a config, a request, a parser) are the adapters' to supply.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.engines.base import Arguments


def plain(member: str) -> Sequence[Arguments]:
    """Return harmless calls of a member, empty where they need types of the engine.

    Imports torch for the members that take a dtype or a device; call it in a child only.
    """
    import torch

    calls: dict[str, list[Arguments]] = {
        "get_max_output_tokens": [Arguments((16,))],
        "device_control_id_to_physical_device_id": [Arguments(("0",))],
        "device_id_to_physical_device_id": [Arguments((0,))],
        "logical_device_id_to_visible_device_id": [Arguments((0,))],
        "visible_device_id_to_physical_device_id": [Arguments((0,))],
        "get_vit_attn_backend": [Arguments((64, torch.float32))],
        "has_device_capability": [Arguments((80,), case="80"), Arguments(((8, 0),), case="(8, 0)")],
        "is_device_capability": [Arguments((80,), case="80"), Arguments(((8, 0),), case="(8, 0)")],
        "is_device_capability_family": [Arguments((90,))],
        "set_device": [Arguments(("device 0",))],
        "manual_seed_all": [Arguments((0,))],
        "verify_model_arch": [Arguments(("LlamaForCausalLM",))],
        "verify_quantization": [],
        "get_infinity_values": [Arguments((torch.float32,))],
        "make_synced_weight_loader": [Arguments((_weight_loader,))],
        "check_if_supports_dtype": [],
        "check_max_model_len": [Arguments((128,))],
        "validate_environ": [Arguments((False,))],
    }
    needs_engine = {
        "apply_config_platform_defaults",
        "check_and_update_config",
        "get_attn_backend_cls",
        "get_default_ir_op_priority",
        "get_kv_cache_config_builder_cls",
        "get_mla_prefill_backend_cls",
        "pre_register_and_update",
        "register_custom_kv_cache_specs",
        "set_additional_forward_context",
        "stateless_init_device_torch_dist_pg",
        "update_block_size_for_backend",
        "validate_request",
    }
    if member in needs_engine or member.startswith("_"):
        return []
    return calls.get(member, [Arguments()])


def _weight_loader(*args: object, **kwargs: object) -> str:
    return "loaded"
