"""The adapter of our own contract: platforms that derive from `platform_abc.platform.Platform`."""

from __future__ import annotations

import contextlib
import copy
import enum
import functools
import importlib
import importlib.util
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from conformance.context import is_a
from conformance.engines import (
    arguments,
    native_boot,
    native_components,
    native_configs,
    native_layers,
    shapes,
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
from conformance.engines.source_scan import scan

_BASE: Final = ("platform_abc.platform", "Platform")
_PACKAGES: Final = frozenset({"platform_abc", "platforms", "reference_model", "reference_engine"})
_SCANNED: Final = (
    ("reference_engine", "*.py"),
    ("reference_model", "*.py"),
    ("platforms", "device_facts.py"),
)
"""Packages and names of files that ask a platform: the engine with its model, and what its command `devices` shows."""

_DETECT: Final = "conformance.engines.native:resolve_here"
_FEATURES: Final = ("with ", "as the worker wants")
"""How the timeline's conditions begin where a hook is no part of every run."""


def adapter() -> NativeAdapter:
    """Return the adapter; imports no torch."""
    return NativeAdapter()


class NativeAdapter:
    """The native engine as the checks see it; see `conformance.engines.base.Adapter`."""

    name = "native"
    lazy = True

    def __init__(self) -> None:
        self._members: Mapping[str, Member] | None = None

    def environment(self, scratch: str) -> Mapping[str, str]:
        """Return nothing: this engine has no caches and resolves only when it is asked."""
        return {}

    def accepts(self, cls: type) -> bool:
        """Say whether the contract's base class is among the bases."""
        return any((one.__module__, one.__name__) == _BASE for one in cls.__mro__)

    def version(self) -> str:
        """Return the contract's version and the package's."""
        from importlib.metadata import PackageNotFoundError, version

        from platform_abc.errors import CONTRACT_VERSION

        try:
            package = version("platform-abc")
        except PackageNotFoundError:
            package = "uninstalled"
        return f"contract {CONTRACT_VERSION}, platform-abc {package}"

    def prepare(self) -> None:
        """Import torch, the contract and what configs are made of, so that every fork has them."""
        import torch

        torch.set_num_threads(1)
        self.members()
        self.engine_calls()
        native_configs.CASES["plain"]()

    def settle(self) -> None:
        """Do nothing: this engine resolves its platform when it is asked for it, and no check asks."""

    def base_class(self) -> type:
        """Return `Platform`."""
        return _platform()

    def members(self) -> Mapping[str, Member]:
        """Return the contract's members; the lists among the defaults are copies, taken at the first call."""
        if self._members is None:
            self._members = _members()
        return self._members

    def active(self, platform: object) -> AbstractContextManager[None]:
        """Put `platform` where `platforms.current_platform` is read."""
        return _active(platform)

    def config_cases(self) -> Sequence[str]:
        """Return the names of `native_configs.CASES`."""
        return tuple(native_configs.CASES)

    def config(self, case: str) -> Any:
        """Build a config of a case."""
        return native_configs.CASES[case]()

    def create_config(self, platform: object) -> Any:
        """Create a config by the reference engine, from its own defaults."""
        return native_layers.create_config(shapes.served_layer(platform).head_size)

    def put_layers(self, config: Any, backends: Sequence[Any]) -> None:
        """Fill `static_forward_context` with stand-ins."""
        native_layers.put_layers(config, backends)

    def cache_pages(self, config: Any, backend: Any) -> CachePages | None:
        """Return what the contract's own functions compute."""
        return native_layers.cache_pages(config, backend)

    def is_copied_to_workers(self, variable: str) -> bool:
        """Say whether it is one of this engine's own."""
        return variable.startswith("PLATFORM_ABC_")

    def fit(self, platform: object, *, by_backend: bool = False) -> None:
        """Ask the platform for a layer of another size or dtype where it refuses the usual one."""
        with self.active(platform):
            native_configs.use_layer(shapes.served_layer(platform, by_backend=by_backend))

    def give_device(self, platform: object, config: Any) -> None:
        """Put the platform's device type into `device_config`, as the engine does."""
        native_configs.give_device(platform, config)

    def snapshot(self, config: Any) -> Mapping[str, Any]:
        """Flatten a config with the contract's own snapshot."""
        from platform_abc.config import snapshot

        return snapshot(config)

    def validate_config(self, config: Any) -> None:
        """Let the config check itself.

        Raises:
            ConfigError: a field is wrong.
        """
        config.validate(written_by="the config hooks")

    def selector_calls(self) -> Sequence[SelectorCall]:
        """Return the questions of the engine's attention selector."""
        return native_configs.selector_calls()

    def picked(self) -> Sequence[PickedBase]:
        """Return the ABCs of the components."""
        return native_components.picked()

    def picked_calls(self) -> Sequence[PickedCall]:
        """Return the calls in the reference engine's source."""
        return native_components.calls()

    def backend_names(self) -> Sequence[str]:
        """Return the names of `AttentionBackendEnum`."""
        return native_components.backend_names()

    def quantization_names(self) -> Sequence[str]:
        """Return the methods that are registered now."""
        return native_components.quantization_names()

    def resolve(self, qualname: str) -> Any:
        """Import a dotted name as the engine does."""
        from platform_abc.qualname import resolve_obj_by_qualname

        return resolve_obj_by_qualname(qualname)

    def engine_calls(self) -> Sequence[EngineCall]:
        """Return the calls in the reference engine's source, those of the timeline and of the contract."""
        return _engine_calls()

    def detectors(self) -> Mapping[str, str]:
        """Return the built-in detectors and every installed plugin's."""
        from platform_abc.plugins import PLATFORM_PLUGINS_GROUP, discover
        from platforms.detectors import BUILTIN_DETECTORS

        found = {
            name: f"{function.__module__}:{getattr(function, '__qualname__', name)}"
            for name, function in BUILTIN_DETECTORS.items()
        }
        found.update({plugin.name: plugin.value for plugin in discover([PLATFORM_PLUGINS_GROUP])})
        return found

    def allows_plugin(self, name: str) -> bool:
        """Say whether `PLATFORM_ABC_PLUGINS` is unset or has the name."""
        from platform_abc import envs

        allowed = envs.allowed_plugins()
        return allowed is None or name in allowed

    def detect(self) -> str:
        """Return the function that resolves `platforms.current_platform` in a fresh interpreter."""
        return _DETECT

    def in_tree(self, cls: type) -> bool:
        """Say whether this distribution ships the class."""
        return cls.__module__.partition(".")[0] in _PACKAGES

    def detects(self, cls: type) -> bool:
        """Say that ours name our own platforms only."""
        return self.in_tree(cls)

    def platform_enum(self) -> type[enum.Enum]:
        """Return the contract's `PlatformEnum`."""
        from platform_abc.types import PlatformEnum

        return PlatformEnum

    def arguments(self, member: str) -> Sequence[Arguments]:
        """Return harmless calls: with this engine's objects where it needs them, else plain values."""
        own = native_configs.ARGUMENTS.get(member)
        return own() if own is not None else arguments.plain(member)

    def seed_before_hook(self, seed: int) -> None:
        """Seed nothing: our engine leaves seeding to the platform."""

    def worker_cls_field(self, config: Any) -> Any:
        """Return `parallel_config.worker_cls`."""
        return config.parallel_config.worker_cls

    def boot(self, layout: str) -> BootPlan:
        """Return the reference engine on its toy model."""
        return native_boot.plan(layout)


def _platform() -> type:
    from platform_abc.platform import Platform

    return Platform


def _members() -> Mapping[str, Member]:
    from platform_abc.members import MEMBERS

    base = _platform()
    found: dict[str, Member] = {}
    for name, spec in MEMBERS.items():
        if name in ("__getattr__", "_global_graph_pool"):
            continue  # the fallback has checks of its own, and the pool is the base's private store
        raw: Any = next((vars(cls)[name] for cls in base.__mro__ if name in vars(cls)), None)
        value: Any = getattr(raw, "__func__", raw)
        found[name] = Member(
            name=name,
            group=spec.group,
            kind=spec.kind,
            value=copy.copy(value) if is_a(value, list) else value,
            unset=spec.mandatory and spec.kind == "attribute",
            abstract=spec.mandatory,
            raises=spec.default == "not-supported",
        )
    return found


@functools.cache
def _engine_calls() -> tuple[EngineCall, ...]:
    from platform_abc.members import MEMBERS

    common = _common_hooks()
    sites: list[EngineCall] = []
    for package, pattern in _SCANNED:
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations or () if spec is not None else ():
            for call in scan(
                Path(folder),
                common=lambda file, function: True,
                pattern=pattern,
                parameters=frozenset({"platform"}),
            ):
                sites.append(_with_common(call, common))
    for name, spec_of in MEMBERS.items():
        for one in spec_of.calls:
            sites.append(
                EngineCall(
                    member=name,
                    positional=len(one.args),
                    keywords=one.keywords,
                    site="the contract's timeline" if name in common else "the contract's Protocol",
                    common=name in common,
                )
            )
    return tuple(sites)


def _with_common(call: EngineCall, common: frozenset[str]) -> EngineCall:
    import attrs

    return attrs.evolve(call, common=call.member in common)


def _common_hooks() -> frozenset[str]:
    """The hooks that the timeline has in every run, whatever the user turned on."""
    from platform_abc.timeline import TIMELINE

    return frozenset(
        one.name for one in TIMELINE if one.kind == "hook" and not one.when.startswith(_FEATURES)
    )


@contextlib.contextmanager
def _active(platform: object) -> Generator[None]:
    import platforms

    held: dict[str, object] = platforms.__dict__
    before = dict(held)
    held["current_platform"] = platform
    try:
        yield
    finally:
        del held["current_platform"]
        if "current_platform" in before:
            held["current_platform"] = before["current_platform"]


def resolve_here() -> dict[str, Any]:
    """Resolve `platforms.current_platform` in this process, and say what came of it.

    Returns:
        The fields of `conformance.engines.base.Detection`.
    """
    import platforms
    from platform_abc.errors import ResolutionError

    try:
        report = platforms.resolution_report()
        resolved = type(platforms.current_platform)
        chosen = f"{resolved.__module__}.{resolved.__qualname__}"  # a detector may name it by an alias
    except ResolutionError as error:
        if error.report is None:
            return {"resolved": "", "detectors": {}, "winner": "", "error": str(error)}
        report, chosen = error.report, ""
    return {
        "resolved": chosen,
        "detectors": {one.name: one.answer for one in report.detectors},
        "winner": report.winner,
        "error": report.error,
        "errors": {one.name: one.error for one in report.detectors if one.error},
    }
