"""Facts of `platforms.components.worker`: the whole way of a worker on the CPU, alone and in a pair."""

from __future__ import annotations

import multiprocessing as mp
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch

import platforms
from platform_abc.components.kv_cache import DefaultKVCacheConfigBuilder
from platform_abc.components.worker import EngineModel, StepRequest, WorkerBase
from platform_abc.config import (
    CacheConfig,
    EngineConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
)
from platform_abc.errors import ConfigError, NotSupported
from platform_abc.qualname import resolve_obj_by_qualname
from platforms.components import device_memory
from platforms.components.attention import TorchSdpaBackend
from platforms.components.communicator import TorchDistributedCommunicator
from platforms.components.worker import DeviceWorker
from platforms.cpu import CpuPlatform
from reference_model.forward_context import get_forward_context
from reference_model.llama import build_model
from reference_model.opaque_ops import register_ops
from reference_model.parallel import group_of

PROMPTS = {"a": [1, 2, 3, 4, 5, 6, 7], "b": [9], "c": [200, 100, 50]}


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The current platform is the CPU one, whatever machine the tests run on."""
    monkeypatch.setitem(vars(platforms), "current_platform", CpuPlatform())


def config(**parts: Any) -> EngineConfig:
    made = EngineConfig(
        model_config=ModelConfig(
            dtype=torch.float32,
            num_attention_heads=4,
            num_kv_heads=2,
            max_model_len=64,
            **parts.pop("model", {}),
        ),
        cache_config=CacheConfig(kv_cache_memory_bytes=1 << 20, block_size=4),
        scheduler_config=SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=64),
        **parts,
    )
    CpuPlatform.check_and_update_config(made)
    made.validate()
    return made


def load(worker: DeviceWorker) -> None:
    """Load the reference engine's model, whose weights are drawn, for the ranks that the worker knows of."""
    register_ops("CPU")
    worker.load_model(partial(build_model, group=group_of(worker)))


def started(made: EngineConfig, rank: int = 0, url: str = "") -> DeviceWorker:
    worker = DeviceWorker(made, local_rank=rank, rank=rank, distributed_init_method=url)
    worker.init_device()
    load(worker)
    available = worker.determine_available_memory()
    worker.initialize_from_config(
        DefaultKVCacheConfigBuilder(made).build(worker.get_kv_cache_spec(), available)
    )
    worker.compile_or_warm_up_model()
    return worker


def generate(
    worker: DeviceWorker, prompts: dict[str, list[int]], steps: int, chunk: int = 100
) -> dict[str, list[int]]:
    """Prefill in chunks, then decode greedily, all requests in one batch; blocks interleave."""
    tokens = {name: list(prompt) for name, prompt in prompts.items()}
    done = dict.fromkeys(prompts, 0)
    blocks = {name: [i + len(prompts) * j for j in range(5)] for i, name in enumerate(prompts)}
    for _ in range(steps):
        batch = [
            StepRequest(
                request_id=name,
                token_ids=tokens[name][done[name] : done[name] + chunk],
                num_computed_tokens=done[name],
                block_ids=blocks[name],
            )
            for name in prompts
        ]
        output = worker.execute_model(batch)
        for request in batch:
            name = request.request_id
            done[name] += len(request.token_ids)
            if done[name] == len(tokens[name]):
                tokens[name].append(output.next_token_ids[name])
    return {name: tokens[name][len(prompts[name]) :] for name in prompts}


def test_the_platform_names_this_worker() -> None:
    """What the config hook writes leads to this class, which is a worker of the contract."""
    made = config()
    assert resolve_obj_by_qualname(made.parallel_config.worker_cls) is DeviceWorker
    assert issubclass(DeviceWorker, WorkerBase)


def test_a_batch_generates_what_each_request_generates_alone() -> None:
    """Batched greedy tokens equal those of single requests, so cache and metadata do not mix requests up."""
    worker = started(config())
    together = generate(worker, PROMPTS, 6)
    assert all(len(tokens) == 6 for tokens in together.values())
    for name, prompt in PROMPTS.items():
        assert generate(worker, {name: prompt}, 6)[name] == together[name]


def test_chunked_prefill_generates_the_same() -> None:
    """Prefilling two tokens a step ends in the same tokens as prefilling at once."""
    worker = started(config())
    at_once = generate(worker, {"a": PROMPTS["a"]}, 3)["a"]
    assert generate(worker, {"a": PROMPTS["a"]}, 3 + 3, chunk=2)["a"] == at_once


def test_two_workers_of_one_seed_agree_and_another_seed_differs() -> None:
    """Weights come from `model_config.seed` alone."""
    first = generate(started(config()), PROMPTS, 4)
    assert generate(started(config()), PROMPTS, 4) == first
    assert generate(started(config(model={"seed": 1})), PROMPTS, 4) != first


def test_a_sliding_window_reaches_the_kernel() -> None:
    """With a window of one token the far past no longer matters."""
    near = started(config(model={"sliding_window": 1}))
    assert generate(near, {"a": [1, 2, 3, 7]}, 1) == generate(near, {"a": [4, 4, 9, 7]}, 1)


def test_layers_stand_in_the_forward_context_until_shutdown() -> None:
    """The engine finds each layer by name, and a stopped worker leaves none behind."""
    made = config()
    worker = started(made)
    context = made.compilation_config.static_forward_context
    assert list(context) == ["layers.0.attention", "layers.1.attention"]
    worker.shutdown()
    assert not context
    with pytest.raises(RuntimeError, match="init_device"):
        worker.check_health()


def test_available_memory_is_a_share_less_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Total times utilization, less what is in use and what the largest step takes; bounded by the need."""
    made = config()
    made.cache_config.kv_cache_memory_bytes = None
    made.cache_config.gpu_memory_utilization = 0.5
    worker = DeviceWorker(made)
    worker.init_device()
    load(worker)
    monkeypatch.setattr(device_memory, "total_and_used", lambda *_: (200_000, 30_000))
    monkeypatch.setattr(device_memory, "bytes_taken_by", lambda step, device: 20_000 * (step() is not None))
    page = 2 * 4 * 2 * 16 * 4
    need = 2 * 4 * (64 // 4) * page
    assert worker.determine_available_memory() == 50_000 < need
    monkeypatch.setattr(device_memory, "total_and_used", lambda *_: (100_000_000, 0))
    assert worker.determine_available_memory() == need
    monkeypatch.setattr(device_memory, "total_and_used", lambda *_: (1_000_000, 900_000))
    with pytest.raises(ConfigError, match=r"cache_config.gpu_memory_utilization = 0.5"):
        worker.determine_available_memory()


def test_memory_is_really_measured() -> None:
    """A step that allocates shows in the peak, and the device's memory is in use to some part."""
    device = torch.device("cpu")
    assert device_memory.bytes_taken_by(lambda: torch.ones(400 << 20, dtype=torch.uint8), device) > 100 << 20
    total, used = device_memory.total_and_used(CpuPlatform(), 0)
    assert 0 < used < total == CpuPlatform.get_device_total_memory()


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"token_ids": [1], "block_ids": []}, "0 blocks of 4 tokens, too few for 1"),
        ({"token_ids": [], "block_ids": [0]}, "no tokens"),
        ({"token_ids": [1], "block_ids": [9999]}, "expected 0 to"),
        ({"token_ids": [256], "block_ids": [0]}, "tokens from 0 to 255, got 256"),
        ({"token_ids": [-1], "block_ids": [0]}, "got -1"),
    ],
)
def test_a_bad_step_is_refused_before_it_runs(request_: dict[str, Any], message: str) -> None:
    """Missing blocks, blocks and tokens that do not exist: a ValueError that names them."""
    worker = started(config())
    with pytest.raises(ValueError, match=message):
        worker.execute_model([StepRequest(request_id="r", **request_)])


def test_an_adapter_without_a_place_for_it_is_refused() -> None:
    """By request and number."""
    worker = started(config())
    request = StepRequest(request_id="r", token_ids=[1], block_ids=[0], lora_id=3)
    with pytest.raises(ValueError, match="request 'r' asks for adapter 3, but lora_config is None"):
        worker.execute_model([request])


def test_an_empty_step_gives_nothing() -> None:
    """No requests, no tokens."""
    assert started(config()).execute_model([]).next_token_ids == {}


@pytest.mark.parametrize(
    "call",
    [lambda w: w.load_model(), lambda w: w.get_model(), lambda w: w.determine_available_memory()],
)
def test_calls_out_of_order_say_what_comes_first(call: Callable[[DeviceWorker], Any]) -> None:
    """A worker that was not started says which call is missing."""
    made = config()
    made.cache_config.kv_cache_memory_bytes = None
    with pytest.raises(RuntimeError, match=r"call (init_device|load_model) first"):
        call(DeviceWorker(made))


def test_a_worker_has_no_model_of_its_own() -> None:
    """Without the engine's builder nothing is loaded; the text says what to pass."""
    worker = DeviceWorker(config())
    worker.init_device()
    with pytest.raises(NotSupported, match="pass the engine's builder"):
        worker.load_model()


def test_without_a_model_part_the_worker_says_so() -> None:
    """`model_config` is optional in a config, but a worker needs it."""
    made = EngineConfig()
    with pytest.raises(ConfigError, match="model_config = None"):
        DeviceWorker(made).init_device()


def test_the_step_runs_in_inference_mode_with_the_platforms_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step asks the platform for its context and its inference mode."""
    seen: list[object] = []

    class Observed(CpuPlatform):
        @classmethod
        def set_additional_forward_context(cls, **kwargs: Any) -> dict[str, Any]:
            return {"tokens": kwargs["num_tokens"]}

    monkeypatch.setitem(vars(platforms), "current_platform", Observed())
    worker = started(config())
    model: Any = worker.get_model()
    model.embedding.register_forward_hook(
        lambda *_: seen.append((torch.is_inference_mode_enabled(), get_forward_context().additional))
    )
    worker.execute_model([StepRequest(request_id="r", token_ids=[1, 2], block_ids=[0])])
    assert seen == [(True, {"tokens": 2})]


@pytest.mark.parametrize("answer", [None, True, torch.no_grad])
def test_an_inference_mode_that_is_no_context_is_named(
    monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    """Also the class of one instead of an instance; the text says which hook of which platform."""

    class Bare(CpuPlatform):
        @classmethod
        def inference_mode(cls) -> Any:
            return answer

    monkeypatch.setitem(vars(platforms), "current_platform", Bare())
    with pytest.raises(TypeError, match="^inference_mode of Bare returned .*expected a context manager"):
        started(config())


@pytest.mark.parametrize("named", [None, "no_such_module.Communicator"])
def test_a_communicator_that_is_none_is_laid_at_the_pickers_door(
    monkeypatch: pytest.MonkeyPatch, named: object
) -> None:
    """The error says which member has named it."""
    monkeypatch.setattr(CpuPlatform, "get_device_communicator_cls", classmethod(lambda _cls: named))
    with pytest.raises((TypeError, ValueError, ImportError)) as caught:
        DeviceWorker(config()).init_device()
    assert caught.value.__notes__ == ["named by get_device_communicator_cls of CpuPlatform"]


def test_a_platform_without_dtypes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of them is the default, so there must be one."""
    monkeypatch.setattr(CpuPlatform, "supported_dtypes", [])
    monkeypatch.setitem(vars(platforms), "current_platform", CpuPlatform())
    made = config()
    assert made.model_config is not None
    made.model_config.dtype = "auto"
    with pytest.raises(TypeError, match=r"^supported_dtypes of CpuPlatform is \[\]"):
        DeviceWorker(made).init_device()


def _rank(rank: int, url: str, answers: Any) -> None:
    torch.set_num_threads(1)
    try:
        vars(platforms)["current_platform"] = CpuPlatform()
        made = config(parallel_config=ParallelConfig(tensor_parallel_size=2))
        worker = started(made, rank, url)
        answers.put((rank, generate(worker, PROMPTS, 5), ""))
        worker.shutdown()
    except BaseException:
        answers.put((rank, None, traceback.format_exc()))


def test_two_ranks_generate_what_one_generates(tmp_path: Path) -> None:
    """Tensor parallelism cuts the model and adds the parts up again: the tokens are the same."""
    expected = generate(started(config()), PROMPTS, 5)
    context = mp.get_context("spawn")
    answers = context.Queue()
    ranks = [context.Process(target=_rank, args=(r, f"file://{tmp_path}/meet", answers)) for r in range(2)]
    for process in ranks:
        process.start()
    try:
        for _ in ranks:
            _, tokens, error = answers.get(timeout=180)
            assert not error, error
            assert tokens == expected
    finally:
        for process in ranks:
            process.join(20)
            if process.is_alive():
                process.kill()


def test_a_worker_leaves_the_cache_config_alone() -> None:
    """Nothing of it is changed by starting."""
    made = config()
    before = attrs.asdict(made.cache_config)
    started(made)
    assert attrs.asdict(made.cache_config) == before


def test_layout_without_room_is_refused() -> None:
    """A layout that forgets a layer, or gives it too few bytes, is a ValueError that names it."""
    made = config()
    worker = DeviceWorker(made)
    worker.init_device()
    load(worker)
    layout = DefaultKVCacheConfigBuilder(made).build(worker.get_kv_cache_spec(), 1 << 20)
    with pytest.raises(ValueError, match=r"no room for the layers layers.1.attention"):
        worker.initialize_from_config(attrs.evolve(layout, kv_cache_tensors=layout.kv_cache_tensors[:1]))
    small = [attrs.evolve(t, size=8) for t in layout.kv_cache_tensors]
    with pytest.raises(ValueError, match="but its tensor has 8"):
        worker.initialize_from_config(attrs.evolve(layout, kv_cache_tensors=small))


def test_the_engines_own_model_is_run() -> None:
    """What the builder makes, which need be no torch module until somebody asks for one."""
    asked: list[torch.device] = []
    made = config()
    own = started(config())

    def build(given: EngineConfig, device: torch.device) -> EngineModel:
        asked.append(device)
        assert given is made
        return Shifted(own.model)

    worker = DeviceWorker(made)
    worker.init_device()
    worker.load_model(build)
    worker.initialize_from_config(
        DefaultKVCacheConfigBuilder(made).build(worker.get_kv_cache_spec(), 1 << 20)
    )
    assert asked == [torch.device("cpu")]
    step = [StepRequest(request_id="r", token_ids=[1, 2], block_ids=[0])]
    shifted = worker.execute_model(step).next_token_ids["r"]
    assert shifted == (own.execute_model(step).next_token_ids["r"] + 1) % 256
    with pytest.raises(TypeError, match="Shifted"):
        worker.get_model()


class Shifted:
    """A model of an engine: another model, whose answer is moved by one token."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def layers(self) -> Any:
        return self.inner.layers()

    def run(self, *args: Any) -> torch.Tensor:
        moved: torch.Tensor = self.inner.run(*args).roll(1, dims=-1)
        return moved


def test_a_second_start_is_refused_until_shutdown() -> None:
    """The other ranks would wait for it in vain."""
    worker = started(config())
    with pytest.raises(RuntimeError, match="call shutdown before"):
        worker.init_device()
    worker.shutdown()
    worker.init_device()


def test_ranks_that_share_the_host_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks on one host get half each; with a memory node of their own each gets all of it."""
    asked: list[int] = []

    def seen(_: object, visible: int) -> tuple[int, int]:
        asked.append(visible)
        return 100_000, 20_000

    made = config(parallel_config=ParallelConfig(tensor_parallel_size=2))
    made.cache_config.kv_cache_memory_bytes = None
    made.cache_config.gpu_memory_utilization = 0.5
    worker = DeviceWorker(made, local_rank=1, rank=1)
    monkeypatch.setattr(DeviceWorker, "_join", lambda self: Alone())
    monkeypatch.setattr(device_memory, "total_and_used", seen)
    monkeypatch.setattr(device_memory, "bytes_taken_by", lambda step, device: 5_000 * (step() is not None))
    worker.init_device()
    load(worker)
    assert worker.determine_available_memory() == (50_000 - 20_000) // 2 - 5_000
    monkeypatch.setenv("CPU_VISIBLE_MEMORY_NODES", "0,1")
    assert worker.determine_available_memory() == 50_000 - 20_000 - 5_000
    assert asked == [1, 1]


class Alone(TorchDistributedCommunicator):
    """A communicator of the second of two ranks that never meets the first."""

    def __init__(self) -> None:
        self.rank_in_group, self.world_size = 1, 2

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        return input_

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        return input_


def test_a_cache_in_another_order_of_memory_holds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend that says how its cache lies in memory gets it so, in the shape that it named."""
    expected = generate(started(config()), PROMPTS, 4)
    monkeypatch.setattr(TorchSdpaBackend, "get_kv_cache_stride_order", staticmethod(lambda: (1, 0, 3, 2, 4)))
    worker = started(config())
    cache = next(iter(worker.get_kv_caches().values()))
    assert cache.shape[0] == 2
    assert cache.stride()[1] == max(cache.stride())
    assert generate(worker, PROMPTS, 4) == expected
