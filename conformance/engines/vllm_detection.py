"""vLLM's own resolution of its platform, in an interpreter that nothing has touched yet."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from conformance.engines.base import Detection
from conformance.engines.vllm_environment import PLUGIN_GROUP, restore_users_choice


def detect() -> dict[str, Any]:
    """Resolve vLLM's platform as the user's own process would, and say what each detector answered.

    Run it in a fresh interpreter: it sets the variables of the kit back to the user's.
    """
    restore_users_choice()
    return attrs.asdict(_detect())


def _detect() -> Detection:
    answers: dict[str, str | None] = {}
    errors: list[str] = []
    plugins: Mapping[str, Any] = {}
    try:
        platforms = importlib.import_module("vllm.platforms")
        builtin: Mapping[str, Any] = getattr(platforms, "builtin_platform_plugins", {})
        plugins = importlib.import_module("vllm.plugins").load_plugins_by_group(PLUGIN_GROUP)
        for name, detector in {**builtin, **plugins}.items():
            answers[name] = _ask(name, detector, errors)
        current: object = platforms.current_platform
    except Exception as error:
        return Detection("", answers, _winner(answers, set(plugins)), "; ".join([*errors, _text(error)]))
    resolved = f"{type(current).__module__}.{type(current).__qualname__}"
    return Detection(resolved, answers, _winner(answers, set(plugins)), "; ".join(errors))


def _ask(name: str, detector: Callable[[], object], errors: list[str]) -> str | None:
    try:
        answer = detector()
    except Exception as error:
        errors.append(f"detector {name!r} raised {_text(error)}")
        return None
    return None if answer is None else str(answer)


def _winner(answers: Mapping[str, str | None], plugins: set[str]) -> str:
    """The detector whose answer counts: an out-of-tree one before any built-in one."""
    active = [name for name, answer in answers.items() if answer is not None]
    chosen = [name for name in active if name in plugins] or active
    return chosen[0] if len(chosen) == 1 else ""


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
