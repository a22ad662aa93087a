"""Ranks of one model, each in a process of its own that the test starts: workers without an engine around them."""

from __future__ import annotations

import json
import multiprocessing as mp
import traceback
from pathlib import Path
from typing import Any

import attrs

from tests.reference_engine import llama_folder

BLOCKS = 6
"""Blocks of each request; the prompts of these tests fit."""


def write_config(folder: Path, **fields: Any) -> str:
    """Write a folder that has a `config.json` only, so that its weights are drawn, and return its name."""
    folder.mkdir()
    raw = {"architectures": ["LlamaForCausalLM"], **llama_folder.PLAIN, **fields}
    (folder / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    return str(folder)


def start(args: dict[str, Any], rank: int = 0, url: str = "") -> Any:
    """Start one rank's worker up to its cache, and return it."""
    from platforms import current_platform
    from reference_engine.args import EngineArgs
    from reference_engine.engine_config import build_config, run_config_hooks
    from reference_engine.kv_cache import make_kv_cache_config
    from reference_engine.worker_start import start_worker

    config = build_config(EngineArgs(**args), current_platform)
    run_config_hooks(config, current_platform)
    worker = start_worker(config, rank=rank, distributed_init_method=url)
    layout = make_kv_cache_config(config, worker.get_kv_cache_spec(), 1 << 26)
    worker.initialize_from_config(layout)
    return worker


def generate(
    worker: Any, prompts: list[list[int]], steps: int, chunk: int = 1000, lora_ids: tuple[int, ...] = ()
) -> list[tuple[int, ...]]:
    """Prefill in chunks, then decode greedily, all requests in one batch; blocks interleave."""
    from platform_abc.components.worker import StepRequest

    tokens = [list(prompt) for prompt in prompts]
    done = [0] * len(prompts)
    while any(len(now) < len(prompt) + steps for now, prompt in zip(tokens, prompts, strict=True)):
        batch = [
            StepRequest(
                request_id=str(index),
                token_ids=tokens[index][done[index] : done[index] + chunk],
                num_computed_tokens=done[index],
                block_ids=[index + len(prompts) * block for block in range(BLOCKS)],
                lora_id=lora_ids[index] if lora_ids else 0,
            )
            for index in range(len(prompts))
            if len(tokens[index]) < len(prompts[index]) + steps
        ]
        answer = worker.execute_model(batch).next_token_ids
        for request in batch:
            index = int(request.request_id)
            done[index] += len(request.token_ids)
            if done[index] == len(tokens[index]):
                # A rank to which nothing is gathered goes on with what the others would tell it.
                tokens[index].append(answer[request.request_id] if answer else -1)
    return [tuple(now[len(prompt) :]) for now, prompt in zip(tokens, prompts, strict=True)]


@attrs.frozen(kw_only=True)
class Job:
    """One thing that the ranks generate.

    Args:
        prompts: tokens of each prompt.
        steps: new tokens of each.
        args: of `EngineArgs`, the model among them.
        everywhere: logits are gathered on all ranks.
        lora_ids: adapter of each prompt.
    """

    prompts: list[list[int]]
    steps: int
    args: dict[str, Any]
    everywhere: bool = True
    lora_ids: tuple[int, ...] = ()


def _rank(rank: int, size: int, folder: str, jobs: list[Job], answers: Any, tokens: Any) -> None:
    try:
        import torch

        torch.set_num_threads(1)
        found = [
            _generate(rank, size, f"file://{folder}/meet-{number}", job, tokens)
            for number, job in enumerate(jobs)
        ]
        answers.put((rank, found, ""))
    except BaseException:
        answers.put((rank, None, traceback.format_exc()))


def _generate(rank: int, size: int, url: str, job: Job, tokens: Any) -> list[tuple[int, ...]]:
    import platforms
    from platforms.cpu import CpuPlatform

    gathers = classmethod(lambda _cls: job.everywhere)
    vars(platforms)["current_platform"] = type("Gathering", (CpuPlatform,), {"use_all_gather": gathers})()
    args = {"dtype": "float32", "tensor_parallel_size": size, "num_gpu_blocks_override": 64, **job.args}
    worker = start(args, rank, url)
    if not job.everywhere:
        _follow(worker, rank, tokens)
    found = generate(worker, job.prompts, job.steps, lora_ids=job.lora_ids)
    worker.shutdown()
    return found


def _follow(worker: Any, rank: int, tokens: Any) -> None:
    """Hand each step's tokens from the first rank to the others, as an engine does."""
    from platform_abc.components.worker import StepOutput

    run = worker.execute_model

    def step(requests: Any) -> StepOutput:
        answer: StepOutput = run(requests)
        if rank == 0:
            tokens.put(dict(answer.next_token_ids))
            return answer
        assert not answer.next_token_ids, "nothing is gathered to this rank"
        return StepOutput(next_token_ids=tokens.get(timeout=60))

    worker.execute_model = step


def run(size: int, folder: Path, jobs: list[Job]) -> list[list[list[tuple[int, ...]]]]:
    """Return what each of `size` ranks generates, job by job.

    Args:
        size: ranks.
        folder: where they meet.
        jobs: what they do, one after the other.
    """
    context = mp.get_context("spawn")
    answers, tokens = context.Queue(), context.Queue()
    processes = [
        context.Process(target=_rank, args=(rank, size, str(folder), jobs, answers, tokens))
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    try:
        found: dict[int, list[list[tuple[int, ...]]]] = {}
        for _ in processes:
            rank, answer, error = answers.get(timeout=180)
            assert not error, error
            found[rank] = answer
        return [found[rank] for rank in range(size)]
    finally:
        for process in processes:
            process.join(20)
            if process.is_alive():
                process.kill()
