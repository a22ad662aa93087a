"""What the platform says of itself, of its devices and of this machine, for people to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from platform_abc.capabilities import has_capabilities_v2
from platform_abc.device_like import has_device_v2

if TYPE_CHECKING:
    from platform_abc.platform import Platform

UNKNOWN = "not known"
"""Stands where the platform declares that it does not say."""

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]


def facts() -> dict[str, Value]:
    """Return what there is to know, by topic; `UNKNOWN` where a platform does not say."""
    from platforms import current_platform

    count = _plain(current_platform.device_count)
    number = count if isinstance(count, int) else 0
    return {
        "platform": _identity(current_platform),
        "abilities": _abilities(current_platform),
        "machine": _machine(current_platform, number),
        "run time": _runtime(current_platform),
        "devices": [_device(current_platform, device) for device in range(number)],
    }


def _identity(platform: Platform) -> dict[str, Value]:
    kind = type(platform)
    return _asked(
        {
            "class": lambda: f"{kind.__module__}.{kind.__qualname__}",
            "kind": lambda: platform._enum.name,  # pyright: ignore[reportPrivateUsage]
            "device name": lambda: platform.device_name,
            "device type": lambda: platform.device_type,
            "runs code for CUDA": platform.is_cuda_alike,
            "CUDA": platform.is_cuda,
            "ROCm": platform.is_rocm,
            "XPU": platform.is_xpu,
            "TPU": platform.is_tpu,
            "out of tree": platform.is_out_of_tree,
            "AMD Zen": platform.is_zen_cpu,
            "dispatch key": lambda: platform.dispatch_key,
            "collectives": lambda: platform.dist_backend,
            "device variable": lambda: platform.device_control_env_var,
            "compile backend of small functions": lambda: platform.simple_compile_backend,
            "Ray resource": lambda: platform.ray_device_key,
            "dtypes": lambda: list(platform.supported_dtypes),
            "quantization": lambda: list(platform.supported_quantization),
            "attention of vision encoders": lambda: list(platform.get_supported_vit_attn_backends()),
        }
    )


def _abilities(platform: Platform) -> dict[str, Value]:
    asked: dict[str, Callable[[], object]] = {
        "FP8": platform.supports_fp8,
        "FP8 type": platform.fp8_dtype,
        "FP8 is FNUZ": platform.is_fp8_fnuz,
        "MX types": platform.supports_mx,
        "DeepGEMM": platform.support_deep_gemm,
        "dependent launch": platform.is_arch_support_pdl,
        "sleep mode": platform.is_sleep_mode_available,
        "sleep mode's allocator": platform.is_cumem_allocator_available,
        "static graphs": platform.support_static_graph_mode,
        "hybrid KV cache": platform.support_hybrid_kv_cache,
        "custom all-reduce": platform.use_custom_allreduce,
        "pinned memory": platform.is_pin_memory_available,
        "NIXL buffers": platform.get_nixl_supported_devices,
        "NIXL memory": platform.get_nixl_memory_type,
    }
    if has_capabilities_v2(platform):
        asked["AMD GFX9"] = platform.is_on_gfx9
    return _asked(asked)


def _machine(platform: Platform, count: int) -> dict[str, Value]:
    asked: dict[str, Callable[[], object]] = {
        "processor": lambda: platform.get_cpu_architecture().name,
        "PCI bus ids": platform.get_all_gpu_pci_bus_ids,
    }
    if has_device_v2(platform):
        asked["CUDA run time"] = platform.get_cuda_runtime_major
        asked["NUMA nodes' cores"] = platform.discover_numa_topology
        asked["NUMA nodes of devices"] = platform.get_all_device_numa_nodes
        asked["devices linked directly"] = lambda: platform.is_fully_connected(
            [platform.visible_device_id_to_physical_device_id(device) for device in range(count)]
        )
    return _asked(asked)


def _runtime(platform: Platform) -> dict[str, Value]:
    """Return what torch's module of this device says, which answers for every name that no hook has."""
    return _asked(
        {
            # No hook and no declared name: the fallback answers, with None where torch has no such function.
            "available": lambda: None if (ask := getattr(platform, "is_available", None)) is None else ask(),
            "streams": lambda: platform.has_runtime("Stream"),
            "events": lambda: platform.has_runtime("Event"),
            "waits for its work": lambda: platform.has_runtime("synchronize"),
        }
    )


def _device(platform: Platform, device: int) -> dict[str, Value]:
    capability = platform.get_device_capability
    return _asked(
        {
            "name": lambda: platform.get_device_name(device),
            "identifier": lambda: platform.get_device_uuid(device),
            "physical number": lambda: platform.visible_device_id_to_physical_device_id(device),
            "capability": lambda: None if (found := capability(device)) is None else str(found),
            "memory, bytes": lambda: platform.get_device_total_memory(device),
            "memory in use, bytes": lambda: int(platform.get_current_memory_usage(device)),
            "compute units": lambda: platform.num_compute_units(device),
            "shares the host's memory": lambda: platform.is_integrated_gpu(device),
        }
    )


def _asked(questions: Mapping[str, Callable[[], object]]) -> dict[str, Value]:
    return {name: _plain(ask) for name, ask in questions.items()}


def _plain(ask: Callable[[], object]) -> Value:
    """Return an answer as JSON has it; an exception is an answer too, since one must not hide the others."""
    try:
        return _value(ask())
    except NotImplementedError:
        return UNKNOWN
    except Exception as error:  # noqa: BLE001 - a platform's code may raise anything
        return f"raises {type(error).__name__}: {error}"


def _value(value: object) -> Value:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): _value(item) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in cast("Sequence[object]", value)]
    return getattr(value, "name", None) or str(value).removeprefix("torch.")


def lines(found: Mapping[str, Value]) -> list[str]:
    """Return facts as lines of text.

    Args:
        found: of `facts`.
    """
    told: list[str] = []
    for topic, value in found.items():
        sections = {topic: value}
        if isinstance(value, list):
            sections = {f"device {number}": one for number, one in enumerate(value)}
        for title, section in sections.items():
            told.append(title)
            if isinstance(section, dict):
                told += [f"  {name}: {_shown(answer)}" for name, answer in section.items()]
    return told


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(item)}" for key, item in value.items()) or "none"
    return "none" if value in (None, "") else str(value)
