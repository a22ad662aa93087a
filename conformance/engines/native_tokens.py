"""Generates on the reference engine from a folder whose weights the kit knows, in several ways."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import attrs

from conformance.engines import user_arguments
from conformance.engines.front_boot import CLOSING
from conformance.engines.hooks_boot import note

TOKENS: Final = "tokens"
PARALLEL: Final = "tensor-parallel"
LAYOUTS: Final = (TOKENS, PARALLEL)
"""What is asked for: one process in several ways, or two ranks."""

PROMPTS: Final = [
    [1, 2, 3],
    [5, 6, 7, 8, 9, 10],
    [4],
    list(range(1, 41)),
    [200, 100],
    list(range(60, 77)),
    [250],
    list(range(100, 133)),
]
"""Eight prompts of several lengths, for a batch of eight."""

COUNT: Final = 8
"""Tokens for each prompt."""

_SIZES: Final = (16, 32, 8, 48, 64)
_SECONDS: Final = 360.0


def drive(layout: str) -> dict[str, Any]:
    """Generate in all ways of a layout.

    Args:
        layout: one of `LAYOUTS`.

    Returns:
        `head_size`: of the model; `runs`: for each way its name in words and the tokens of each prompt, or an error's text; `requests`: what
        a batch with bad prompts gave; `dtype`.
    """
    from conformance.engines.native_boot import layer_of_run
    from conformance.numeric.llama import write_folder

    size = layer_of_run().head_size
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), size)
        return {"head_size": size, **(_tokens(folder) if layout == TOKENS else _parallel(folder))}


def _arguments(folder: str, **more: Any) -> Any:
    from conformance.engines.native_boot import dtype_of_run, layer_of_run
    from reference_engine.args import EngineArgs

    known = {field.name for field in attrs.fields(EngineArgs)}
    asked: dict[str, Any] = {
        "model": folder,
        "dtype": dtype_of_run(layer_of_run()),
        "max_model_len": 128,
        "max_num_seqs": 8,
        "executor": "uni",
    }
    if "hook_timeout" in known:  # a hook that hangs is for the kit to find
        asked["hook_timeout"] = _SECONDS
    if "worker_cls" in user_arguments.given():
        asked["worker_cls"] = user_arguments.given()["worker_cls"]
    return EngineArgs(**{**asked, **more})


def _generate(engine: Any, prompts: list[list[int]]) -> list[Any]:
    from platform_abc.requests import SamplingParams

    results = engine.generate(prompts, SamplingParams(max_tokens=COUNT, temperature=0.0))
    return [one.error or list(one.tokens) for one in results]


def _tokens(folder: str) -> dict[str, Any]:
    from reference_engine.engine import Engine

    runs: dict[str, Any] = {}
    plain = _arguments(folder)
    with Engine(plain) as engine:
        runs["in a batch of eight"] = _generate(engine, PROMPTS)
        runs["one at a time"] = [_generate(engine, [prompt])[0] for prompt in PROMPTS]
        requests = _generate(engine, [PROMPTS[0], [], PROMPTS[1], [100000], PROMPTS[2]])
    sizes: dict[str, Any] = {}
    for size in _sizes():
        with Engine(_arguments(folder, block_size=size)) as engine:
            sizes[str(size)] = _generate(engine, PROMPTS)
    note(CLOSING, "step")
    return {"runs": runs, "sizes": sizes, "requests": requests, "dtype": plain.dtype}


def _sizes() -> list[int]:
    """Two block sizes that the picked backend takes."""
    from conformance.engines.native_boot import layer_of_run
    from platform_abc.config import AttentionSelectorConfig
    from platform_abc.qualname import resolve_obj_by_qualname
    from platforms import current_platform

    layer, taken = layer_of_run(), list[int]()
    for size in _SIZES:
        question = AttentionSelectorConfig(
            head_size=layer.head_size, dtype=layer.torch_dtype, kv_cache_dtype="auto", block_size=size
        )
        try:
            name = current_platform.get_attn_backend_cls(None, attn_selector_config=question, num_heads=4)
            backend: Any = resolve_obj_by_qualname(name)
        except (ValueError, NotImplementedError):
            continue
        if backend.supports_block_size(size):
            taken.append(size)
    return taken[1:3] or taken[:1]


def _parallel(folder: str) -> dict[str, Any]:
    from reference_engine.engine import Engine

    plain = _arguments(folder, executor="mp", tensor_parallel_size=2)
    with Engine(plain) as engine:
        runs = {"on two ranks": _generate(engine, PROMPTS)}
        note(CLOSING, "step")
    return {"runs": runs, "dtype": plain.dtype}
