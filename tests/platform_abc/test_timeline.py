"""The table of hooks says what was traced, and nothing else says it a second time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from platform_abc.timeline import (
    TIMELINE,
    Process,
    processes_of,
    promised_order,
    rows,
    runs_on_updated_config,
)
from platform_abc.timeline_page import markdown

FRONT, CORE, WORKER = Process.FRONT_END, Process.ENGINE_CORE, Process.WORKER


def test_every_hook_of_the_table_is_a_member_of_the_contract() -> None:
    """A renamed hook cannot stay behind here."""
    from platform_abc.platform import Platform

    hooks = {row.name for row in TIMELINE if row.kind != "step"}
    assert hooks
    assert (
        sorted(name for name in hooks if not hasattr(Platform, name) and not _annotated(Platform, name)) == []
    )


def _annotated(cls: type, name: str) -> bool:
    return any(name in vars(base).get("__annotations__", {}) for base in cls.__mro__)


def test_config_hooks_run_again_in_the_engine_core_only_with_worker_processes() -> None:
    """There they get the config that they have already changed; workers never run them."""
    for name in ("apply_config_platform_defaults", "check_and_update_config"):
        assert processes_of(name) == {FRONT, CORE}
        assert processes_of(name, "one-process") == {FRONT}
        assert runs_on_updated_config(name)
    assert not runs_on_updated_config("pre_register_and_update")


def test_the_block_size_is_chosen_in_the_workers() -> None:
    """Where the attention backends are known."""
    assert processes_of("update_block_size_for_backend") == {WORKER}
    assert processes_of("get_attn_backend_cls") == {WORKER}


def test_front_end_hooks_have_their_order() -> None:
    """General plugins, then the parser, then config creation, then the config hooks."""
    order = promised_order(FRONT)
    wanted = (
        "detector",
        "general plugins",
        "pre_register_and_update",
        "validate_environ",
        "apply_config_platform_defaults",
        "check_and_update_config",
        "validate_request",
    )
    assert [name for name in order if name in wanted] == list(wanted)


def test_worker_hooks_have_their_order() -> None:
    """Plugins, kernel overrides, worker class, device, model, then the block size."""
    wanted = (
        "general plugins",
        "register_triton_kernel_overrides",
        "the worker class is imported",
        "set_device",
        "get_attn_backend_cls",
        "update_block_size_for_backend",
    )
    assert [name for name in promised_order(WORKER) if name in wanted] == list(wanted)


def test_detection_happens_in_every_process() -> None:
    """Nothing is carried over."""
    for name in ("detector", "import of the platform's module", "making of the platform object"):
        assert processes_of(name) == set(Process)


def test_rows_can_be_asked_by_name_process_and_layout() -> None:
    """Lines that do not hold for a layout are left out."""
    assert len(rows("pre_register_and_update")) == 2
    assert {row.moment for row in rows("check_and_update_config", process=CORE)} == {
        "config construction again"
    }
    assert rows("check_and_update_config", process=CORE, layout="one-process") == ()
    assert all(row.runs_in("one-process") == (FRONT,) for row in rows(layout="one-process"))


@pytest.mark.parametrize("row", TIMELINE, ids=lambda row: f"{row.moment}-{row.name}")
def test_every_line_is_complete(row: object) -> None:
    """It happens somewhere, at most as often as at least, and a condition never promises a call."""
    from platform_abc.timeline import HookTime

    assert isinstance(row, HookTime)
    assert row.processes
    assert row.most is None or row.most >= max(row.least, 1)
    assert row.name
    assert "|" not in f"{row.name}{row.when}{row.may_change}{row.note}"


def test_moments_are_contiguous() -> None:
    """The table reads from top to bottom as time does."""
    moments = [row.moment for row in TIMELINE]
    assert [moment for i, moment in enumerate(moments) if i == 0 or moments[i - 1] != moment] == list(
        dict.fromkeys(moments)
    )


def test_the_page_of_the_documentation_is_current() -> None:
    """`python -m platform_abc.timeline > docs/timeline.md` makes it."""
    page = Path(__file__).parents[2] / "docs" / "timeline.md"
    if not page.exists():
        pytest.skip("the documentation is not here")
    assert page.read_text(encoding="utf-8") == markdown()
    printed = subprocess.run(
        [sys.executable, "-m", "platform_abc.timeline"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert printed.stdout == markdown()
