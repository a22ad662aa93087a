"""Facts about watching one call of a config hook."""

from __future__ import annotations

import pytest

from platform_abc.config import EngineConfig
from platform_abc.errors import ConfigError, NotSupported
from platform_abc.hooks.calls import observed


class Plat:
    """Any platform."""


def noted(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was said about calls."""
    return [record.getMessage() for record in caplog.records if record.levelname == "DEBUG"]


def test_changes_are_told_by_hook_in_order(caplog: pytest.LogCaptureFixture) -> None:
    """Also a call that changed nothing."""
    caplog.set_level("DEBUG", "platform_abc.hooks.calls")
    config = EngineConfig()
    with observed("first", Plat(), config):
        config.parallel_config.worker_cls = "pkg.Worker"
    with observed("second", Plat(), config):
        pass
    assert noted(caplog) == [
        "first: parallel_config.worker_cls: auto → pkg.Worker",
        "second: changed nothing",
    ]


def test_a_failed_call_tells_no_changes(caplog: pytest.LogCaptureFixture) -> None:
    """The exception says which hook it was."""
    caplog.set_level("DEBUG", "platform_abc.hooks.calls")
    config = EngineConfig()
    with pytest.raises(ConfigError, match=r"worker_cls = 3: .* \(raised in hook first of Plat\)"):
        with observed("first", Plat(), config):
            config.parallel_config.worker_cls = 3  # type: ignore[assignment]
    with (
        pytest.raises(ConfigError, match="written by hook second of Plat"),
        observed("second", Plat(), config),
    ):
        vars(config.parallel_config)["worker_cls"] = 3
    assert noted(caplog) == []


def test_what_hangs_on_a_part_beside_its_fields_is_told_with_the_hook(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A typing error is a warning with what it may have meant; the same value is told once."""
    config = EngineConfig()
    with observed("first", Plat(), config):
        config.parallel_config.worker_class = "pkg.Worker"  # type: ignore[attr-defined]
        config.own = 1  # type: ignore[attr-defined]
    with observed("second", Plat(), config):
        config.own = 2  # type: ignore[attr-defined]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"hook first of Plat wrote {text}; values of a platform's own belong into additional_config"
        for text in (
            "own, which is no field",
            "parallel_config.worker_class, which is no field (did you mean worker_cls?)",
        )
    ]


def test_declining_passes_untouched() -> None:
    """`NotSupported` is an answer, not a fault."""
    declined = NotSupported("hook", "P", "do this")
    with pytest.raises(NotSupported) as caught, observed("hook", Plat(), EngineConfig()):
        raise declined
    assert caught.value is declined
    assert not hasattr(declined, "__notes__")
