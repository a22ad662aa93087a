"""Generated mutants that are no faults, and those that no check finds, each with the reason."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Final

import attrs

from tests.mutants.sources import split


@attrs.frozen
class Rule:
    """Some generated mutants, and why they are as they are.

    Args:
        operators: globs of operators' names.
        members: globs of members' names.
        reason: ends the sentence "This is no fault: …", or says why no check finds it.
    """

    operators: tuple[str, ...]
    members: tuple[str, ...]
    reason: str

    def covers(self, name: str) -> bool:
        """Say whether a mutant is one of these."""
        member, operator = split(name)
        wanted = any(fnmatch.fnmatchcase(operator, one) for one in self.operators)
        return wanted and any(fnmatch.fnmatchcase(member, one) for one in self.members)


def reason(name: str, rules: Iterable[Rule]) -> str:
    """Why a mutant is as it is; empty where no rule is about it."""
    return next((one.reason for one in rules if one.covers(name)), "")


_IGNORED: Final = (
    "apply_config_platform_defaults",
    "check_if_supports_dtype",
    "check_runner_kv_caches_multi_layer",
    "import_ir_kernels",
    "import_kernels",
    "insert_blocks_to_device",
    "log_warnings",
    "pack_kv_cache",
    "pre_register_and_update",
    "register_custom_kv_cache_specs",
    "register_triton_kernel_overrides",
    "set_device",
    "swap_out_blocks_to_host",
    "validate_environ",
    "validate_request",
    "verify_model_arch",
)
"""Hooks whose answer nobody reads, and for which the good platform has no work."""

_BY_POSITION: Final = (
    "apply_config_platform_defaults",
    "check_and_update_config",
    "check_if_supports_dtype",
    "check_max_model_len",
    "device_control_id_to_physical_device_id",
    "device_id_to_physical_device_id",
    "enable_multi_stream_overlap",
    "get_default_ir_op_priority",
    "get_infinity_values",
    "get_kv_cache_config_builder_cls",
    "get_max_output_tokens",
    "get_mla_prefill_backend_cls",
    "insert_blocks_to_device",
    "is_fully_connected",
    "logical_device_id_to_visible_device_id",
    "make_synced_weight_loader",
    "manual_seed_all",
    "register_custom_kv_cache_specs",
    "set_device",
    "swap_out_blocks_to_host",
    "update_block_size_for_backend",
    "validate_environ",
    "validate_request",
    "verify_model_arch",
    "verify_quantization",
    "visible_device_id_to_physical_device_id",
    "__getattr__",
)
"""Members whose parameters have no defaults, and whose callers pass every argument by position."""

_DEFAULTS: Final = (
    "device_control_env_var",
    "dist_backend",
    "get_current_memory_usage",
    "get_device_communicator_cls",
    "get_device_total_memory",
    "get_kv_cache_config_builder_cls",
    "get_pass_manager_cls",
    "num_compute_units",
    "ray_device_key",
    "set_device",
    "supported_quantization",
)

EQUIVALENT: Final[tuple[Rule, ...]] = (
    Rule(
        ("missing",),
        _DEFAULTS,
        "the base has a default that a platform may leave as it is: a value, or that it is not supported",
    ),
    Rule(("wrong_type",), _IGNORED, "nobody reads what this hook returns, and it did no work before either"),
    Rule(
        ("renamed",),
        _BY_POSITION,
        "every argument is passed by position, so the names of the parameters are the platform's own",
    ),
    Rule(
        ("wrong_type",),
        ("get_global_graph_pool",),
        "any object may stand for the pool; only torch's graphs look into it",
    ),
    Rule(
        ("*",),
        ("_global_graph_pool",),
        "the base keeps the pool here; what already stands here is handed on as the pool, whatever it is",
    ),
)
"""No platform with this is wrong, on either engine."""

SURVIVORS: Final[tuple[Rule, ...]] = (
    Rule(
        ("raises",),
        ("get_global_graph_pool",),
        "it is asked where graphs are captured, and the good platform captures none",
    ),
    Rule(
        ("raises",),
        ("insert_blocks_to_device", "pack_kv_cache", "swap_out_blocks_to_host"),
        "it moves blocks of a cache between instances; how the blocks lie there is the platform's own affair, so "
        "the kit makes no such cache and moves none",
    ),
)
"""These are faults, and no check finds them."""
