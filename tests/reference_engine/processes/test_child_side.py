"""Facts about the child's side: what it refuses to work with."""

from __future__ import annotations

import attrs
import pytest

from platform_abc.config import EngineConfig
from platform_abc.resolution_report import ResolutionReport
from reference_engine.processes.child import Child, ProcessFailed
from reference_engine.processes.child_side import failure_text
from reference_engine.processes.hook_watch import EngineFailed
from tests.reference_engine.children import serve_all
from tests.reference_engine.processes.test_child import start_of


def test_a_child_refuses_to_work_on_another_platform(report: ResolutionReport) -> None:
    """It names both platforms and the variable that differs."""
    variables = {**report.variables, "PLATFORM_ABC_TARGET_DEVICE": "auto"}
    other = attrs.evolve(report, chosen="vendor.Platform", variables=variables)
    with pytest.raises(ProcessFailed, match=r"(?s)vendor\.Platform.*PLATFORM_ABC_TARGET_DEVICE"):
        Child(serve_all, start_of(other)).ready()


def test_a_config_that_became_invalid_is_refused_on_receipt(report: ResolutionReport) -> None:
    """What slipped past the front end is found in the next process, by field."""
    config = EngineConfig()
    vars(config.cache_config)["block_size"] = 0
    with pytest.raises(ProcessFailed, match=r"cache_config\.block_size = 0.*the process that sent it"):
        Child(serve_all, start_of(report, config)).ready()


def test_a_failure_is_one_line_and_then_all_that_is_known() -> None:
    """Also of an exception that cannot say what it is; the engine's own says all itself."""

    class Mute(BaseException):
        def __str__(self) -> str:
            raise SystemExit(9)

    first, second, *_ = failure_text(Mute()).splitlines()
    assert first.startswith("Mute: (its text")
    assert "Mute" in second
    assert failure_text(EngineFailed("a\nb")) == "a\nb"
