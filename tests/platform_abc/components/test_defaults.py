"""Facts about the small defaults of the remaining components."""

from __future__ import annotations

import pytest

from platform_abc.components import compile as passes
from platform_abc.components.communicator import DeviceCommunicatorBase
from platform_abc.components.compile import CompilePass, DefaultPassManager, register_pass
from platform_abc.components.graph import StaticGraphWrapper
from platform_abc.components.lora import LoRAMapping, PunicaWrapperBase
from platform_abc.components.worker import StepRequest, WorkerBase
from platform_abc.config import CUDAGraphMode, EngineConfig
from tests.platform_abc.concrete import concrete


class Group:
    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size


def test_ranks_of_a_communicator_are_those_of_its_device_group() -> None:
    """Neighbours wrap around; without a device group the host's counts."""
    made = concrete(DeviceCommunicatorBase)(Group(0, 2), device_group=Group(3, 4))
    assert (made.rank_in_group, made.world_size, made.next_rank(), made.previous_rank()) == (3, 4, 0, 2)
    assert concrete(DeviceCommunicatorBase)(Group(0, 2)).previous_rank() == 1
    made.destroy()


def test_tokens_are_mapped_to_the_slots_of_their_adapters() -> None:
    """Adapter 0 is none; an adapter in no slot, or too many tokens, is an error."""
    wrapper = concrete(PunicaWrapperBase)(4, 2, "cpu", max_loras=2, from_a_later_engine=1)
    mapping = LoRAMapping(index_mapping=[7, 0, 9], prompt_mapping=[9])
    wrapper.update_metadata(mapping, [9, 7], 2, 100)
    assert wrapper.token_slots == (1, -1, 0)
    assert wrapper.prompt_slots == (0,)
    with pytest.raises(ValueError, match=r"adapters \[9\] are in no slot"):
        wrapper.update_metadata(mapping, [None, 7], 2, 100)
    with pytest.raises(ValueError, match="5 tokens in a step"):
        wrapper.update_metadata(LoRAMapping(index_mapping=[0] * 5, prompt_mapping=[]), [], 2, 100)


def test_a_graph_wrapper_answers_to_one_concrete_mode() -> None:
    """A combined mode, or none, cannot be captured."""
    made = concrete(StaticGraphWrapper)(len, EngineConfig(), CUDAGraphMode.FULL, graph_pool=1)
    assert made.unwrap() is len
    assert made.options == {"graph_pool": 1}
    for mode in (CUDAGraphMode.NONE, CUDAGraphMode.FULL_AND_PIECEWISE):
        with pytest.raises(ValueError, match="PIECEWISE or FULL"):
            concrete(StaticGraphWrapper)(len, EngineConfig(), mode)


def test_passes_run_in_the_order_of_registration_if_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default manager asks each maker and runs what it got; configuring again starts anew."""
    monkeypatch.setattr(passes, "_registered", {})

    class Append(CompilePass):
        def __init__(self, item: str) -> None:
            self.item = item

        def __call__(self, graph: list[str]) -> None:
            graph.append(self.item)

        def uuid(self) -> str:
            return self.item

    register_pass("b", lambda _config: Append("b"))
    register_pass("off", lambda _config: None)
    register_pass("a", lambda _config: Append("a"))
    manager = DefaultPassManager()
    empty = manager.uuid()
    for _ in range(2):
        manager.configure(EngineConfig())
    graph: list[str] = []
    manager(graph)
    assert graph == ["b", "a"]
    assert manager.uuid() != empty
    register_pass("b", lambda _config: Append("c"))
    manager.configure(EngineConfig())
    assert [one.uuid() for one in manager.passes] == ["c", "a"]
    assert CompilePass.uuid(manager.passes[0]).endswith("Append")


def test_a_worker_keeps_the_parts_of_its_config() -> None:
    """The parts are at hand under the names that worker code uses."""
    config = EngineConfig()
    worker = concrete(WorkerBase)(vllm_config=config, rank=1)
    assert worker.cache_config is config.cache_config
    assert worker.model_config is None
    assert worker.rank == 1
    worker.compile_or_warm_up_model()
    worker.check_health()
    worker.shutdown()


def test_a_step_request_is_a_value() -> None:
    """Lists become tuples, so it hashes and compares."""
    one, other = (StepRequest(request_id="a", token_ids=[1], block_ids=[2]) for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
