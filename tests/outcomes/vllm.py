"""What the kit says of vLLM's CPU platform at level contract, as a table on disk.

`python -m tests.outcomes.vllm`, beside a vLLM, writes the table of its version anew; look at the
difference before you commit it.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Final

from conformance.engines import adapter
from conformance.isolation.client import Host
from conformance.model import Level
from conformance.registry import all_checks
from conformance.runner import Runner
from conformance.target import parse

PLATFORM: Final = "vllm.platforms.cpu:CpuPlatform"


def path(version: str) -> Path:
    """The table of a version of vLLM."""
    return Path(__file__).with_name(f"vllm-cpu-{version}.json")


def main() -> None:
    """Run the checks and write the table."""
    checks = all_checks()
    with contextlib.closing(Host(parse(PLATFORM))) as host:
        runner = Runner(checks, host, host.open())
        found = {
            name: runner.result(name).outcome.value
            for name, one in checks.items()
            if one.level <= Level.CONTRACT
        }
    written = json.dumps(dict(sorted(found.items())), indent=1)
    path(adapter("vllm").version()).write_text(f"{written}\n")


if __name__ == "__main__":
    main()
