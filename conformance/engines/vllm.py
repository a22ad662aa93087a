"""The adapter for real vLLM: its platforms, configs and calls, by introspection of what is installed.

Importing this module imports no vLLM; the methods do, in a child process.
"""

from __future__ import annotations

import enum
import importlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from conformance.engines import (
    vllm_boot,
    vllm_calls,
    vllm_components,
    vllm_configs,
    vllm_detection,
    vllm_environment,
    vllm_layers,
    vllm_platform,
    vllm_selector,
    vllm_snapshot,
)
from conformance.engines.base import (
    Arguments,
    BootPlan,
    CachePages,
    EngineCall,
    Member,
    PickedBase,
    PickedCall,
    SelectorCall,
)


class VllmAdapter:
    """vLLM, as the checks see it; each method is documented by `conformance.engines.base.Adapter`."""

    name = "vllm"
    lazy = False

    def environment(self, scratch: str) -> Mapping[str, str]:
        """Offline, one thread, no plugin, the CPU target, and every cache in `scratch`."""
        return vllm_environment.environment(scratch)

    def accepts(self, cls: type) -> bool:
        """Say whether a class derives from vLLM's `Platform`."""
        return vllm_platform.is_platform(cls)

    def version(self) -> str:
        """The version of whichever distribution supplies the installed `vllm` package."""
        return vllm_environment.version()

    def prepare(self) -> None:
        """Import the engine, read its source, and build a config once, so that forks find all warm."""
        vllm_environment.package_folder()
        take_scan = vllm_calls.start_scan()
        vllm_platform.import_under_neutral_platform("vllm.engine.arg_utils")
        vllm_configs.build(vllm_configs.PLAIN)
        take_scan()
        vllm_calls.engine_calls()
        vllm_platform.members()
        vllm_platform.remember_holders()

    def settle(self) -> None:
        """Make the platform whose config hooks do nothing the current one."""
        vllm_platform.import_under_neutral_platform()

    def base_class(self) -> type:
        """`vllm.platforms.Platform`."""
        return vllm_platform.base_class()

    def members(self) -> Mapping[str, Member]:
        """The public members of the installed base, and `_enum`."""
        return vllm_platform.members()

    def active(self, platform: object) -> AbstractContextManager[None]:
        """Replace the current platform everywhere that a module holds it, for a while."""
        return vllm_platform.active(platform)

    def config_cases(self) -> Sequence[str]:
        """The names of `vllm_configs.CASES`."""
        return tuple(vllm_configs.CASES)

    def config(self, case: str) -> Any:
        """A real `VllmConfig`, built under a platform whose config hooks do nothing."""
        return vllm_configs.build(case)

    def create_config(self, platform: object) -> Any:
        """A `VllmConfig` from `EngineArgs`, as `LLM()` makes it."""
        return vllm_configs.create(vllm_configs.PLAIN)

    def put_layers(self, config: Any, backends: Sequence[Any]) -> None:
        """Fill `static_forward_context` with stand-ins."""
        vllm_layers.put_layers(config, backends)

    def cache_pages(self, config: Any, backend: Any) -> CachePages | None:
        """What vLLM's own cache specs say."""
        return vllm_layers.cache_pages(config, backend)

    def is_copied_to_workers(self, variable: str) -> bool:
        """Say whether vLLM's rules for Ray name it."""
        return vllm_environment.is_copied(variable)

    def fit(self, platform: object, *, by_backend: bool = False) -> None:
        """Ask for an attention layer of another size or dtype where the platform refuses the usual one.

        Configs stay as they are: they are made from a model that the kit ships.
        """
        with self.active(platform):
            vllm_selector.fit(platform)

    def give_device(self, platform: object, config: Any) -> None:
        """A new `DeviceConfig` of the platform's device type."""
        vllm_configs.give_device(platform, config)

    def snapshot(self, config: Any) -> Mapping[str, Any]:
        """The config as plain values by dotted name."""
        return vllm_snapshot.snapshot(config)

    def selector_calls(self) -> Sequence[SelectorCall]:
        """The attention selector's questions, with its own config type."""
        return vllm_selector.selector_calls()

    def picked(self) -> Sequence[PickedBase]:
        """The installed base of each picked component."""
        return vllm_components.picked()

    def picked_calls(self) -> Sequence[PickedCall]:
        """How the installed source makes and calls each component."""
        return vllm_components.calls()

    def backend_names(self) -> Sequence[str]:
        """The names of `AttentionBackendEnum`."""
        return vllm_components.backend_names()

    def quantization_names(self) -> Sequence[str]:
        """`QUANTIZATION_METHODS`, with what plugins have added."""
        return vllm_components.quantization_names()

    def resolve(self, qualname: str) -> Any:
        """Import a dotted name with vLLM's own function."""
        return vllm_components.resolve(qualname)

    def engine_calls(self) -> Sequence[EngineCall]:
        """Every use of the platform in the installed source, outside the platforms themselves."""
        return vllm_calls.engine_calls()

    def detectors(self) -> Mapping[str, str]:
        """The installed platform plugins that the user allows."""
        return vllm_environment.out_of_tree_detectors()

    def allows_plugin(self, name: str) -> bool:
        """Say whether the user's `VLLM_PLUGINS` lets it in."""
        return vllm_environment.allows_plugin(name)

    def detect(self) -> str:
        """The resolution of vLLM itself, with the user's variables back in place."""
        return f"{vllm_detection.__name__}:{vllm_detection.detect.__name__}"

    def in_tree(self, cls: type) -> bool:
        """Say whether vLLM itself ships the class."""
        return vllm_platform.in_tree(cls)

    def detects(self, cls: type) -> bool:
        """Say whether the name of the class stands in vLLM's own detectors."""
        return vllm_platform.detects(cls)

    def platform_enum(self) -> type[enum.Enum]:
        """`vllm.platforms.PlatformEnum`."""
        return vllm_platform.platform_enum()

    def arguments(self, member: str) -> Sequence[Arguments]:
        """Harmless calls in the shapes of the installed engine's own."""
        return vllm_calls.arguments(member)

    def validate_config(self, config: Any) -> None:
        """Check every field against its declaration."""
        vllm_configs.validate(config)

    def seed_before_hook(self, seed: int) -> None:
        """Seed torch, as vLLM does; that leaves a CPU platform's hook nothing to do."""
        importlib.import_module("torch").manual_seed(seed)

    def worker_cls_field(self, config: Any) -> Any:
        """`parallel_config.worker_cls`."""
        return config.parallel_config.worker_cls

    def boot(self, layout: str) -> BootPlan:
        """`vllm.LLM`, offline, on the tiny Llama."""
        return vllm_boot.plan(layout)


def adapter() -> VllmAdapter:
    """Return the adapter."""
    return VllmAdapter()
