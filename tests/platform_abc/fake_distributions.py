"""Make installed distributions with entry points, out of a folder and a little source text."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

CPU_TORCH = "2.13.0+cpu"


def distribution(
    site: Path,
    name: str,
    version: str = "1.0",
    *,
    entry_points: Mapping[str, Mapping[str, str]] | None = None,
    modules: Mapping[str, str] | None = None,
    requires: tuple[str, ...] = (),
) -> Path:
    """Write a distribution's dist-info and modules into the folder `site`, as an installer does."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    required = "".join(f"Requires-Dist: {each}\n" for each in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}")
    lines: list[str] = []
    for group, entries in (entry_points or {}).items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))
    for path, source in (modules or {}).items():
        file = site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(source))
    return info


def platform_plugin(site: Path, name: str, source: str, *, dist: str = "", version: str = "1.0") -> None:
    """Write a distribution with one out-of-tree detector `register` in the module `<name>_plugin`."""
    distribution(
        site,
        dist or f"{name}-dist",
        version,
        entry_points={"platform_abc.platform_plugins": {name: f"{name}_plugin:register"}},
        modules={f"{name}_plugin.py": source},
    )


STRUCTURAL_PLATFORM = """
class {name}:
    _enum = None
    device_name = "{name}"
    device_type = "cpu"

    @classmethod
    def check_and_update_config(cls, config):
        pass

    @classmethod
    def get_attn_backend_cls(cls, *args, **kwargs):
        return "a.b.C"
"""
"""A class with the members that resolution asks of a platform, and no base."""


def fresh(
    site: Path, code: str, *, timeout: float = 60, python: tuple[str, ...] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter that has `site` first on its import path.

    The variables of ours and of JAX are removed first; keyword arguments set some.
    """
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PLATFORM_ABC_", "JAX_")) and name != "PYTHONSAFEPATH"
    }
    return subprocess.run(
        [sys.executable, *python, "-c", textwrap.dedent(code)],
        env={**clean, "PYTHONPATH": str(site), **variables},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=site,
    )
