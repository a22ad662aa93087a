"""What the checks of detection and of import order know of an engine before it is imported.

Plain data and functions of the standard library: they serve in interpreters that must stay bare.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Generator
from typing import Any, Final

import attrs

_DEEPEST: Final = 3
"""How often resolution may be entered inside itself before it is stopped."""


@attrs.frozen
class Scenery:
    """One engine.

    Args:
        group: the entry-point group of its platform plugins.
        general: the group of its general plugins, which it runs once in every process after the platform.
        interface: the module that a platform derives from and that resolves the current one.
        tops: its top-level packages, and those that its own import always brings with it.
        held: where the resolved platform is held, a global of `interface`.
        entries: what users import of it first.
        late: parts that are not there yet, or half, while platforms are asked during its import.
        early: members that it reads while it is being imported.
        parts: modules of the interface, which platforms may import while they are detected.
        variables: how the names of the engine's own variables begin.
        base: the module and the name of the class that platforms derive from.
        target: the variable that forces a device.
        light: resolving costs next to nothing, so that it need not be saved.
        resolver: the global of `interface` that resolves; empty if entering twice is an error of its own.
        restorer: `module:function` that gives this process back what the kit has set of the user's.
    """

    group: str
    general: str
    interface: str
    tops: tuple[str, ...]
    held: str
    entries: tuple[str, ...]
    late: tuple[str, ...]
    early: tuple[str, ...]
    parts: tuple[str, ...]
    variables: tuple[str, ...]
    base: tuple[str, str]
    target: str
    light: bool
    resolver: str = ""
    restorer: str = ""

    def restore(self) -> None:
        """Give this process back what the kit has set to keep the engine neutral."""
        module, _, name = self.restorer.partition(":")
        if name:
            getattr(importlib.import_module(module), name)()

    def is_interface(self, module: str) -> bool:
        """Say whether a module belongs to what platforms may import while they are detected."""
        return any(f"{module}.".startswith(f"{one}.") for one in self.parts)

    def resolved(self) -> object | None:
        """The platform that this process has resolved already; None if it has none."""
        module: Any = sys.modules.get(self.interface)
        found: object | None = None if module is None else module.__dict__.get(self.held)
        return found

    def current(self) -> object:
        """Resolve the platform as a user does.

        Raises:
            Exception: whatever the engine raises.
        """
        return importlib.import_module(self.interface).current_platform

    def put(self, platform: object) -> None:
        """Make a platform the current one, before anything has asked."""
        setattr(importlib.import_module(self.interface), self.held, platform)

    def known_entries(self) -> list[str]:
        """The entries that the installed version has; imports their parents only."""
        found: list[str] = []
        for name in self.entries:
            with contextlib.suppress(ImportError):
                if importlib.util.find_spec(name) is not None:
                    found.append(name)
        return found

    @contextlib.contextmanager
    def counted(self) -> Generator[Callable[[], int]]:
        """Count how deep resolution is entered on one stack.

        Yields:
            A function that says how often resolution was entered inside itself.
        """
        module: Any = importlib.import_module(self.interface) if self.resolver else None
        original: Any = getattr(module, self.resolver, None) if module is not None else None
        depth, deepest = 0, 0

        def resolve(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth, deepest
            depth += 1
            deepest = max(deepest, depth)
            try:
                if depth > _DEEPEST:  # it would go on until the stack is full
                    raise RecursionError("current_platform is read while it is being resolved")
                return original(*args, **kwargs)
            finally:
                depth -= 1

        if original is not None:
            setattr(module, self.resolver, resolve)
        try:
            yield lambda: max(0, deepest - 1)
        finally:
            if original is not None:
                setattr(module, self.resolver, original)


_EARLY: Final = (
    "device_type",
    "device_name",
    "dispatch_key",
    "simple_compile_backend",
    "is_pin_memory_available",
    "fp8_dtype",
    "is_fp8_fnuz",
    "is_cuda",
    "is_rocm",
    "is_tpu",
    "is_xpu",
    "is_cpu",
    "is_out_of_tree",
    "is_unspecified",
    "is_cuda_alike",
    "is_zen_cpu",
)

SCENERY: Final = {
    "native": Scenery(
        group="platform_abc.platform_plugins",
        general="platform_abc.general_plugins",
        interface="platforms",
        tops=("platform_abc", "platforms", "reference_model", "reference_engine"),
        held="current_platform",
        entries=("platforms", "reference_engine", "reference_engine.engine", "reference_engine.engine_core"),
        late=("reference_model", "reference_engine"),
        early=_EARLY,
        parts=("platform_abc", "platforms"),
        variables=("PLATFORM_ABC_",),
        base=("platform_abc.platform", "Platform"),
        target="PLATFORM_ABC_TARGET_DEVICE",
        light=True,
    ),
    "vllm": Scenery(
        group="vllm.platform_plugins",
        general="vllm.general_plugins",
        interface="vllm.platforms",
        tops=("vllm",),
        held="_current_platform",
        entries=("vllm", "vllm.config", "vllm.entrypoints.cli.main", "vllm.entrypoints.llm"),
        late=(
            "vllm.distributed",
            "vllm.config",
            "vllm.model_executor",
            "vllm.compilation",
            "vllm.engine",
            "vllm.entrypoints",
            "vllm.lora",
            "vllm.v1.engine",
            "vllm.v1.executor",
            "vllm.v1.worker",
        ),
        early=_EARLY,
        parts=(
            "vllm.platforms",
            "vllm.envs",
            "vllm.logger",
            "vllm.logging_utils",
            "vllm.utils",
            "vllm.plugins",
            "vllm.third_party",
        ),
        variables=("VLLM_",),
        base=("vllm.platforms.interface", "Platform"),
        target="VLLM_TARGET_DEVICE",
        light=False,
        restorer="conformance.engines.vllm_environment:restore_users_choice",
        resolver="resolve_current_platform_cls_qualname",
    ),
}
"""By the name of the adapter."""
