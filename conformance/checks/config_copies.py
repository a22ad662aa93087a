"""Copies of a config: engines copy it for a draft model, and hash it to find what they compiled before."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from conformance.checks import _configs
from conformance.checks._deep import deep_text
from conformance.context import CheckContext, describe, short
from conformance.registry import check


@check(
    "config.copyable",
    group="config_hooks",
    needs=("config.picklable",),
    why="The engine deep-copies the config for a draft model and for each stage of a pipeline.",
    hint="Put plain values into the config; define no __deepcopy__ that drops or refuses something.",
)
def copyable(ctx: CheckContext) -> None:
    """After the hooks the config deep-copies, comes back equal, and the copy is one of its own."""
    copy.deepcopy(ctx.adapter.config("plain"))  # what fails here is the engine's fault, an error of the kit
    done = _configs.ran_or_blame(ctx)
    says = "A config that the hooks have seen deep-copies to an equal config that shares nothing with it."
    hint = (
        "Store plain values (text, numbers, lists, dicts) instead of an object whose __deepcopy__ raises, drops "
        "something or returns the object itself; what cannot be copied is made in the worker."
    )
    try:
        twin = copy.deepcopy(done.config)
    except Exception as error:
        guilty = [
            field
            for field in dict.fromkeys(_with_parents(done.changes()))
            if not _copies(_configs.value_at(done.config, field))
        ]
        raise ctx.fail(
            done.writer(guilty[0] if guilty else ""),
            contract_says=says,
            platform_did=f"copying what the hooks wrote ({', '.join(guilty) or 'the config'}) raised "
            f"{describe(error)}",
            hint=hint,
        ) from error
    lost = _configs.differences(done.after, dict(ctx.adapter.snapshot(twin)))
    inside = {
        field: pair
        for field in done.changes()
        if (pair := (_text(done.config, field), _text(twin, field)))[0] != pair[1]
    }
    lost = lost or inside
    if lost:
        raise ctx.fail(
            done.writer(next(iter(lost))),
            contract_says=says,
            platform_did=f"the copy differs: {_configs.spelled(lost)}",
            location=ctx.locate_write(done.writer(next(iter(lost))), next(iter(lost))),
            hint=hint,
        )
    for field in _with_parents(done.changes()):
        held = _configs.value_at(done.config, field)
        if isinstance(held, list | dict | set) and held is _configs.value_at(twin, field):
            raise ctx.fail(
                done.writer(field),
                contract_says=says,
                platform_did=f"{field} is one and the same object in the config and in its copy",
                location=ctx.locate_write(done.writer(field), field),
                hint=hint,
            )


def _with_parents(fields: Iterable[str]) -> Iterator[str]:
    """Each field, and before it what it is in: `additional_config` of `additional_config.level`."""
    for field in fields:
        parts = field.split(".")
        yield from (".".join(parts[: end + 1]) for end in range(len(parts)))


def _copies(value: Any) -> bool:
    try:
        copy.deepcopy(value)
    except Exception:
        return False
    return True


def _text(config: Any, field: str) -> str:
    return deep_text(_configs.value_at(config, field))


@check(
    "config.hash",
    group="config_hooks",
    needs=("config.picklable", "config.independent"),
    engines=("vllm",),
    why="The engine hashes the config to find compiled code of an earlier run; it calls this in every process.",
    hint="Put values into additional_config that JSON can hold, and that are the same in every run.",
)
def hashable(ctx: CheckContext) -> None:
    """After the hooks the config's hash can be computed, and is the same for an equal config and for its copy."""
    says = "`compute_hash()` of a config that the hooks have seen gives the same text in every process."
    ctx.adapter.config("plain").compute_hash()  # what fails here is the engine's fault, an error of the kit
    done = _configs.ran_or_blame(ctx)
    found: dict[str, str] = {}
    ways: dict[str, Callable[[], Any]] = {
        "the config": lambda: done.config,
        "its copy in another process": lambda: _unpickled(done.config),
        "an equal config": lambda: _configs.ran_or_blame(ctx).config,
    }
    for what, make in ways.items():
        try:
            found[what] = str(_hash(make()))
        except Exception as error:
            guilty = next((one for one in done.writers if one.startswith("additional_config")), "")
            raise ctx.fail(
                done.writer(guilty),
                contract_says=says,
                platform_did=f"of {what} it raised {describe(error)} (the hooks changed "
                f"{_configs.spelled(done.changes())})",
                hint="vLLM writes additional_config as JSON: text, numbers, lists and dicts only.",
            ) from error
    if len(set(found.values())) > 1:
        told = "; ".join(f"{what}: {short(value, 20)}" for what, value in found.items())
        raise ctx.fail(
            done.writer("additional_config"),
            contract_says=says,
            platform_did=f"it differs: {told} (the hooks changed {_configs.spelled(done.changes())})",
            hint="Write nothing into the config that is random or counts: no time, no id, no address.",
        )


def _hash(config: Any) -> object:
    return config.compute_hash()


def _unpickled(config: Any) -> Any:
    return pickle.loads(pickle.dumps(config))
