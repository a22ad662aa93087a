"""What the pickers of our own contract have to name, and how the reference engine uses it."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from conformance.engines.base import PickedBase, PickedCall
from conformance.engines.component_scan import Place, scan

_COMPONENTS: Final[tuple[tuple[str, str, str, tuple[str, ...], str], ...]] = (
    (
        "get_attn_backend_cls",
        "attention",
        "AttentionBackend",
        ("get_name", "get_impl_cls", "get_builder_cls", "get_kv_cache_shape"),
        "always",
    ),
    ("get_device_communicator_cls", "communicator", "DeviceCommunicatorBase", ("all_reduce",), "always"),
    ("get_punica_wrapper", "lora", "PunicaWrapperBase", (), "lora"),
    ("get_static_graph_wrapper_cls", "graph", "StaticGraphWrapper", ("__call__",), "graphs"),
    ("get_pass_manager_cls", "compile", "PassManager", ("__call__",), "compile"),
    ("get_kv_cache_config_builder_cls", "kv_cache", "KVCacheConfigBuilder", (), "always"),
    ("worker_cls", "worker", "WorkerBase", ("init_device", "load_model", "execute_model"), "always"),
)
"""By picker: the module and the ABC of the component, names that the engine uses, and when it asks."""


_MODEL: Final = (
    Place("impl", ("attention_layer.py",), r"get_impl_cls\(\)", "impl"),
    Place("communicator", ("parallel.py",), "", "communicator"),
    Place("lora", ("lora.py", "llama.py"), "chosen", "punica|wrapper"),
    Place("graph", ("compilation.py",), "chosen"),
)
_ENGINE: Final = (
    Place("kv-cache-builder", ("kv_cache.py",), "", r"builder_class\(current_platform, config\)\(config\)"),
    Place("worker", ("worker_start.py", "executor.py", "engine_core.py"), "worker_cls", "worker"),
)
"""Where the reference engine and its model make and call each component."""

_WORKER: Final = (
    Place("builder", ("worker*.py",), r"get_builder_cls\(\)", "builder"),
    Place("communicator", ("worker.py",), "chosen", "communicator"),
)
"""Where the worker of our platforms does, which runs as a part of that engine."""


def picked() -> tuple[PickedBase, ...]:
    """Return the ABCs of the components."""
    return tuple(
        PickedBase(picker, _component(module, base), required, case)
        for picker, module, base, required, case in _COMPONENTS
    )


@functools.cache
def calls() -> tuple[PickedCall, ...]:
    """Return how the reference engine, its model, and the worker of our platforms, make and call each component."""
    return (
        *_calls_in("reference_engine", _ENGINE),
        *_calls_in("reference_model", _MODEL),
        *_calls_in("platforms.components", _WORKER),
    )


def _calls_in(package: str, places: Sequence[Place]) -> list[PickedCall]:
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    return [call for folder in folders or () for call in scan(Path(folder), places)]


def backend_names() -> Sequence[str]:
    """Return the names of attention backends that a user can ask for."""
    from platform_abc.config import AttentionBackendEnum

    return tuple(AttentionBackendEnum.__members__)


def quantization_names() -> Sequence[str]:
    """Return the quantization methods that are registered now."""
    from platform_abc.components.quantization import quantization_methods

    return quantization_methods()


def _component(module: str, name: str) -> type:
    found = getattr(importlib.import_module(f"platform_abc.components.{module}"), name)
    assert isinstance(found, type)
    return found
