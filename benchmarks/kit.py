"""Time and memory of whole kit runs, and of the yardstick beside them: one fresh vLLM config."""

from __future__ import annotations

import importlib.util
import statistics
import sys
from pathlib import Path
from typing import Final

import conformance
from benchmarks.children import peak_memory_mb, run
from benchmarks.model import Bound, Row

REPEATS: Final = 3
KIT: Final = [sys.executable, "-P", "-m", "pytest", "--pyargs", "conformance", "-q", "-p", "no:cacheprovider"]
OURS: Final = [*KIT, "--platform", "platforms.cpu:CpuPlatform"]
CHEAP: Final = [*OURS, "--conformance-level", "contract"]
THEIRS: Final = [*KIT, "--platform", "vllm.platforms.cpu:CpuPlatform", "--conformance-level", "contract"]


def yardstick() -> list[str]:
    """A fresh process that imports vLLM's argument module and builds one config of a tiny model."""
    model = str(Path(conformance.__path__[0], "data", "tiny-llama"))
    program = (
        "from vllm.engine.arg_utils import EngineArgs\n"
        f"EngineArgs(model={model!r}, load_format='dummy', skip_tokenizer_init=True, enforce_eager=True,"
        " dtype='float32', max_model_len=128, max_num_seqs=4).create_engine_config()\n"
    )
    return [sys.executable, "-P", "-c", program]


def _own(what: str, command: list[str], limit: float, repeats: int) -> Row:
    """Time a run on our CPU platform."""
    times = [run(command) for _ in range(repeats)]
    return Row(
        "Kit",
        f"{what} run on `platforms.cpu:CpuPlatform`, time",
        "s",
        min(times),
        bound=Bound("value", limit),
        note=f"median {statistics.median(times):.1f} s of {repeats}",
    )


def measure(repeats: int = REPEATS) -> list[Row]:
    """Measure a full run on our CPU platform, and a contract-level run on vLLM's where it is installed."""
    memory, how = peak_memory_mb(OURS)
    rows = [
        *(
            _own(what, command, limit, repeats)
            for what, command, limit in (("contract-level", CHEAP, 20.0), ("full", OURS, 180.0))
        ),
        Row("Kit", "full run on `platforms.cpu:CpuPlatform`, peak memory", "MB", memory, note=how),
    ]
    if importlib.util.find_spec("vllm") is None:
        return rows
    one_config = yardstick()
    run(one_config)  # fills the file system's cache and the byte code, for both
    kits, configs = [], []
    for _ in range(repeats):
        configs.append(run(one_config))
        kits.append(run(THEIRS))
    versus = "a fresh process that builds one vLLM config"
    what = "contract-level run on `vllm.platforms.cpu:CpuPlatform`"
    rows.append(
        Row(
            "Kit",
            f"{what}, time",
            "s",
            min(kits),
            min(configs),
            versus=versus,
            bound=Bound("ratio", 3.0),
            note=f"medians {statistics.median(kits):.1f} s and {statistics.median(configs):.1f} s of {repeats}",
        )
    )
    memory, how = peak_memory_mb(THEIRS)
    rows.append(
        Row(
            "Kit",
            f"{what}, peak memory",
            "MB",
            memory,
            peak_memory_mb(one_config)[0],
            versus=versus,
            note=how,
        )
    )
    return rows
