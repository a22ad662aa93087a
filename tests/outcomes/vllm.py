"""What the kit says of vLLM's own platforms at level contract, without their devices, as tables on disk.

`python -m tests.outcomes.vllm [NAME ...]`, beside a vLLM, writes the tables of its version anew; look at the
difference before you commit it.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from conformance.engines import adapter
from conformance.expected import ExpectedFailure, read_expected
from conformance.isolation.client import Host
from conformance.model import Level
from conformance.registry import all_checks
from conformance.runner import Runner
from conformance.target import parse


@attrs.frozen
class InTree:
    """One of vLLM's own platforms.

    Args:
        name: of its table.
        platform: its class.
        stub: compiled modules that a build for the CPU lacks; the kit puts stand-ins in their place.
    """

    name: str
    platform: str
    stub: tuple[str, ...] = ()

    @property
    def settings(self) -> Path | None:
        """The file of its expected failures; None if it has none."""
        file = Path(__file__).with_name(f"vllm-{self.name}.toml")
        return file if file.exists() else None

    @property
    def expected(self) -> Mapping[str, ExpectedFailure]:
        """Its expected failures, by check."""
        if self.settings is None:
            return {}
        data: Any = tomllib.loads(self.settings.read_text(encoding="utf-8"))
        return read_expected(data["tool"]["platform-abc"]["expected-failures"], self.settings.name)

    def options(self) -> list[str]:
        """The options of a run at level contract."""
        config = [] if self.settings is None else [f"--conformance-config={self.settings}"]
        return ["--conformance-level=contract", *(f"--conformance-stub={one}" for one in self.stub), *config]

    def path(self, version: str) -> Path:
        """The table of a version of vLLM."""
        return Path(__file__).with_name(f"vllm-{self.name}-{version}.json")


PLATFORMS: Final = {
    one.name: one
    for one in (
        InTree("cpu", "vllm.platforms.cpu:CpuPlatform"),
        InTree("zen", "vllm.platforms.zen_cpu:ZenCpuPlatform"),
        InTree("cuda", "vllm.platforms.cuda:CudaPlatform", ("vllm._C_stable_libtorch",)),
        InTree("rocm", "vllm.platforms.rocm:RocmPlatform", ("amdsmi",)),
        InTree("xpu", "vllm.platforms.xpu:XPUPlatform", ("vllm_xpu_kernels",)),
    )
}


def write(what: InTree) -> None:
    """Run the checks and write the table."""
    checks = all_checks()
    with contextlib.closing(Host(parse(what.platform), stubs=what.stub)) as host:
        runner = Runner(checks, host, host.open(), what.expected)
        wanted = [
            name
            for name, one in checks.items()
            if one.level <= Level.CONTRACT and (not one.engines or "vllm" in one.engines)
        ]
        runner.begin(wanted)
        found = {name: runner.result(name).outcome.value for name in wanted}
    written = json.dumps(dict(sorted(found.items())), indent=1)
    what.path(adapter("vllm").version()).write_text(f"{written}\n", encoding="utf-8")


def main() -> None:
    """Write the tables that are named, or all."""
    for name in sys.argv[1:] or PLATFORMS:
        write(PLATFORMS[name])


if __name__ == "__main__":
    main()
