"""Facts of `platforms.triton_state`: what decides whether Triton's kernels run."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from platforms import triton_state
from platforms.triton_state import TritonKind

KINDS: tuple[TritonKind, ...] = ("cpu", "cuda", "hip", "xpu")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    triton_state._state.cache_clear()
    monkeypatch.delenv(triton_state.INTERPRETER_VARIABLE, raising=False)


def installed(monkeypatch: pytest.MonkeyPatch, **active: bool | Exception) -> None:
    """Stand in for a Triton whose drivers, by name, are active, are not, or fail."""

    def asked(name: str) -> bool:
        answer = active[name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    backends = {
        name: SimpleNamespace(driver=SimpleNamespace(is_active=lambda name=name: asked(name)))
        for name in active
    }
    modules: dict[str, Any] = {
        "triton.language": SimpleNamespace(sum=len),
        "triton.backends": SimpleNamespace(backends=backends),
    }
    monkeypatch.setattr(triton_state, "is_installed", lambda _name: True)
    monkeypatch.setattr(triton_state, "_installed_backends", lambda: set(active))
    monkeypatch.setattr(triton_state.importlib, "import_module", modules.__getitem__)


@pytest.mark.parametrize("kind", KINDS)
def test_without_triton_the_extra_is_named(kind: TritonKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not installed is not usable, and the reason says what to install."""
    monkeypatch.setattr(triton_state, "is_installed", lambda _name: False)
    state = triton_state.triton_state(kind)
    assert (state.usable, state.interpreted) == (False, False)
    assert "platform-abc[triton]" in state.why


@pytest.mark.parametrize(("kind", "driver"), [("cuda", "nvidia"), ("hip", "amd"), ("xpu", "intel")])
def test_the_driver_of_the_kind_decides(
    kind: TritonKind, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another kind's driver does not count: a host beside an active NVIDIA device runs no kernels."""
    installed(monkeypatch, **{name: name == driver for name in ("nvidia", "amd", "intel")})
    for other in KINDS:
        assert triton_state.triton_state(other).usable is (other == kind)


@pytest.mark.parametrize(
    ("answer", "reason"), [(False, "finds no device"), (OSError("libcuda.so.1"), "OSError: libcuda.so.1")]
)
def test_a_driver_without_a_device_says_so(
    answer: bool | Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inactive and failing drivers are reasons, not errors."""
    installed(monkeypatch, nvidia=answer)
    state = triton_state.triton_state("cuda")
    assert not state.usable
    assert reason in state.why


def test_a_broken_installation_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its import raises is told."""
    installed(monkeypatch, nvidia=True)
    monkeypatch.setattr(triton_state.importlib, "import_module", {}.__getitem__)
    assert "KeyError: 'triton.language'" in triton_state.triton_state("cuda").why


def test_the_answer_is_kept_for_the_process_and_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked twice, the driver is asked once; a changed variable or another process asks again."""
    installed(monkeypatch, nvidia=True)
    first = triton_state.triton_state("cuda")
    installed(monkeypatch, nvidia=False)
    assert triton_state.triton_state("cuda") is first
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not triton_state.triton_state("cuda").usable


def _in_child(code: str, **variables: str) -> str:
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, **variables},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_the_interpreter_counts_only_if_it_was_chosen_before_the_import() -> None:
    """Set in time, kernels of every kind run in it; set too late, library and kernels would not fit together."""
    pytest.importorskip("triton")
    pytest.importorskip("numpy")
    code = (
        "from platforms.triton_state import *; "
        "print([triton_state(kind).interpreted for kind in ('cpu', 'cuda', 'hip', 'xpu')], interpreted())"
    )
    assert _in_child(code, TRITON_INTERPRET="1") == "[True, True, True, True] True"
    late = "import os, triton; os.environ['TRITON_INTERPRET'] = '1'; "
    assert _in_child(late + code, TRITON_INTERPRET="0") == "[False, False, False, False] False"


def test_a_host_does_not_import_triton_to_learn_that_it_is_of_no_use() -> None:
    """The installed backends tell; importing them takes a third of a second."""
    code = (
        "import sys; from platforms.triton_state import triton_state; "
        "print(triton_state('cpu').usable, 'triton' in sys.modules)"
    )
    assert _in_child(code, TRITON_INTERPRET="") == "False False"
