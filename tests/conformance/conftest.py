"""What the tests of the kit share: a vendor's folder with a platform and sham checks, and a kit run in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import attrs
import pytest

PLATFORM = """
from platform_abc.platform import Platform
from platform_abc.types import PlatformEnum


class AcmePlatform(Platform):
    _enum = PlatformEnum.OOT
    device_name = "acme"
    device_type = "cpu"

    @classmethod
    def check_and_update_config(cls, vllm_config):
        return None

    @classmethod
    def get_attn_backend_cls(cls, selected_backend, attn_selector_config, num_heads=None):
        return "acme.Nothing"

    @classmethod
    def get_device_name(cls, device_id=0):
        return "Acme One"
"""

CHECKS = """
from conformance.model import IMPORTABLE, Level, Skip, Unsupported
from conformance.registry import check


def sham(id, func=lambda ctx: None, level=Level.STATIC, **more):
    check(id, group="identity", level=level, why="An engine needs it.", hint="Mend it.", **more)(func)


def failing(ctx):
    raise ctx.fail("device_name", contract_says="It is a word.", platform_did="it is 'acme'", hint="Rename it.")


def lacking(ctx):
    raise Skip("no acme device", "plug one in")


def declining(ctx):
    raise Unsupported("get_x raises NotSupported")


def broken(ctx):
    raise LookupError("the kit has a hole")
"""


@attrs.frozen
class Ran:
    """A run of the kit that has ended.

    Args:
        code: its exit status.
        out: what it printed, stdout and stderr together.
        report: the JSON report; None if there is none.
    """

    code: int
    out: str
    report: dict[str, Any] | None

    @property
    def lines(self) -> list[str]:
        """The lines that are not empty."""
        return [line for line in self.out.splitlines() if line.strip()]

    @property
    def last(self) -> str:
        """The last line that is not empty."""
        return self.lines[-1] if self.lines else ""

    @property
    def outcomes(self) -> dict[str, str]:
        """Outcome by id, from the report."""
        assert self.report is not None, self.out
        return {one["id"]: one["outcome"] for one in self.report["checks"]}

    @property
    def verdict(self) -> str:
        """The verdict of the report."""
        assert self.report is not None, self.out
        return str(self.report["verdict"])


@attrs.frozen
class Vendor:
    """A vendor's folder.

    Args:
        folder: where it is, and where runs start.
        autoload: runs load every installed plugin of pytest; else only ours, which is a second faster.
    """

    folder: Path
    autoload: bool = False

    def write(self, name: str, text: str) -> Path:
        """Write a file into the folder."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), "utf-8")
        return file

    def platform(self, more: str = "", *, before: str = "") -> None:
        """Write `acme.py`; `before` stands above the class, `more` continues its body."""
        body = textwrap.indent(textwrap.dedent(more), "    ")
        self.write("acme.py", textwrap.dedent(before) + PLATFORM + "\n" + body)

    def checks(self, text: str) -> None:
        """Write `shams.py`: the checks of the runs; in a folder of its own, for runs without the working folder."""
        for name in ("shams.py", "lib/shams.py"):
            self.write(name, CHECKS + textwrap.dedent(text))

    def pytest(self, *args: str, **env: str) -> Ran:
        """Run pytest in the folder, with the folder on the import path."""
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
        if not self.autoload:
            command += ["-p", "platform_abc._shim"]
            env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **env}
        return self._run([*command, *args], env)

    def kit(self, *args: str, platform: str | None = "acme:AcmePlatform", **env: str) -> Ran:
        """Run the kit on the platform by the sham checks, with a report."""
        named = ["--platform", platform] if platform else []
        return self.pytest(
            "--pyargs", "conformance", "--conformance-checks-from=shams", "--conformance-report=report.json",
            *named, *args, **env,
        )  # fmt: skip

    def command(self, *args: str, **env: str) -> Ran:
        """Run `platform-abc` in the folder."""
        code = "import sys; from platform_abc._shim import main; sys.exit(main())"
        path = filter(None, [str(self.folder / "lib"), os.environ.get("PYTHONPATH")])
        library = {"PYTHONPATH": os.pathsep.join(path)}
        return self._run([sys.executable, "-P", "-c", code, *args], {**library, **env})

    def _run(self, command: list[str], env: dict[str, str]) -> Ran:
        keep = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**keep, "COLUMNS": "200", **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
        )
        out = done.stdout.decode("utf-8", "replace")
        return Ran(done.returncode, out, json.loads(report.read_text("utf-8")) if report.exists() else None)


@pytest.fixture
def vendor(tmp_path: Path) -> Vendor:
    """A folder with a sound platform and one check that passes."""
    made = Vendor(tmp_path)
    made.platform()
    made.checks('sham("identity.good")')
    return made
