"""Facts of the graph wrappers: what is captured, what is replayed, and on which inputs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import attrs
import pytest

pytest.importorskip("torch")
import torch

from platform_abc.components.attention import AttentionMetadata
from platform_abc.components.graph import BatchDescriptor, current_graph_step, graph_step
from platform_abc.config import CUDAGraphMode, EngineConfig
from platforms.components import cuda_graph
from platforms.components.cuda_graph import CudaGraphWrapper
from platforms.components.eager_graph import EagerGraphWrapper

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE


class FakeGraph:
    """Runs again what was captured, on the memory it was captured with, into the memory of its answer."""

    def __init__(self, run: Callable[[], Any], output: Any) -> None:
        self.run, self.output = run, output

    def replay(self) -> None:
        fill(self.output, self.run())


def fill(into: Any, values: Any) -> None:
    if isinstance(into, torch.Tensor):
        into.copy_(values)
    elif isinstance(into, dict):
        for name in into:
            fill(into[name], values[name])
    elif isinstance(into, list | tuple):
        for mine, new in zip(into, values, strict=True):
            fill(mine, new)


class FakeDevice:
    """A host that plays a device with graphs: what is captured is not run, so the answer comes by a replay."""

    device_type = "cpu"

    def __init__(self) -> None:
        self.pools: list[object] = []
        self.runs = 0

    def warm_up(self, run: Callable[[], Any]) -> Any:
        return run()

    def capture(self, run: Callable[[], Any], pool: object) -> tuple[FakeGraph, Any]:
        self.pools.append(pool)
        output = run()
        poison(output)
        return FakeGraph(run, output), output

    def without_owner(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor


def poison(output: Any) -> None:
    if isinstance(output, torch.Tensor):
        output.fill_(-99)
    else:
        for part in output.values() if isinstance(output, dict) else output or ():
            poison(part)


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


def wrapped(run: Callable[..., Any], device: FakeDevice, **options: Any) -> CudaGraphWrapper:
    return CudaGraphWrapper(
        run, vllm_config=EngineConfig(), runtime_mode=FULL, graph_pool="pool", device=device, **options
    )


@attrs.frozen(kw_only=True, eq=False)
class Metadata(AttentionMetadata):
    replayable: ClassVar[bool] = True

    lengths: torch.Tensor
    longest: int
    _hidden: int = 3


@attrs.frozen(kw_only=True, eq=False)
class HostMetadata(AttentionMetadata):
    lengths: list[int]


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def test_a_replay_uses_the_inputs_of_its_call(device: FakeDevice) -> None:
    """Fresh tensors in every place that an argument may have; earlier answers keep their values."""

    def step(ids: torch.Tensor, metadata: dict[str, Any], *, pair: Pair, more: list[torch.Tensor]) -> Any:
        both = metadata["a"].lengths + metadata["b"].lengths
        return {"sum": ids + both * metadata["a"].longest + pair.first - pair.second + more[0], "none": None}

    graphs = wrapped(step, device)
    answers = []
    for turn in range(4):
        made = Metadata(lengths=torch.full((3,), turn), longest=5)
        arguments: dict[str, Any] = {
            "pair": Pair(torch.full((3,), 7 * turn), torch.full((3,), turn)),
            "more": [torch.full((3,), 100 * turn)],
        }
        call = (torch.arange(3) + turn, {"a": made, "b": made})
        with graph_step(FULL, BatchDescriptor(3)):
            answers.append((graphs(*call, **arguments), step(*call, **arguments)))
    assert graphs.num_graphs == 1
    assert device.pools == ["pool"]
    for got, expected in answers:
        assert torch.equal(got["sum"], expected["sum"])
        assert got["none"] is None


def test_each_shape_and_number_has_a_graph_of_its_own(device: FakeDevice) -> None:
    """A number is baked into a graph, so another one is never answered by it; nor another dtype."""
    graphs = wrapped(lambda x, factor: x * factor, device)
    for _ in range(2):
        for x, factor in (
            (torch.ones(2), 2),
            (torch.ones(2), 3),
            (torch.ones(3), 2),
            (torch.ones(2, dtype=torch.int64), 2),
            (torch.ones(2), 2.0),
        ):
            with graph_step(FULL, BatchDescriptor(2)):
                assert torch.equal(graphs(x, factor), x * factor)
    assert graphs.num_graphs == 5
    with graph_step(FULL, BatchDescriptor(2, has_lora=True)):
        graphs(torch.ones(2), 2)
    assert graphs.num_graphs == 6


@pytest.mark.parametrize("mode", [None, NONE, PIECEWISE])
def test_other_steps_run_the_callable(mode: CUDAGraphMode | None, device: FakeDevice) -> None:
    """Outside of a step, in one without graphs, and in one of the other kind."""
    graphs, x = wrapped(lambda given: given, device), torch.ones(2)
    if mode is None:
        assert current_graph_step() is None
        assert graphs(x) is x
    else:
        with graph_step(mode, BatchDescriptor(2)) as step:
            assert current_graph_step() is step
            assert graphs(x) is x
    assert graphs.num_graphs == 0
    assert graphs.unwrap()(x) is x


def test_what_stays_in_its_place_is_not_copied(device: FakeDevice) -> None:
    """The graph writes into the cache itself; a cache elsewhere has another graph."""

    def step(x: torch.Tensor, caches: dict[str, torch.Tensor]) -> torch.Tensor:
        caches["layer"][0] = x
        return caches["layer"] * 2

    graphs = wrapped(step, device, persistent=("caches",))
    caches = [torch.zeros(2), torch.zeros(2)]
    for turn in range(3):
        for cache in caches:
            with graph_step(FULL, BatchDescriptor(1)):
                answer = graphs(torch.tensor(float(turn + 1)), {"layer": cache})
            assert cache.tolist() == [turn + 1, 0]
            assert answer.tolist() == [2 * (turn + 1), 0]
    assert graphs.num_graphs == 2
    with pytest.raises(ValueError, match="step has no \\['kv'\\]"):
        wrapped(step, device, persistent=("kv",))


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        (HostMetadata(lengths=[1]), "0 is HostMetadata, which is not replayable"),
        ({"deep": [object()]}, "0.deep.0 is object, which no graph can follow"),
        (torch.ones(2, device="meta"), "lies on meta"),
    ],
)
def test_what_a_graph_cannot_follow_runs_without_one(
    argument: object, reason: str, device: FakeDevice, caplog: pytest.LogCaptureFixture
) -> None:
    """Never replayed stale: the callable runs, and one line says why."""
    seen: list[object] = []
    graphs = wrapped(seen.append, device)
    with caplog.at_level(logging.WARNING), graph_step(FULL, BatchDescriptor(2)):
        graphs(argument)
        graphs(argument)
    assert seen == [argument, argument]
    assert graphs.num_graphs == 0
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("a step runs without its graph: ")
    assert line.endswith(reason)


def test_an_answer_that_cannot_be_copied_is_given_as_it_is(device: FakeDevice) -> None:
    """There is no graph of such a step, now or later."""
    answer = object()
    graphs = wrapped(lambda _x: answer, device)
    for _ in range(2):
        with graph_step(FULL, BatchDescriptor(2)):
            assert graphs(torch.ones(2)) is answer
    assert graphs.num_graphs == 0


def test_there_is_an_end_to_graphs(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes beyond the limit run without one, correctly."""
    monkeypatch.setattr(cuda_graph, "MOST_GRAPHS", 2)
    graphs = wrapped(lambda x: x + 1, device)
    for size in (1, 2, 3, 4, 1):
        with graph_step(FULL, BatchDescriptor(size)):
            assert graphs(torch.zeros(size)).tolist() == [1] * size
    assert graphs.num_graphs == 2


def test_a_capture_that_fails_says_of_what(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the device gets a note with the shape of the step."""

    def refuse(_run: object, _pool: object) -> Any:
        raise RuntimeError("operation not permitted")

    monkeypatch.setattr(device, "capture", refuse)
    with graph_step(FULL, BatchDescriptor(2)), pytest.raises(RuntimeError, match="not permitted") as caught:
        wrapped(lambda x: x, device)(torch.ones(2))
    assert "BatchDescriptor(num_tokens=2" in caught.value.__notes__[0]


@pytest.mark.parametrize("cls", [CudaGraphWrapper, EagerGraphWrapper])
@pytest.mark.parametrize("mode", [NONE, CUDAGraphMode.FULL_AND_PIECEWISE])
def test_a_wrapper_answers_to_one_concrete_mode(cls: type[Any], mode: CUDAGraphMode) -> None:
    """No graph is captured as none, or as two kinds."""
    with pytest.raises(ValueError, match=f"not as {mode.name}"):
        cls(len, vllm_config=EngineConfig(), runtime_mode=mode)


def test_on_the_host_every_step_runs_as_it_is() -> None:
    """The wrapper of the CPU captures nothing: the callable gets the very arguments, in every step."""
    seen: list[object] = []
    graphs = EagerGraphWrapper(
        lambda *args, **kwargs: seen.append((args, kwargs)), vllm_config=EngineConfig(), runtime_mode=FULL
    )
    x = torch.ones(1)
    with graph_step(FULL, BatchDescriptor(1)):
        graphs(x, name=x)
        graphs(x)
    assert seen[0] == ((x,), {"name": x})
    assert len(seen) == 2
