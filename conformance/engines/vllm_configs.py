"""Real `VllmConfig` objects, built offline from the tiny models that ship with the kit.

They are built while the neutral platform is the current one, so that `worker_cls` is still "auto"
and no value is some platform's doing.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from conformance.engines.vllm_platform import active
from conformance.model import NotRun, Skip

PLAIN: Final = "plain"
"""The case that stands for every run."""

_DATA: Final = Path(__file__).resolve().parent.parent / "data"

_COMMON: Final[Mapping[str, Any]] = {
    "skip_tokenizer_init": True,
    "load_format": "dummy",
    "dtype": "float32",
    "max_model_len": 128,
    "max_num_seqs": 4,
}


@attrs.frozen
class Case:
    """One representative configuration.

    Args:
        model: the folder of the tiny model below the kit's data; empty for a config without a model.
        options: engine arguments beside the common ones.
        or_else: engine arguments to try instead where vLLM refuses these.
        is_as_meant: path and value in the built config that show the case is what its name says.
    """

    model: str = "tiny-llama"
    options: Mapping[str, Any] = attrs.Factory(dict[str, Any])
    or_else: Mapping[str, Any] | None = None
    is_as_meant: tuple[str, Any] | None = None


CASES: Final[Mapping[str, Case]] = {
    "plain": Case(),
    "model-none": Case(model=""),
    "tensor-parallel": Case(options={"tensor_parallel_size": 2}),
    "lora": Case(options={"enable_lora": True}),
    "quantized": Case(
        options={"quantization": "fp8_per_tensor", "dtype": "bfloat16"},
        or_else={"quantization": "fp8", "dtype": "bfloat16"},
    ),
    "user-block-size": Case(options={"block_size": 32}, is_as_meant=("cache_config.block_size", 32)),
    "user-worker-cls": Case(options={"worker_cls": "vllm.v1.worker.worker_base.WorkerBase"}),
    "user-dtype": Case(options={"dtype": "bfloat16"}),
    "additional-options": Case(options={"additional_config": {"conformance_kit": {"probe": 1}}}),
    "mla": Case(model="tiny-mla", is_as_meant=("model_config.use_mla", True)),
    "hybrid": Case(model="tiny-hybrid", is_as_meant=("model_config.is_hybrid", True)),
}
"""The cases by name, `plain` first; a name that ends in `-none` lacks the optional part it names."""

_INSPECTED: Final[set[str]] = set()
"""Architectures whose class this process has registered."""


def build(case: str) -> Any:
    """Build the config of one case.

    Raises:
        Skip: the installed vLLM cannot build it; the text has vLLM's reason.
    """
    wanted = CASES[case]
    try:
        try:
            config = _build(wanted.model, wanted.options)
        except Exception:
            if wanted.or_else is None:
                raise
            config = _build(wanted.model, wanted.or_else)
    except Exception as error:
        raise Skip(
            f"the installed vLLM cannot build the config {case!r}: {type(error).__name__}: {_reason(error)}",
            "use a vLLM that supports this kind of model",
        ) from error
    if wanted.is_as_meant is not None:
        path, value = wanted.is_as_meant
        found: Any = config
        for name in path.split("."):
            found = getattr(found, name, None)
        if found != value:
            raise Skip(
                f"the installed vLLM made {path} = {found!r} of the config {case!r}, not {value!r}",
                "use a vLLM that supports this kind of model",
            )
    return config


def create(case: str) -> Any:
    """Build the config of one case for the current platform, whatever comes of it.

    Raises:
        Exception: what vLLM or the platform raises.
    """
    return _build(CASES[case].model, {"dtype": "auto", **CASES[case].options})


def _reason(error: Exception) -> str:
    """One line of an error: pydantic's text only counts its errors there, so its first one is asked."""
    details: Any = getattr(error, "errors", None)
    if details is not None:
        return str(details()[0]["msg"])
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


def _build(model: str, options: Mapping[str, Any]) -> Any:
    if not model:
        return importlib.import_module("vllm.config").VllmConfig()
    folder = _DATA / model
    _inspect_in_this_process(folder)
    arguments = importlib.import_module("vllm.engine.arg_utils").EngineArgs
    return arguments(**{"model": str(folder), **_COMMON, **options}).create_engine_config()


def _inspect_in_this_process(folder: Path) -> None:
    """Register the tiny model's class itself where vLLM knows only its name.

    vLLM looks at an unloaded model class in a process of its own, which imports the engine once more
    and costs more than everything else that the kit does.
    """
    text = (folder / "config.json").read_text(encoding="utf-8")
    architecture: str = json.loads(text)["architectures"][0]
    if architecture in _INSPECTED:
        return
    registry = importlib.import_module("vllm.model_executor.models.registry").ModelRegistry
    load = getattr(registry.models.get(architecture), "load_model_cls", None)
    if load is not None:
        registry.register_model(architecture, load())
    _INSPECTED.add(architecture)


def give_device(platform: Any, config: Any) -> None:
    """Put the device part into a config that vLLM makes from the platform before any hook runs.

    Raises:
        NotRun: vLLM cannot make one of the platform's device type.
    """
    make = importlib.import_module("vllm.config").DeviceConfig
    try:
        with active(platform):
            config.device_config = make(device=platform.device_type)
    except Exception as error:
        raise NotRun(
            f"vLLM makes no device part for device type {platform.device_type!r}: {_reason(error)}"
        ) from error


def validate(config: Any) -> None:
    """Check the type and the bounds of every field that can be checked, part by part.

    vLLM declares them and checks them when a part is made, not when a hook writes to it. A field
    whose untouched value fails its own declaration is left out: there the declaration is wrong.

    Raises:
        ValueError: the fields that do not hold what they declare, with the reason.
    """
    wrong = {path: reason for path, reason in _invalid_fields(config).items() if path not in _misdeclared()}
    if wrong:
        raise ValueError("; ".join(f"{path}: {reason}" for path, reason in sorted(wrong.items())))


@functools.cache
def _misdeclared() -> frozenset[str]:
    """Fields that fail their own declaration in a config that no platform has touched."""
    return frozenset(path for case in (PLAIN, "model-none", "lora") for path in _invalid_fields(build(case)))


def _invalid_fields(config: Any, prefix: str = "") -> dict[str, str]:
    wrong: dict[str, str] = {}
    validator: Any = inspect.getattr_static(config, "__pydantic_validator__", None)
    if validator is None:
        return wrong
    for field in dataclasses.fields(config):
        path, value = f"{prefix}{field.name}", getattr(config, field.name, None)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            wrong.update(_invalid_fields(value, f"{path}."))
            continue
        try:
            # On a copy: the check also converts, and the config must stay as the hook left it.
            validator.validate_assignment(copy.copy(config), field.name, value)
        except Exception as error:
            wrong[path] = f"{value!r} is invalid ({_reason(error)})"
    return wrong
