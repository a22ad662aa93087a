"""What the kit says of our own platforms on a machine without accelerators, as tables on disk.

`python -m tests.outcomes.native` writes the tables anew; look at the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from conformance.isolation.client import Host
from conformance.model import CheckResult
from conformance.registry import all_checks
from conformance.runner import Runner
from conformance.target import parse

FOLDER: Final = Path(__file__).with_name("native")
PLATFORMS: Final = {
    "cpu": "platforms.cpu:CpuPlatform",
    "cuda": "platforms.cuda:CudaPlatform",
    "rocm": "platforms.rocm:RocmPlatform",
    "xpu": "platforms.xpu:XPUPlatform",
    "tpu": "platforms.tpu:TpuPlatform",
    "unspecified": "platforms.unspecified:UnspecifiedPlatform",
}


def applicable() -> list[str]:
    """The ids of the checks that apply to platforms of this engine."""
    return [name for name, one in all_checks().items() if not one.engines or "native" in one.engines]


def results(platform: str) -> Mapping[str, CheckResult]:
    """Run every check on a platform, by its short name."""
    with contextlib.closing(Host(parse(PLATFORMS[platform]))) as host:
        runner = Runner(all_checks(), host, host.open())
        return {name: runner.result(name) for name in applicable()}


def table(found: Mapping[str, CheckResult]) -> dict[str, str]:
    """The outcome of each check by id, in the order of ids."""
    return {name: found[name].outcome.value for name in sorted(found)}


def recorded(platform: str) -> dict[str, str]:
    """The table on disk."""
    text = (FOLDER / f"{platform}.json").read_text(encoding="utf-8")
    return {str(name): str(outcome) for name, outcome in json.loads(text).items()}


def write() -> None:
    """Write every table."""
    FOLDER.mkdir(exist_ok=True)
    for name in PLATFORMS:
        text = json.dumps(table(results(name)), indent=1)
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
