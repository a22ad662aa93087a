"""The five built-in detectors: is this kind of device here, and which class serves it?

Each answers the dotted name of a platform class, or `None`. None starts a device context, and each
says why it answers what it answers. The installed build of torch decides before any device library
is asked: a CPU build beside a GPU is a CPU platform, and no two detectors then answer.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Final, Protocol, cast

from platform_abc import envs
from platform_abc._host import in_wsl
from platform_abc.errors import ConfigError
from platform_abc.foreign import describe
from platform_abc.reasons import explain
from platform_abc.resolution import ResolutionSpec
from platforms.torch_build import Build, torch_build

if TYPE_CHECKING:
    from platform_abc.candidates import Detector

CPU: Final = "platforms.cpu.CpuPlatform"
ZEN_CPU: Final = "platforms.zen_cpu.ZenCpuPlatform"
CUDA: Final = "platforms.cuda.CudaPlatform"
ROCM: Final = "platforms.rocm.RocmPlatform"
XPU: Final = "platforms.xpu.XPUPlatform"
TPU: Final = "platforms.tpu.TpuPlatform"
UNSPECIFIED: Final = "platforms.unspecified.UnspecifiedPlatform"

TPU_PACKAGE: Final = "tpu_inference"
JETSON_MARKERS: Final = ("/etc/nv_tegra_release", "/sys/class/tegra-firmware")
CPU_INFO: Final = "/proc/cpuinfo"


class _Nvml(Protocol):
    """What we use of `pynvml`."""

    def nvmlInit(self) -> None: ...  # noqa: N802  (the library's names)
    def nvmlShutdown(self) -> None: ...  # noqa: N802
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802


class _AmdSmi(Protocol):
    """What we use of `amdsmi`."""

    def amdsmi_init(self) -> object: ...
    def amdsmi_shut_down(self) -> object: ...
    def amdsmi_get_processor_handles(self) -> list[object]: ...


class _TorchAsked(Protocol):
    """What we ask of torch where asking it is the rule."""

    def is_available(self) -> bool: ...


def tpu_platform_plugin() -> str | None:
    """Answer the TPU platform with Pathways, or where libtpu can be imported."""
    build = torch_build()
    if build.kind == "missing":
        explain(build.why)
        return None
    found, absent = _tpu_sign()
    if not found:
        explain(absent)
        return None
    if not _is_installed(TPU_PACKAGE):
        explain(
            f"{found}, but the package {TPU_PACKAGE}, which supplies the TPU platform, is not installed "
            f"(pip install tpu-inference); the TPU is not used",
            warn=True,
        )
        return None
    explain(found)
    return TPU


def cuda_platform_plugin() -> str | None:
    """Answer the CUDA platform where NVML counts a device, or on a Jetson without NVML."""
    if not _torch_serves("cuda"):
        return None
    try:
        nvml = cast("_Nvml", importlib.import_module("pynvml"))
    except Exception as error:  # noqa: BLE001  (a device library may raise anything; it then counts as absent)
        return _jetson(f"NVML cannot be used ({describe(error)}; pip install nvidia-ml-py)")
    try:
        nvml.nvmlInit()
        try:
            count = nvml.nvmlDeviceGetCount()
        finally:
            nvml.nvmlShutdown()
    except Exception as error:  # noqa: BLE001  (a device library may raise anything; it then counts as absent)
        return _jetson(f"NVML does not answer ({describe(error)})")
    explain(f"NVML counts {count} device{'' if count == 1 else 's'}")
    return CUDA if count > 0 else None


def rocm_platform_plugin() -> str | None:
    """Answer the ROCm platform where amdsmi counts a device, or under WSL with a HIP torch."""
    if not _torch_serves("rocm"):
        return None
    try:
        amdsmi = cast("_AmdSmi", importlib.import_module("amdsmi"))
        amdsmi.amdsmi_init()
        try:
            count = len(amdsmi.amdsmi_get_processor_handles())
        finally:
            amdsmi.amdsmi_shut_down()
    except Exception as error:  # noqa: BLE001  (a device library may raise anything; it then counts as absent)
        explain(f"amdsmi cannot be used ({describe(error)})")
        count = 0
    else:
        explain(f"amdsmi counts {count} device{'' if count == 1 else 's'}")
    if count > 0:
        return ROCM
    return ROCM if in_wsl() and _hip_torch_has_device() else None


def xpu_platform_plugin() -> str | None:
    """Answer the XPU platform where an XPU build of torch says that it has a device."""
    build = torch_build()
    if build.kind != "xpu":
        explain(build.why)
        return None
    try:
        available = _torch_module("xpu").is_available()
    except Exception as error:  # noqa: BLE001  (a device library may raise anything; it then counts as absent)
        explain(f"torch.xpu cannot be asked ({describe(error)})")
        return None
    explain(f"torch.xpu.is_available() is {available}")
    return XPU if available else None


def cpu_platform_plugin() -> str | None:
    """Answer the CPU platform where it is the target, where torch is a CPU build, or on macOS.

    A TPU is driven through JAX with a CPU build of torch beside it. Such a build is then no sign
    that the CPU is meant, so the TPU's detector alone answers.
    """
    build = torch_build()
    if _target_is_cpu():
        explain(f"{envs.TARGET_DEVICE} is cpu")
    elif build.kind == "missing":
        explain(build.why)
        return None
    elif _tpu_sign()[0] and _is_installed(TPU_PACKAGE):
        explain("a TPU is served here, which needs no other build of torch")
        return None
    elif build.kind == "cpu":
        explain(build.why)
    elif sys.platform == "darwin":
        explain("this is macOS")
    else:
        explain(f"{build.why}, not a CPU build")
        return None
    return ZEN_CPU if _is_amd_zen() and _zen_library_loads() else CPU


BUILTIN_DETECTORS: Final[Mapping[str, Detector]] = MappingProxyType(
    {
        "tpu": tpu_platform_plugin,
        "cuda": cuda_platform_plugin,
        "rocm": rocm_platform_plugin,
        "xpu": xpu_platform_plugin,
        "cpu": cpu_platform_plugin,
    }
)
"""The detectors by name, in the order in which they are asked."""


def resolution_spec() -> ResolutionSpec:
    """Return the rules by which our own platform is chosen."""
    return ResolutionSpec(
        engine="platform-abc",
        builtins=BUILTIN_DETECTORS,
        unspecified=UNSPECIFIED,
        forced={"cpu": "cpu"},
        required_members=("_enum", "device_type", "check_and_update_config", "get_attn_backend_cls"),
        variables=(
            f"{envs.PREFIX}*",
            "JAX_PLATFORMS",
            "CUDA_VISIBLE_DEVICES",
            "HIP_VISIBLE_DEVICES",
            "ROCR_VISIBLE_DEVICES",
            "ZE_AFFINITY_MASK",
            "TPU_VISIBLE_CHIPS",
            "PYTHONPATH",
            "VIRTUAL_ENV",
        ),
        packages=("platform-abc", "torch", "nvidia-ml-py", "amdsmi", "libtpu", "tpu-inference", "zentorch"),
    )


def _tpu_sign() -> tuple[str, str]:
    """Return what speaks for a TPU, and if nothing does, why."""
    if "proxy" in os.environ.get("JAX_PLATFORMS", "").lower():
        return "JAX_PLATFORMS contains proxy (Pathways)", ""
    absent = _why_not_importable("libtpu")
    return ("", absent) if absent else ("libtpu can be imported", "")


def _target_is_cpu() -> bool:
    try:
        return envs.target_device() == "cpu"
    except ConfigError as error:  # resolution refuses it; a detector that is called alone ignores it
        explain(str(error))
        return False


def _torch_serves(wanted: Build) -> bool:
    """Say whether the installed torch can drive the wanted kind of device, and explain if not."""
    build = torch_build()
    if build.kind in (wanted, "gpu"):
        return True
    explain(build.why)
    return False


def _jetson(reason: str) -> str | None:
    """Decide without NVML: a Jetson has none, but marker files."""
    marker = next((path for path in JETSON_MARKERS if Path(path).exists()), "")
    explain(f"{reason}, but {marker} marks a Jetson" if marker else f"{reason}, and nothing marks a Jetson")
    return CUDA if marker else None


def _why_not_importable(name: str) -> str:
    """Return why a package does not import, empty if it does; a bare folder of its name is none."""
    try:
        module = importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  (a broken library may even exit; it is then absent)
        return f"{name} cannot be imported ({describe(error)})"
    if getattr(module, "__file__", None) is None and hasattr(module, "__path__"):
        return f"{name} is a folder without a package in it"
    return ""


def _is_installed(name: str) -> bool:
    """Say whether a package is there, without importing it."""
    if isinstance(sys.modules.get(name), ModuleType):
        return True
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None


def _hip_torch_has_device() -> bool:
    if torch_build().kind != "rocm":
        explain(f"under WSL, {torch_build().why}")
        return False
    try:
        available = _torch_module("cuda").is_available()
    except Exception as error:  # noqa: BLE001  (a device library may raise anything; it then counts as absent)
        explain(f"under WSL, torch cannot be asked ({describe(error)})")
        return False
    explain(f"under WSL, a HIP torch says that a device is {'there' if available else 'not there'}")
    return available


def _torch_module(name: str) -> _TorchAsked:
    return cast("_TorchAsked", getattr(importlib.import_module("torch"), name))


def _is_amd_zen() -> bool:
    """Say whether the CPU is an AMD one with AVX-512, as Linux describes it."""
    try:
        text = Path(CPU_INFO).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "AuthenticAMD" in text and "avx512" in text


def _zen_library_loads() -> bool:
    if not _is_installed("zentorch"):
        explain("an AMD Zen CPU, but zentorch is not installed")
        return False
    try:
        importlib.import_module("zentorch")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  (for whatever reason it does not load, it is not used)
        explain(f"zentorch does not load ({describe(error)}); the plain CPU platform is used", warn=True)
        return False
    explain("an AMD Zen CPU, and zentorch loads")
    return True
