"""What config hooks leave in the platform's modules: a worker imports them anew and finds nothing there."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Final, cast

from conformance.checks import _configs
from conformance.checks._deep import deep_text
from conformance.checks._process import contents
from conformance.context import ApartFailed, CheckContext, is_a, short
from conformance.model import NotRun, Skip, Violation
from conformance.registry import check

_DEEP: Final = 3
_CASES: Final = ("plain", "tensor-parallel", "additional-options", "plain", "lora")


@check(
    "config.module-state",
    group="config_hooks",
    severity="should",
    needs=("config.independent", "config.class-state"),
    why="Workers are new processes that never run the config hooks: what a module keeps of a config is not there.",
    hint="Read the config that you are given; the engine passes it to workers and components.",
)
def module_state(ctx: CheckContext) -> None:
    """The hooks keep no config, and nothing that they derive from one, in the platform's modules."""
    try:
        held = ctx.apart(lambda: _held(ctx))
        seen = ctx.apart(lambda: _derived(ctx)) if not held else {}
    except ApartFailed as broken:
        raise NotRun(f"the hooks did not run in a copy of the process: {broken}") from broken
    says = "The config hooks keep nothing of a config in a module: a worker is a new process that does not run them."
    if held:
        raise ctx.fail(
            "check_and_update_config",
            contract_says=says,
            platform_did=f"after the config hooks, {held[0]} holds the config"
            + (f", and so do {', '.join(held[1:4])}" if held[1:] else ""),
            hint=f"Remove {held[0]}: pass the config on, or ask the engine for its current one.",
        )
    if seen:
        name, values = next(iter(seen.items()))
        raise ctx.fail(
            "check_and_update_config",
            contract_says=says,
            platform_did=f"{name} follows the config: "
            + ", then ".join(short(one, 80) for one in values[:3]),
            hint=f"Write it into the config (vllm_config.additional_config is yours) instead of {name}.",
        )


def _modules(ctx: CheckContext) -> dict[str, ModuleType]:
    """The loaded modules of the platform's own distribution, those of the engine left out."""
    engine = {one.__module__ for one in inspect.getmro(ctx.adapter.base_class())}
    tops = {
        cls.__module__.rpartition(".")[0] or cls.__module__
        for cls in ctx.platform_cls.__mro__
        if cls.__module__ not in engine and cls.__module__ != "builtins" and not ctx.adapter.in_tree(cls)
    }
    return {
        name: module
        for name, module in list(sys.modules.items())
        if any(name == top or name.startswith(f"{top}.") for top in tops)
    }


def _run(ctx: CheckContext, case: str, more: int = 0) -> Any:
    config = _configs.build(ctx, case)
    if more:
        with contextlib.suppress(Exception):  # an engine whose config has no such field
            config.scheduler_config.max_num_seqs += more
    with contextlib.suppress(_configs.Refused, Skip, Violation):  # config.cases judges it
        _configs.run_hooks(ctx, config)
    return config


def _held(ctx: CheckContext) -> list[str]:
    """The variables of modules that hold a config, or a part of it, after the hooks ran."""
    config = _run(ctx, "plain")
    own: dict[str, Any] = dict(getattr(config, "__dict__", {}))
    parts: dict[int, Any] = {id(config): config} | {
        id(one): one for one in own.values() if hasattr(one, "__dict__") and not isinstance(one, type)
    }
    return [
        f"{name}.{key}"
        for name, module in _modules(ctx).items()
        for key, value in contents(module).items()
        if not key.startswith("__") and _holds(value, parts, _DEEP)
    ]


def _holds(value: Any, wanted: Mapping[int, Any], deep: int) -> bool:
    if id(value) in wanted:
        return True
    if deep == 0 or isinstance(value, type | ModuleType) or callable(value):
        return False
    if is_a(value, dict):
        return any(_holds(one, wanted, deep - 1) for one in list(value.values()))
    if is_a(value, list, tuple, set):
        return any(_holds(one, wanted, deep - 1) for one in list(value))
    held: Any = (
        inspect.getattr_static(value, "__dict__", None) if type(value).__module__ != "builtins" else None
    )
    if held is None:
        return False
    with contextlib.suppress(Exception):  # an object that answers for its attributes itself
        inside = dict(vars(cast("object", value)))
        return any(_holds(one, wanted, deep - 1) for one in inside.values())
    return False


def _derived(ctx: CheckContext) -> dict[str, list[str]]:
    """The plain values in modules that change with the config, by name, with what they were after each."""
    # Without a change of the config only what counts calls, or sets something up once, changes.
    alike: list[dict[str, str]] = []
    for _ in range(3):
        _run(ctx, "plain")
        alike.append(dict(_plain_values(ctx)))
    counts = {name for name, text in alike[2].items() if alike[1].get(name) != text}
    found: dict[str, list[str]] = {}
    for more, case in enumerate(_CASES):
        if case not in ctx.adapter.config_cases():
            continue
        _run(ctx, case, more)
        for name, text in _plain_values(ctx):
            if name in counts:
                continue
            found.setdefault(name, []).append(text)
    return {name: texts for name, texts in found.items() if len(set(texts)) > 1}


def _plain_values(ctx: CheckContext) -> Iterator[tuple[str, str]]:
    for name, module in _modules(ctx).items():
        for key, value in contents(module).items():
            if key.startswith("__") or isinstance(value, bool | type | ModuleType) or callable(value):
                continue
            if isinstance(value, int | float | str) or value is None:
                yield f"{name}.{key}", repr(value)
            elif is_a(value, dict):
                entries = cast("dict[object, object]", value)
                if all(isinstance(one, str) for one in entries):
                    kept = {k: v for k, v in entries.items() if not isinstance(v, bool)}
                    yield f"{name}.{key}", deep_text(kept)
