"""The worker that the config names, driven as an engine drives it, with a small model of the kit's own."""

from __future__ import annotations

import gc
import inspect
import itertools
import re
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from conformance.checks import _configs
from conformance.checks.engine import BOOTS
from conformance.context import CheckContext, describe, is_a, kind_of, short
from conformance.model import Level, NotRun, Unsupported, Violation
from conformance.numeric.attention_run import part_fails
from conformance.numeric.worker_model import LAYERS, Weights, builder, logits_of, weights_of
from conformance.places import quoted
from conformance.registry import check

_FIELD: Final = "parallel_config.worker_cls"
_BLOCKS: Final = 24
_STEPS: Final = 5
_NEEDS: Final = (*BOOTS, "attention.runs")
STARTED: Final = (*_NEEDS, "worker.start")
_MAY_CHANGE: Final = ("compilation_config.static_forward_context", "cache_config.num_gpu_blocks")
"""What a worker writes into the live config: the layers of its model, and the size of its cache."""
_NOT_SUPPORTED: Final = re.compile(r"\bdoes not support (\w+); to make it work")
_NEAR: Final[Mapping[str, float]] = {"float32": 2e-2, "float16": 0.3, "bfloat16": 1.5}
"""Logits as near to the largest one are as good, by dtype; they have a spread of about 8."""


@attrs.define
class Driver:
    """A worker, and the requests that it runs.

    Args:
        ctx: of the check.
        worker: the instance.
        config: that it was made with.
        made: the models that it built.
    """

    ctx: CheckContext
    worker: Any
    config: Any
    made: list[Any]

    @property
    def weights(self) -> Weights:
        """The weights of the model."""
        return weights_of(self.config)

    def longer_than(self, tokens: int) -> int:
        """A number of tokens that is larger, where the model takes so many with what it generates."""
        longest: int = self.config.model_config.max_model_len
        return min(tokens + 3, longest - 2 * _STEPS)

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the worker.

        Raises:
            Violation: it raises.
        """
        cls: type = self.worker.__class__
        return _called(self.ctx, cls, method, lambda: getattr(self.worker, method)(*args))

    def fail(self, method: str, says: str, did: str, hint: str) -> Violation:
        """A violation that names a method of the worker."""
        cls: type = self.worker.__class__
        return _fails(self.ctx, cls, method, says, did, hint)

    def allocate(self) -> None:
        """Give the worker a cache of its own layout."""
        from platform_abc.components.kv_cache import KVCacheConfig, KVCacheGroup, KVCacheTensor

        specs: Mapping[str, Any] = self.call("get_kv_cache_spec")
        groups = [KVCacheGroup(layer_names=tuple(specs), kv_cache_spec=next(iter(specs.values())))]
        tensors = [
            KVCacheTensor(size=spec.page_size_bytes * _BLOCKS, shared_by=(name,))
            for name, spec in specs.items()
        ]
        layout = KVCacheConfig(num_blocks=_BLOCKS, kv_cache_tensors=tensors, kv_cache_groups=groups)
        self.call("initialize_from_config", layout)
        self.call("compile_or_warm_up_model")

    def step(self, shares: Sequence[tuple[str, Sequence[int], int, Sequence[int]]]) -> Mapping[str, int]:
        """Run a step of `(name, new tokens, tokens before, blocks)`, and return the next token of each.

        Raises:
            Violation: it gave something else.
        """
        from platform_abc.components.worker import StepRequest

        # No request has more blocks than the longest one needs, by which builders size their memory.
        most = -(-self.config.model_config.max_model_len // self.config.cache_config.block_size)
        requests = [
            StepRequest(request_id=name, token_ids=new, num_computed_tokens=past, block_ids=blocks[:most])
            for name, new, past, blocks in shares
        ]
        output = self.call("execute_model", requests)
        found: Any = getattr(output, "next_token_ids", None)
        names = [one.request_id for one in requests]
        if not is_a(found, Mapping) or sorted(map(str, found)) != sorted(names):
            raise self.fail(
                "execute_model",
                "`execute_model` gives a StepOutput with the next token of each request of the step, by its name.",
                f"for the requests {', '.join(names)} it gave {kind_of(found if found is not None else output)}",
                "Return `StepOutput(next_token_ids={request.request_id: token, …})` for all requests of the step.",
            )
        vocabulary = self.config.model_config.get_vocab_size()
        for name, token in found.items():
            if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < vocabulary:
                raise self.fail(
                    "execute_model",
                    "A next token is a whole number below the size of the vocabulary.",
                    f"for the request {name!r} it gave {kind_of(token)}; the vocabulary has {vocabulary}",
                    "Return the index of the largest of the last token's logits, as an int.",
                )
        return {str(name): int(token) for name, token in found.items()}

    def judge(
        self,
        name: str,
        tokens: Sequence[int],
        got: int,
        when: str,
        *,
        says: str = "",
        hint: str = "",
        method: str = "execute_model",
    ) -> None:
        """Judge the token that follows some others.

        Raises:
            Violation: it is not the likeliest.
        """
        logits = logits_of(self.weights, tokens)
        dtype = str(self.config.model_config.dtype).removeprefix("torch.")
        best = int(logits.argmax())
        if float(logits[best] - logits[got]) <= _NEAR.get(dtype, 1.5):
            return
        raise self.fail(
            method,
            says
            or "The next token is the likeliest one after all tokens of the request, those of earlier steps included.",
            f"{when}, request {name!r} of {len(tokens)} tokens got {got}, expected {best}, whose logit is larger by "
            f"{float(logits[best] - logits[got]):.3g}{self._looks(tokens, got)}",
            hint
            or "Compute positions from `num_computed_tokens`, slots from `block_ids`, and take the logits of each request's "
            "last token of the step; return what this step computed, unchanged and under its own request's name.",
        )

    def _looks(self, tokens: Sequence[int], got: int) -> str:
        logits = logits_of(self.weights, tokens[:-1]) if len(tokens) > 1 else None
        if logits is not None and int(logits.argmax()) == got:
            return "; it looks as if the last token had not been seen"
        if int(logits_of(self.weights, tokens).argmin()) == got:
            return "; that is the least likely one"
        if int(logits_of(self.weights, tokens[-1:]).argmax()) == got:
            return "; it looks as if the last token had been the only one"
        return ""


def _fails(
    ctx: CheckContext, cls: type, method: str, says: str, did: str, hint: str, place: str = ""
) -> Violation:
    return part_fails(ctx, _FIELD, cls, method, says=says, did=did, hint=hint, place=place)


def _called(ctx: CheckContext, cls: type, method: str, call: Any) -> Any:
    try:
        with ctx.adapter.active(ctx.platform):
            return call()
    except (Exception, SystemExit) as error:
        place = ctx.blame(error)
        told = _NOT_SUPPORTED.search(str(error)) if isinstance(error, NotImplementedError) else None
        if told and told[1] in ctx.adapter.members():
            raise ctx.fail(
                told[1],
                contract_says="What a worker of one rank asks the platform for in every run is there.",
                platform_did=f"`{method}` of {cls.__name__} called `{told[1]}`, which only raises: {describe(error)}",
                hint=f"Define `{told[1]}` in {ctx.platform_cls.__name__}: every run calls it.",
                location=ctx.locate(),
            ) from error
        raise _fails(
            ctx,
            cls,
            method,
            "A worker of one rank starts, loads the model that it is given, and runs its steps.",
            f"`{method}` raised {describe(error)}{quoted(place)}",
            f"Correct that line, so that `{method}` returns for a plain config.",
            place,
        ) from error


def config_of(ctx: CheckContext) -> Any:
    """The plain config, as the hooks leave it, of a model whose layers the picked backend serves."""
    ctx.fitted.fit(ctx.platform, by_backend=True)
    try:
        config = _configs.ran(ctx).config
    except _configs.Refused as refused:
        raise NotRun(f"{refused}, see config.plain") from refused
    import torch

    if config.model_config is None or not isinstance(config.model_config.dtype, torch.dtype):
        raise Unsupported("the config hooks leave no model with a dtype")
    return config


def worker_of(ctx: CheckContext, config: Any) -> Driver:
    """Make the worker, and start it up to its loaded model."""
    ctx.need_device()
    name = ctx.adapter.worker_cls_field(config)
    try:
        with ctx.adapter.active(ctx.platform):
            cls: Any = name if isinstance(name, type) else ctx.adapter.resolve(name)
    except Exception as error:
        raise NotRun(f"{name} does not import, see config.worker-cls-importable") from error
    made: list[Any] = []
    worker = _called(
        ctx,
        cls,
        "__init__",
        lambda: cls(
            vllm_config=config, local_rank=0, rank=0, distributed_init_method="", is_driver_worker=True
        ),
    )
    driver = Driver(ctx, worker, config, made)
    driver.call("init_device")
    driver.call("load_model", builder(ctx, made))
    if not made:
        raise Unsupported(f"{cls.__name__}.load_model builds a model of its own")
    _called(ctx, cls, "load_model", lambda: ctx.platform.update_block_size_for_backend(config))
    return driver


@check(
    "worker.start",
    group="device",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=_NEEDS,
    why="An engine makes a worker a rank, and asks it for its layers before it plans the cache.",
    hint="Follow the order of WorkerBase: init_device, load_model with the builder that is given, get_kv_cache_spec.",
)
def start(ctx: CheckContext) -> None:
    """The worker starts, loads the model that it is given, and tells what its layers store."""
    driver = worker_of(ctx, config_of(ctx))
    specs: Any = driver.call("get_kv_cache_spec")
    if not is_a(specs, Mapping) or sorted(map(str, specs)) != sorted(LAYERS):
        raise driver.fail(
            "get_kv_cache_spec",
            "`get_kv_cache_spec` gives what each layer of the model stores, by the layer's name.",
            f"for a model with the layers {', '.join(LAYERS)} it gave {kind_of(specs)}",
            "Ask each of `model.layers()` for `get_kv_cache_spec(vllm_config)`.",
        )
    driver.call("check_health")
    driver.call("shutdown")


@check(
    "worker.config-kept",
    group="device",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=STARTED,
    why="The config is shared by all parts of an engine: what loading a model writes there, the next one reads.",
    hint="Work on a copy of the config (`copy.deepcopy`) where a loader wants another one.",
)
def config_kept(ctx: CheckContext) -> None:
    """Starting and loading leave the live config as it is, but for the layers that they enter."""
    config = config_of(ctx)
    before = dict(ctx.adapter.snapshot(config))
    changes: dict[str, tuple[Any, Any]] = {}
    worker = _started_without_blocks(ctx, config)
    changes = {
        name: pair
        for name, pair in _configs.differences(before, dict(ctx.adapter.snapshot(config))).items()
        if not name.startswith(_MAY_CHANGE)
    }
    if changes:
        raise worker.fail(
            "load_model",
            "`init_device` and `load_model` change nothing in the config that they are given, but enter the model's "
            "layers in `compilation_config.static_forward_context`.",
            f"after them the config differs: {_configs.spelled(changes)}",
            "Work on a whole copy of the config, `copy.deepcopy(self.vllm_config)`, where loading needs other values.",
        )


def _started_without_blocks(ctx: CheckContext, config: Any) -> Driver:
    """Start the worker, without the hook that chooses the block size."""
    held = config.cache_config.block_size
    driver = worker_of(ctx, config)
    config.cache_config.block_size = held
    return driver


@check(
    "worker.memory",
    group="device",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*STARTED, "device.memory", "attention.cache-slots", "attention.strides"),
    why="The engine divides the answer by the size of a block, and allocates so many.",
    hint="Return what is left of gpu_memory_utilization of the device's memory, in bytes.",
)
def memory(ctx: CheckContext) -> None:
    """`determine_available_memory` gives bytes, no more than the engine may fill, and honours the user's number."""
    config = config_of(ctx)
    driver = worker_of(ctx, config)
    says = "`determine_available_memory` gives a positive number of bytes, within the share that the engine may fill."
    hint = "Return an int: the device's memory times `gpu_memory_utilization`, less what is in use and what a step takes."
    answer = driver.call("determine_available_memory")
    if not isinstance(answer, int) or isinstance(answer, bool) or answer <= 0:
        raise driver.fail("determine_available_memory", says, f"it gave {kind_of(answer)}", hint)
    total: int = ctx.ask(
        "get_device_total_memory",
        0,
        contract_says="`get_device_total_memory(0)` gives bytes.",
        hint="Return bytes.",
    )
    most = total * config.cache_config.gpu_memory_utilization
    page = min(spec.page_size_bytes for spec in driver.call("get_kv_cache_spec").values())
    if answer > most or answer < page:
        raise driver.fail(
            "determine_available_memory",
            says,
            f"it gave {answer} bytes; the device has {total}, of which the engine may fill "
            f"{config.cache_config.gpu_memory_utilization:.0%}, and a block of one layer takes {page}",
            hint,
        )
    _judge_share(driver, total)
    pages = sum(spec.page_size_bytes for spec in driver.call("get_kv_cache_spec").values())
    asked = 3 * pages + 7
    config.cache_config.kv_cache_memory_bytes = asked
    answer = driver.call("determine_available_memory")
    # The rest is no whole block, and nothing is lost with it.
    if not isinstance(answer, int) or not 3 * pages <= answer <= asked:
        raise driver.fail(
            "determine_available_memory",
            "Where the user sets `cache_config.kv_cache_memory_bytes`, `determine_available_memory` gives that number, or the "
            "whole blocks of it.",
            f"with kv_cache_memory_bytes {asked} it gave {kind_of(answer)}",
            "Return `cache_config.kv_cache_memory_bytes` at once where it is not None.",
        )


def _judge_share(driver: Driver, total: int) -> None:
    """Ask again with a smaller share of the memory.

    Raises:
        Violation: the answer is larger than the share.
    """
    cache = driver.config.cache_config
    before = cache.gpu_memory_utilization
    for share in (before / 2, before / 16):
        cache.gpu_memory_utilization = share
        try:
            with driver.ctx.adapter.active(driver.ctx.platform):
                answer: object = driver.worker.determine_available_memory()
        except Exception as error:  # so much is in use already
            driver.ctx.details[f"share {share:g}"] = describe(error)
            continue
        finally:
            cache.gpu_memory_utilization = before
        if isinstance(answer, int) and answer > total * share:
            raise driver.fail(
                "determine_available_memory",
                "`determine_available_memory` gives no more than `cache_config.gpu_memory_utilization` of the device's memory.",
                f"with gpu_memory_utilization {share:g} it gave {answer} of {total} bytes, {answer / total:.0%}",
                "Multiply the device's memory by `cache_config.gpu_memory_utilization` as it is in the config.",
            )


@check(
    "worker.steps",
    group="device",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*STARTED, "attention.batch", "attention.layers", "attention.reused-blocks", "attention.strides"),
    why="All that an engine generates comes from these steps.",
    hint="Give each token its position and its slot, and each request the logits of its last token.",
)
def steps(ctx: CheckContext) -> None:
    """Prefills and decode steps of a batch give the likeliest token of each request."""
    driver = worker_of(ctx, config_of(ctx))
    driver.allocate()
    size: int = driver.config.cache_config.block_size
    texts = {"a": [5, 9, 2], "b": [(7 * i + 3) % 250 for i in range(driver.longer_than(size))], "c": [17]}
    spare = iter([7, 2, 9, 4, 12, 1, 10, 5, 3, 15])
    blocks = {
        name: [next(spare) for _ in range(-(-(len(text) + _STEPS) // size))] for name, text in texts.items()
    }
    got = driver.step([(name, text, 0, blocks[name]) for name, text in texts.items()])
    for number in range(_STEPS):
        for name, text in texts.items():
            driver.judge(
                name, text, got[name], "in the prefill" if not number else f"in decode step {number}"
            )
            text.append(got[name])
        order = list(texts) if number % 2 else list(texts)[::-1]
        got = driver.step([(name, texts[name][-1:], len(texts[name]) - 1, blocks[name]) for name in order])
    crowd = {f"r{number}": [3 + 5 * number, 1 + number][: 1 + number % 2] for number in range(19)}
    got = driver.step([(name, text, 0, [22 - place]) for place, (name, text) in enumerate(crowd.items())])
    for name, text in crowd.items():
        driver.judge(name, text, got[name], f"in a step of {len(crowd)} requests")


@check(
    "worker.chunks",
    group="device",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*STARTED, "attention.batch", "worker.steps"),
    why="A long prompt comes in chunks, beside requests that generate; its answer may not depend on where it is cut.",
    hint="Count positions and slots of a chunk from num_computed_tokens on.",
)
def chunks(ctx: CheckContext) -> None:
    """A prompt in chunks, mixed with other requests, gives the token that the whole prompt gives."""
    driver = worker_of(ctx, config_of(ctx))
    driver.allocate()
    size: int = driver.config.cache_config.block_size
    long = [(11 * i + 1) % 250 for i in range(driver.longer_than(2 * size))]
    table = [6, 14, 2, *range(15, 23)][: -(-(len(long) + 1) // size)]
    other, beside = [3, 4], [0]
    got: Mapping[str, int] = {}
    middle = min(size, len(long) - 3)
    cuts = [0, 2, middle, middle + 1, len(long)]
    for begin, end in itertools.pairwise(cuts):
        shares = [
            ("long", long[begin:end], begin, table),
            ("other", other[-2:] if not begin else other[-1:], 0, beside),
        ]
        if begin:
            shares[1] = ("other", other[-1:], len(other) - 1, beside)
        got = driver.step(shares if end % 2 else shares[::-1])
        driver.judge("other", other, got["other"], f"beside the chunk of tokens {begin} to {end}")
        other.append(got["other"])
    driver.judge("long", long, got["long"], f"after its prompt in chunks that end at {short(cuts[1:])}")


@check(
    "worker.shutdown",
    group="device",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*STARTED, "attention.batch", "worker.steps"),
    why="Whoever closes one engine and starts another in the same process needs the memory of the first.",
    hint="Drop the model, the caches and the communicator in shutdown.",
)
def shutdown(ctx: CheckContext) -> None:
    """After `shutdown` nothing holds the model, its layers leave the config, and a second worker starts."""
    from platform_abc.components.worker import WorkerBase

    config = config_of(ctx)
    driver = worker_of(ctx, config)
    if driver.worker.__class__.shutdown is WorkerBase.shutdown:
        raise Unsupported("shutdown is left to the base, which does nothing")
    driver.allocate()
    driver.step([("a", [5, 9, 2], 0, [1])])
    model = weakref.ref(driver.made.pop())
    driver.call("shutdown")
    says = "After `shutdown` the worker holds neither the model nor its caches, and none of its layers is in the config."
    held = [name for name in LAYERS if name in config.compilation_config.static_forward_context]
    if held:
        raise driver.fail(
            "shutdown",
            says,
            f"`static_forward_context` still has {', '.join(held)}",
            "Remove the model's layers from `compilation_config.static_forward_context` in `shutdown`.",
        )
    gc.collect()
    if model() is not None:
        keepers = [type(one).__name__ for one in gc.get_referrers(model()) if not inspect.isframe(one)]
        raise driver.fail(
            "shutdown",
            says,
            f"the model is still held, by {short(sorted(set(keepers)))}",
            "Set every attribute that holds the model or a part of it to None in `shutdown`.",
        )
    again = worker_of(ctx, config)
    again.allocate()
    again.judge(
        "a", [5, 9, 2], again.step([("a", [5, 9, 2], 0, [1])])["a"], "on a second worker after a shutdown"
    )
    again.call("shutdown")
