"""Decode steps of the reference engine beside transformers' `generate`, on the same weights, in one process.

`python -m benchmarks.decode` prints one line of JSON: milliseconds for each step of a batch, and what the
platform layer takes of a step.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
import transformers

from platform_abc.members import MEMBERS
from platform_abc.requests import SamplingParams
from reference_engine.args import EngineArgs
from reference_engine.engine import Engine

WIDTH, LAYERS, VOCABULARY = 512, 8, 32_000
PROMPT, STEPS, ROUNDS = 16, 64, 7
BATCHES: Final = (1, 8)
REPLAYS: Final = 200


def make_folder(folder: Path) -> Any:
    """Write a Llama with seeded weights, far enough apart to decide every token, and return transformers' model."""
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=1376,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=1024,
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    model: Any = transformers.LlamaForCausalLM(config)
    model = model.float().eval()
    model.save_pretrained(folder)
    return model


def prompts(batch: int) -> list[list[int]]:
    """Different prompts of one length, so that neither side pads."""
    return [[(7 * place + 3 * row) % VOCABULARY for place in range(PROMPT)] for row in range(batch)]


def step_ms(sides: Sequence[Callable[[int], Any]]) -> list[float]:
    """What one more token costs each side: a run of many tokens less a run of one, in ms, the fastest of several.

    The sides take turns, so that a while in which the machine is busy slows down both.
    """
    best = [{1: float("inf"), STEPS + 1: float("inf")} for _ in sides]
    for _ in range(ROUNDS):
        for generate, fastest in zip(sides, best, strict=True):
            for tokens in fastest:
                started = time.perf_counter()
                generate(tokens)
                fastest[tokens] = min(fastest[tokens], time.perf_counter() - started)
    return [(fastest[STEPS + 1] - fastest[1]) / STEPS * 1e3 for fastest in best]


def compare(engine: Engine, model: Any, batch: int) -> dict[str, float]:
    """Time both sides in turns, after both have generated the same tokens.

    Raises:
        RuntimeError: they have not.
    """
    given = prompts(batch)
    ids = torch.tensor(given)

    def theirs(tokens: int) -> Any:
        with torch.inference_mode():
            return model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=tokens,
                do_sample=False,
                pad_token_id=0,
            )[:, PROMPT:].tolist()

    def ours(tokens: int) -> Any:
        return [list(one.tokens) for one in engine.generate(given, SamplingParams(max_tokens=tokens))]

    if (left := ours(STEPS)) != (right := theirs(STEPS)):
        raise RuntimeError(f"the tokens differ for batch {batch}: {left} and {right}")
    own, other = step_ms((ours, theirs))
    return {"ours": own, "theirs": other}


Asked = tuple[str, tuple[object, ...] | None, dict[str, object]]
"""A member, and the arguments where it was called."""


@contextmanager
def reads_noted(platform: object) -> Iterator[list[Asked]]:
    """Note every read of a member of the platform, and the arguments where it is called."""
    plain = type(platform)
    seen: list[Asked] = []
    inside = False

    def read(self: object, name: str) -> object:
        nonlocal inside
        value: Any = object.__getattribute__(self, name)
        if name.startswith("__") or inside or name not in MEMBERS:
            return value
        if not callable(value) or isinstance(value, type):
            seen.append((name, None, {}))
            return value

        def call(*args: object, **kwargs: object) -> object:
            nonlocal inside
            seen.append((name, args, kwargs))
            inside = True
            try:
                return value(*args, **kwargs)
            finally:
                inside = False

        return call

    platform.__class__ = type(plain.__name__, (plain,), {"__getattribute__": read})
    try:
        yield seen
    finally:
        platform.__class__ = plain


def layer_ms(engine: Engine, batch: int) -> tuple[float, list[str]]:
    """What the platform's own members take of one decode step, in ms, and their names in order.

    What one step asks of the platform is noted once, then asked again many times without anything else.
    """
    from platforms import current_platform

    counts: dict[int, list[Asked]] = {}
    for tokens in (STEPS, STEPS + 1):
        with reads_noted(current_platform) as seen:
            engine.generate(prompts(batch), SamplingParams(max_tokens=tokens))
        counts[tokens] = list(seen)
    more = len(counts[STEPS + 1]) - len(counts[STEPS])
    step = counts[STEPS + 1][-more:] if more else []
    started = time.perf_counter()
    for _ in range(REPLAYS):
        for name, args, kwargs in step:
            value = getattr(current_platform, name)
            if args is not None:
                value(*args, **kwargs)
    return (time.perf_counter() - started) / REPLAYS * 1e3, [name for name, _, _ in step]


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = make_folder(folder)
        told: dict[str, Any] = {"threads": torch.get_num_threads(), "transformers": transformers.__version__}
        with Engine(EngineArgs(model=str(folder), dtype="float32", num_gpu_blocks_override=256)) as engine:
            for batch in BATCHES:
                told[str(batch)] = compare(engine, model, batch)
                layer, names = layer_ms(engine, batch)
                told[str(batch)] |= {"layer": layer, "members": names}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
