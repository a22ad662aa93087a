"""What the tests of resolution share: fake detectors, a module of platforms, a folder of plugins."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from platform_abc.candidates import Detector
from platform_abc.resolution import ResolutionSpec
from tests.platform_abc.fake_distributions import STRUCTURAL_PLATFORM, distribution

GROUP = "platform_abc.platform_plugins"
MEMBERS = ("_enum", "device_type", "check_and_update_config", "get_attn_backend_cls")


@pytest.fixture(name="module", autouse=True)
def module_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module `rs_platforms` with the platform classes One, Two and Nothing, and a clean environment."""
    for name in ("PLATFORM_ABC_PLUGINS", "PLATFORM_ABC_TARGET_DEVICE", "PLATFORM_ABC_LOGGING_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    made = ModuleType("rs_platforms")
    for name in ("One", "Two", "Nothing"):
        exec(STRUCTURAL_PLATFORM.format(name=name), vars(made))
    monkeypatch.setitem(sys.modules, "rs_platforms", made)
    yield made
    for name in [name for name in sys.modules if name.startswith("rs_") or name.endswith("_rs_plugin")]:
        sys.modules.pop(name, None)


def spec(**builtins: Detector) -> ResolutionSpec:
    return ResolutionSpec(
        engine="platform-abc",
        builtins=builtins,
        unspecified="rs_platforms.Nothing",
        forced={"cpu": "cpu"},
        required_members=MEMBERS,
        variables=("PLATFORM_ABC_*", "JAX_PLATFORMS"),
        packages=("attrs", "no-such-distribution"),
    )


def answer(value: object) -> Detector:
    return lambda: value  # type: ignore[return-value]


def raising(error: BaseException) -> Detector:
    def detector() -> str | None:
        raise error

    return detector


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder on the import path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def put(site: Path, name: str, body: str, *, dist: str = "", version: str = "1.0") -> None:
    module = f"{(dist or name).replace('-', '_')}_rs_plugin"
    distribution(
        site,
        dist or f"{name}-dist",
        version,
        entry_points={GROUP: {name: f"{module}:register"}},
        modules={f"{module}.py": body if "def register" in body else f"def register():\n    {body}\n"},
    )
