"""vLLM's own resolution of its platform, in an interpreter that nothing has touched yet."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
from collections.abc import Callable, Generator, Mapping
from types import ModuleType
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
    errors: dict[str, str] = {}
    plugins: set[str] = set()
    try:
        platforms = importlib.import_module("vllm.platforms")
        _listen(platforms, answers, errors, plugins)
        current: object = platforms.current_platform
    except Exception as error:
        return Detection("", answers, _winner(answers, plugins), _text(error), errors)
    resolved = f"{type(current).__module__}.{type(current).__qualname__}"
    return Detection(resolved, answers, _winner(answers, plugins), errors=errors)


def _listen(
    platforms: ModuleType, answers: dict[str, str | None], errors: dict[str, str], plugins: set[str]
) -> None:
    """Let every detector tell what it answers or raises when vLLM itself calls it."""
    builtin: dict[str, Any] = getattr(platforms, "builtin_platform_plugins", {})
    for name, detector in list(builtin.items()):
        builtin[name] = _told(name, detector, answers, errors)
    load: Any = getattr(platforms, "load_plugins_by_group", None)
    if load is None:
        return

    def load_plugins_by_group(group: str) -> dict[str, Any]:
        with _loading(errors):
            found: dict[str, Any] = load(group)
        if group != PLUGIN_GROUP:
            return found
        plugins.update(found)
        return {name: _told(name, detector, answers, errors) for name, detector in found.items()}

    platforms.load_plugins_by_group = load_plugins_by_group  # type: ignore[attr-defined]


def _told(
    name: str, detector: Any, answers: dict[str, str | None], errors: dict[str, str]
) -> Callable[[], Any]:
    def ask() -> Any:
        answers.setdefault(name, None)
        try:
            answer = detector()
        except Exception as error:
            errors.setdefault(name, _text(error))
            raise
        answers[name] = None if answer is None else str(answer)
        errors.pop(name, None)  # of a resolution inside this one
        return answer

    return ask


@contextlib.contextmanager
def _loading(errors: dict[str, str]) -> Generator[None]:
    """Note which entry points cannot be loaded, which vLLM only logs."""
    entry_point: Any = importlib.metadata.EntryPoint
    original = entry_point.load

    def load(point: importlib.metadata.EntryPoint) -> Any:
        try:
            found = original(point)
        except Exception as error:
            errors.setdefault(point.name, f"{_text(error)} when it was imported")
            raise
        errors.pop(point.name, None)
        return found

    entry_point.load = load
    try:
        yield
    finally:
        entry_point.load = original


def _winner(answers: Mapping[str, str | None], plugins: set[str]) -> str:
    """The detector whose answer counts: an out-of-tree one before any built-in one."""
    active = [name for name, answer in answers.items() if answer is not None]
    chosen = [name for name in active if name in plugins] or active
    return chosen[0] if len(chosen) == 1 else ""


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
