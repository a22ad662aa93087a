"""Boots the installed vLLM, offline, on the tiny model that ships with the kit."""

from __future__ import annotations

import dataclasses
import gc
import importlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from conformance.engines import user_arguments
from conformance.engines.base import BootPlan
from conformance.engines.boot import PROMPTS, TOKENS
from conformance.engines.front_boot import CLOSING
from conformance.engines.hooks_boot import note
from conformance.engines.plugin_boot import NAME

_MODEL: Final = Path(__file__).resolve().parent.parent / "data" / "tiny-llama"
_DRIVE: Final = "conformance.engines.vllm_boot:drive"
_SETTINGS: Final[Mapping[str, Any]] = {
    "load_format": "dummy",
    "skip_tokenizer_init": True,
    "enforce_eager": True,
    "dtype": "float32",
    "max_model_len": 128,
    "max_num_seqs": 4,
    "num_gpu_blocks_override": 64,
}


def plan(layout: str) -> BootPlan:
    """How vLLM is booted; the layout goes to it by a variable.

    Raises:
        UsageProblem: the user names an argument that the installed vLLM does not have.
    """
    fields = dataclasses.fields(importlib.import_module("vllm.engine.arg_utils").EngineArgs)
    user_arguments.require_known([one.name for one in fields])
    in_process = layout == "one-process"
    environment = {
        "VLLM_PLUGINS": NAME,
        "VLLM_TARGET_DEVICE": None,
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0" if in_process else "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": os.environ.get("VLLM_CPU_OMP_THREADS_BIND", "nobind"),
        "MASTER_ADDR": os.environ.get("MASTER_ADDR", "127.0.0.1"),
    }
    return BootPlan(_DRIVE, 180.0 if in_process else 300.0, environment, "vllm.platforms.cpu:CpuPlatform")


def drive(layout: str) -> dict[str, Any]:
    """Generate on vLLM, then close it.

    Args:
        layout: already told to vLLM by a variable.

    Returns:
        What was generated, see `conformance.checks._boots`.
    """
    del layout
    vllm = importlib.import_module("vllm")
    engine: Any = vllm.LLM(**{"model": str(_MODEL), **_SETTINGS, **user_arguments.given()})
    first, again = (_tokens(_generate(engine, PROMPTS)) for _ in range(2))
    finite: bool | None = None
    if all(token == 0 for tokens in first for token in tokens):
        # The likeliest token of logits that are not numbers is the first one.
        finite = _finite(_generate(engine, PROMPTS[:1], logprobs=1))
    vocabulary = int(engine.llm_engine.model_config.get_vocab_size())
    note(CLOSING, "step")
    core: Any = getattr(getattr(engine, "llm_engine", None), "engine_core", None)
    if hasattr(core, "shutdown"):
        core.shutdown()
    del engine, core
    gc.collect()
    return {"vocabulary": vocabulary, "first": first, "again": again, "finite": finite}


def _generate(engine: Any, prompts: list[list[int]], **more: Any) -> Any:
    params = importlib.import_module("vllm").SamplingParams(
        max_tokens=TOKENS, temperature=0.0, detokenize=False, ignore_eos=True, **more
    )
    return engine.generate([{"prompt_token_ids": one} for one in prompts], params, use_tqdm=False)


def _tokens(outputs: Any) -> list[list[int]]:
    return [[int(token) for token in one.outputs[0].token_ids] for one in outputs]


def _finite(outputs: Any) -> bool:
    return all(
        math.isfinite(entry.logprob)
        for one in outputs
        for step in one.outputs[0].logprobs or ()
        for entry in step.values()
    )
