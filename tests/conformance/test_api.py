"""`check_platform`: the kit without pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.api import check_platform, verdict_of
from conformance.model import Outcome
from conformance.problems import UsageProblem
from conformance.verdict import Verdict

if TYPE_CHECKING:
    from tests.conformance.conftest import Vendor

LOCAL = """
import sys
from conformance.api import check_platform, verdict_of
from platform_abc.platform import Platform
from platform_abc.types import PlatformEnum

class Mine(Platform):
    _enum = PlatformEnum.OOT
    device_name = "mine"
    device_type = "cpu"
    @classmethod
    def check_and_update_config(cls, vllm_config): ...
    @classmethod
    def get_attn_backend_cls(cls, selected_backend, attn_selector_config, num_heads=None): return "a.B"
    @classmethod
    def get_device_name(cls, device_id=0): return "mine"

results = check_platform(Mine, checks_from="shams", timeout=20)
for one in results:
    print(one.check.id, one.outcome.value, one.reason)
print(verdict_of(results).value, hasattr(Mine, "leak"))
"""


def test_a_class_is_judged_by_name_in_another_process(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An importable class: results in order, the asking process imports nothing of the engine."""
    vendor.checks('sham("identity.good")\nsham("identity.bad", failing)\nsham("identity.no", declining)')
    code = (
        "import sys; from conformance.api import check_platform, verdict_of\n"
        "rs = check_platform('acme:AcmePlatform', checks_from='shams', select=['identity.*'])\n"
        "print({r.check.id: r.outcome.value for r in rs if r.check.id.startswith('identity.')})\n"
        "print(verdict_of(rs).value, 'torch' in sys.modules, 'acme' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=vendor.folder, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "{'identity.good': 'pass', 'identity.bad': 'fail', 'identity.no': 'unsupported'}",
        "not conformant False False",
    ], done.stderr


def test_a_class_of_main_is_judged_in_forks(vendor: Vendor) -> None:
    """A local class: hostile checks die in their forks, fresh ones are skipped with that reason."""
    vendor.checks(
        """
        import os, time
        sham("identity.good")
        sham("identity.dies", lambda ctx: os._exit(0))
        sham("identity.changes", lambda ctx: setattr(ctx.platform_cls, "leak", 1))
        sham("identity.fresh", where="fresh")
        """
    )
    script = vendor.write("script.py", LOCAL)
    done = subprocess.run(
        [sys.executable, str(script)], cwd=vendor.folder, capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert "identity.good pass " in lines, done.stderr
    assert any(one.startswith("identity.dies fail") for one in lines)
    assert any(
        one.startswith("identity.fresh skipped a child process cannot import a class") for one in lines
    )
    assert lines[-1] == "not conformant False"


@pytest.mark.parametrize(
    ("cls", "more", "told"),
    [
        (dict, {}, "is not a platform class"),
        ("nowhere:X", {}, "there is no module 'nowhere'"),
        ("platforms.cpu:CpuPlatform", {"level": "deep"}, "'deep' is no level"),
        ("platforms.cpu:CpuPlatform", {"engine": "x"}, "is unknown"),
        ("platforms.cpu:CpuPlatform", {"select": "nothing.*"}, "no check collected"),
    ],
)
def test_a_wrong_request_is_one_error(cls: type | str, more: dict[str, str], told: str) -> None:
    """What the caller got wrong is a `UsageProblem` with the line of the command."""
    with pytest.raises(UsageProblem, match=told):
        check_platform(cls, **more)  # type: ignore[arg-type]


def test_the_verdict_of_results_follows_the_rules(tmp_path: Path) -> None:
    """No results, no verdict."""
    assert verdict_of([]) is Verdict.NONE
    assert Outcome.PASS.value == "pass"
