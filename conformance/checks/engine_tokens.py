"""What the engine generates on the platform, against the same model computed plainly from the same weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from conformance.checks._boots import Booted, booted
from conformance.checks.engine import BOOTS, SPREADS, WORKS, of_worker
from conformance.context import CheckContext, short
from conformance.engines.native_tokens import COUNT, PARALLEL, PROMPTS, TOKENS
from conformance.model import Level, Skip, Unsupported
from conformance.numeric.llama import config, first_wrong
from conformance.registry import check

_NEAR: Final[Mapping[str, float]] = {"float32": 0.02, "float16": 1.0, "bfloat16": 6.0}
"""How far the logit of a token may be from the largest one, by dtype; they have a spread of about 11."""

_FEWER_BITS: Final = 10
"""A device may multiply with fewer bits of a float32 than it has."""

_COMPUTED: Final = (
    "attention.batch",
    "attention.layers",
    "attention.reused-blocks",
    "attention.stale-blocks",
    "attention.strides",
    "kernels.ir-ops",
    "kernels.overrides",
)
_NEEDS: Final = (*BOOTS, *WORKS, *_COMPUTED, "engine.in-process")


@check(
    "engine.tokens",
    group="device",
    level=Level.ENGINE,
    engines=("native",),
    needs=_NEEDS,
    where="fresh",
    why="Whoever changes the platform keeps the model: its answers may differ by rounding only.",
    hint="Compare the layers' results with those of the same engine on the CPU, from the first one on.",
)
def tokens(ctx: CheckContext) -> None:
    """The engine generates the model's likeliest tokens, in a batch of eight and one prompt at a time."""
    run = _booted(ctx, TOKENS)
    for how, answers in run.answer["runs"].items():
        _judge(run, how, answers, "The engine generates what the model's weights say.")


@check(
    "engine.block-sizes",
    group="device",
    level=Level.ENGINE,
    engines=("native",),
    needs=(*_NEEDS, "attention.block-sizes", "engine.tokens", "engine.requests"),
    where="fresh",
    why="The block size is a matter of memory, and may not show in an answer.",
    hint="Take the block size from the config that the worker has, once it is chosen.",
)
def block_sizes(ctx: CheckContext) -> None:
    """With any block size that the backend takes the engine generates the same."""
    run = _booted(ctx, TOKENS)
    for size, answers in run.answer["sizes"].items():
        _judge(
            run, f"with blocks of {size} tokens", answers, "The tokens do not depend on the size of a block."
        )


@check(
    "engine.requests",
    group="device",
    level=Level.ENGINE,
    engines=("native",),
    needs=(*_NEEDS, "engine.tokens"),
    where="fresh",
    why="One user's bad request may not end the requests of others.",
    hint="Raise ValueError in validate_request for that request alone, and keep nothing of any request.",
)
def requests(ctx: CheckContext) -> None:
    """In a batch with bad prompts these get their errors, and the others their tokens."""
    run = _booted(ctx, TOKENS)
    answers: Sequence[Any] = run.answer["requests"]
    says = "A request that cannot be served gets its error, and the others of the batch are served."
    for place, bad in ((1, "an empty prompt"), (3, "a token beyond the vocabulary")):
        if not isinstance(answers[place], str):
            raise run.fail(
                "validate_request",
                f"{bad} was answered with {short(answers[place])}",
                "Do not replace the engine's own tests of a prompt.",
                says=says,
            )
    for place, prompt in ((0, PROMPTS[0]), (2, PROMPTS[1]), (4, PROMPTS[2])):
        if isinstance(answers[place], str):
            raise run.fail(
                "validate_request",
                f"beside an empty prompt and one with a token beyond the vocabulary, the prompt {short(prompt)} was "
                f"refused: {short(answers[place], 200)}; alone, earlier in this engine, it was served",
                "Let `validate_request` judge the request that it is given, and keep nothing of any, served or refused: it is not told when "
                "one ends.",
                says=says,
            )
    _judge(run, "beside bad requests", [answers[0], answers[2], answers[4]], says, PROMPTS[:3])


@check(
    "engine.tensor-parallel",
    group="device",
    level=Level.ENGINE,
    engines=("native",),
    needs=(
        *_NEEDS,
        *SPREADS,
        "collectives.all-reduce",
        "collectives.all-gather",
        "collectives.gather",
        "engine.tokens",
    ),
    where="fresh",
    why="A model that needs two devices has to answer as on one.",
    hint="Let each rank take its own device and its own part, and add up by the communicator.",
)
def tensor_parallel(ctx: CheckContext) -> None:
    """Two tensor-parallel ranks generate what one generates."""
    import torch

    ctx.need_device()
    kind: str = ctx.platform.device_type
    if kind != "cpu" and getattr(torch, kind).device_count() < 2:
        raise Skip(f"one {kind} device, two ranks need two", "run the kit on a machine with two devices")
    if not ctx.overridden("stateless_init_device_torch_dist_pg"):
        raise Unsupported("stateless_init_device_torch_dist_pg is left to the base, which only raises")
    run = _booted(ctx, PARALLEL)
    for how, answers in run.answer["runs"].items():
        _judge(run, how, answers, "The tokens do not depend on how many ranks share the model.")


def _booted(ctx: CheckContext, layout: str) -> Booted:
    if ctx.adapter.name != "native":
        raise Unsupported("another engine reads other models")
    return booted(ctx, layout)


def _judge(
    run: Booted, how: str, answers: Sequence[Any], says: str, prompts: Sequence[Sequence[int]] = PROMPTS
) -> None:
    """Judge what was generated for some prompts.

    Raises:
        Violation: a prompt was refused, or a token is not a likely one.
    """
    near = _NEAR.get(str(run.answer["dtype"]), 6.0)
    if run.ctx.platform.device_type != "cpu":
        near *= _FEWER_BITS
    for prompt, got in zip(prompts, answers, strict=True):
        if isinstance(got, str):
            raise of_worker(
                run,
                says=says,
                did=f"{how}, the prompt {short(prompt)} was refused: {short(got, 300)}",
                hint="Let the engine serve an ordinary request.",
            )
        wrong = first_wrong(prompt, got, near, run.answer["head_size"])
        ended = bool(got) and len(got) < COUNT and got[-1] == config()["eos_token_id"]
        if (len(got) != COUNT and not ended) or wrong is not None:
            at = (
                f"token {wrong.place + 1} is {wrong.got}; the likeliest is {wrong.best}, whose logit is larger by "
                f"{wrong.gap:.3g}"
                if wrong
                else f"there are {len(got)} tokens, expected {COUNT}"
            )
            raise of_worker(
                run,
                says=says,
                did=f"{how}, the prompt {short(prompt)} gave {got}: {at}",
                hint="The weights and the components compute rightly by themselves: look at what the worker does with the "
                "model after it is loaded, and with positions, slots and ranks in `execute_model`.",
            )
