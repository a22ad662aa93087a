"""What vLLM's pickers have to name: the installed base of each component and the names used on it."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Sequence
from typing import Any, Final

import attrs

from conformance.engines.base import PickedBase, PickedCall
from conformance.engines.component_scan import Place, scan
from conformance.engines.vllm_environment import package_folder
from conformance.engines.vllm_platform import base_class

_WORKER: Final = "worker_cls"
"""The one component that no picker names: a config hook writes it into the parallel config."""


@attrs.frozen
class _Component:
    """A component by where vLLM defines its base.

    Args:
        picker: the member that names it.
        bases: `module:Class` in the newest version first; none where vLLM asks for no base.
        used: names that the engine uses; those that the installed base lacks are left out.
        case: when the engine asks for it.
    """

    picker: str
    bases: tuple[str, ...]
    used: tuple[str, ...]
    case: str


_COMPONENTS: Final = (
    _Component(
        "get_attn_backend_cls",
        (
            "vllm.v1.attention.backend:AttentionBackend",
            "vllm.attention.backends.abstract:AttentionBackend",
        ),
        ("get_name", "get_impl_cls", "get_builder_cls"),
        "always",
    ),
    _Component(
        "get_device_communicator_cls",
        ("vllm.distributed.device_communicators.base_device_communicator:DeviceCommunicatorBase",),
        ("all_reduce", "all_gather", "reduce_scatter", "gather", "send", "recv", "broadcast", "destroy"),
        "tensor-parallel",
    ),
    _Component(
        "get_punica_wrapper",
        ("vllm.lora.punica_wrapper.punica_base:PunicaWrapperABC",),
        (
            "update_metadata",
            "add_shrink",
            "add_expand",
            "add_lora_embedding",
            "add_lora_linear",
            "add_lora_logits",
        ),
        "lora",
    ),
    _Component("get_static_graph_wrapper_cls", (), ("__call__",), "graphs"),
    _Component("get_pass_manager_cls", (), ("__call__", "configure"), "graphs"),
    _Component("get_kv_cache_config_builder_cls", (), (), "always"),
    _Component(
        _WORKER,
        ("vllm.v1.worker.worker_base:WorkerBase",),
        ("init_device", "load_model", "get_kv_cache_spec", "execute_model", "check_health", "shutdown"),
        "always",
    ),
)


_PLACES: Final = (
    Place(
        "impl",
        ("model_executor/layers/attention/attention.py", "attention/layer.py"),
        "impl_cls",
        "impl",
    ),
    Place(
        "builder",
        ("v1/worker/*.py", "v1/worker/gpu/*.py", "v1/worker/gpu/model_states/*.py", "v1/spec_decode/*.py"),
        r"builder_cls|metadata_builder_cls|get_builder_cls\(\)",
        r"builder|metadata_builder|attn_metadata_builder|get_metadata_builder\(\w*\)",
    ),
    Place("backend", ("v1/worker/*.py", "v1/worker/gpu/*.py"), "", "backend|attn_backend"),
    Place("communicator", ("distributed/parallel_state.py",), "device_comm_cls", "device_communicator"),
    Place("lora", ("lora/*.py", "lora/layers/*.py"), "get_punica_wrapper", r"\w*punica_wrapper"),
    Place("graph", ("compilation/*.py",), "static_graph_wrapper_class"),
    Place("pass-manager", ("compilation/*.py",), "", "pass_manager"),
)
"""Where vLLM makes and calls each component; a file that a version lacks has no calls."""

_QUANTIZATION: Final = "vllm.model_executor.layers.quantization"
_ENUMS: Final = ("vllm.v1.attention.backends.registry", "vllm.attention.backends.registry")


@functools.cache
def calls() -> tuple[PickedCall, ...]:
    """Return how the installed vLLM makes and calls each component."""
    return scan(package_folder(), _PLACES)


def backend_names() -> Sequence[str]:
    """Return the names of attention backends; none in a version whose layers look none up."""
    for module in _ENUMS:
        try:
            return tuple(importlib.import_module(module).AttentionBackendEnum.__members__)
        except (ImportError, AttributeError):
            continue
    return ()


def quantization_names() -> Sequence[str]:
    """Return the quantization methods that vLLM knows now."""
    return tuple(importlib.import_module(_QUANTIZATION).QUANTIZATION_METHODS)


def picked() -> list[PickedBase]:
    """Return what has to come of each picker that the installed vLLM has."""
    known = base_class()
    found: list[PickedBase] = []
    for component in _COMPONENTS:
        if component.picker != _WORKER and not hasattr(known, component.picker):
            continue
        base = _first(component.bases)
        used = component.used if base is None else tuple(n for n in component.used if hasattr(base, n))
        found.append(PickedBase(component.picker, base, used, component.case))
    return found


def _first(names: tuple[str, ...]) -> type | None:
    for name in names:
        module, _, attribute = name.partition(":")
        try:
            base: object = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError):
            continue  # this version has it elsewhere
        if inspect.isclass(base):
            return base
    return None


def resolve(qualname: str) -> Any:
    """Import a dotted name with vLLM's own function for it.

    Raises:
        Exception: whatever vLLM raises.
    """
    for module in ("vllm.utils.import_utils", "vllm.utils"):
        function = getattr(importlib.import_module(module), "resolve_obj_by_qualname", None)
        if function is not None:
            return function(qualname)
    raise ImportError("the installed vLLM has no resolve_obj_by_qualname")
