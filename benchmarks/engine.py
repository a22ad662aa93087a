"""The reference engine: decode speed beside transformers, the platform layer's share, and the cold start."""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

import conformance
from benchmarks.children import ChildFailed, environment, run
from benchmarks.model import Bound, Row

ROOT: Final = Path(__file__).resolve().parent.parent
TINY: Final = str(Path(conformance.__path__[0], "data", "tiny-llama"))

OURS: Final = (
    "from reference_engine.__main__ import main\n"
    f"raise SystemExit(main(['generate', '--model', {TINY!r}, '--dtype', 'float32', '--prompt-ids', '1,2,3',"
    " '--max-model-len', '128', '--max-num-seqs', '4', '--max-tokens', '1']))\n"
)
THEIRS: Final = (
    "from vllm import LLM, SamplingParams\n"
    f"llm = LLM(model={TINY!r}, load_format='dummy', skip_tokenizer_init=True, enforce_eager=True,"
    " dtype='float32', max_model_len=128, max_num_seqs=4)\n"
    "llm.generate([{'prompt_token_ids': [1, 2, 3]}], SamplingParams(max_tokens=1, temperature=0, detokenize=False))\n"
)
IN_PROCESS: Final = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}


def measure(repeats: int) -> list[Row]:
    """Measure what this environment allows: transformers for the steps, vLLM for the start."""
    return [*_steps(), *_cold_start(repeats)]


def _steps() -> list[Row]:
    if importlib.util.find_spec("transformers") is None:
        return []
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.decode"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ChildFailed(f"benchmarks.decode exited with {done.returncode}:\n{done.stderr[-3000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    rows = []
    for batch in (name for name in told if name.isdecimal()):
        one = told[batch]
        rows += [
            Row(
                "Reference engine",
                f"a decode step, batch {batch}",
                "ms",
                one["ours"],
                one["theirs"],
                versus=f"transformers {told['transformers']}, `generate` with its cache",
                bound=Bound("ratio", 1.0),
                note=f"{int(batch) / one['ours'] * 1e3:.0f} and {int(batch) / one['theirs'] * 1e3:.0f} tokens/s on "
                f"{told['threads']} threads; Llama of 8 layers, 512 wide, 32,000 tokens, float32; same tokens",
            ),
            Row(
                "Reference engine",
                f"the platform layer's share of a decode step, batch {batch}",
                "ms",
                one["layer"],
                one["ours"],
                versus="the step itself",
                bound=Bound("ratio", 0.01),
                note=f"{len(one['members'])} reads and calls: {', '.join(dict.fromkeys(one['members'])) or 'none'}",
            ),
        ]
    return rows


def _cold_start(repeats: int) -> list[Row]:
    ours = [sys.executable, "-P", "-c", OURS]
    theirs = [sys.executable, "-P", "-c", THEIRS]
    vllm = importlib.util.find_spec("vllm") is not None
    run(ours)  # fills the file system's cache and the byte code, for both
    if vllm:
        run(theirs, extra=IN_PROCESS)
    mine, other = [], []
    for _ in range(repeats):
        mine.append(run(ours))
        if vllm:
            other.append(run(theirs, extra=IN_PROCESS))
    medians = " and ".join(f"{statistics.median(one):.1f} s" for one in (mine, other) if one)
    return [
        Row(
            "Reference engine",
            "a fresh process up to its first token and end, the kit's tiny model",
            "s",
            min(mine),
            min(other) if other else None,
            versus="vLLM in one process",
            bound=Bound("ratio", 1 / 3),
            note=f"medians {medians} of {repeats}",
        )
    ]
