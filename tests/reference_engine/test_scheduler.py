"""Facts about the scheduler: who runs in a step, and that blocks are never lost, shared or waited for for ever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_abc.components.kv_cache import AttentionSpec, KVCacheConfig, KVCacheGroup, MambaSpec
from platform_abc.components.worker import StepOutput, StepRequest
from platform_abc.config import CacheConfig, EngineConfig, LoRAConfig, SchedulerConfig
from reference_engine.input_processor import Request
from reference_engine.scheduler import Move, Result, Running, Scheduler


def attention(block_size: int = 4, window: int | None = None) -> AttentionSpec:
    return AttentionSpec(
        block_size=block_size, num_kv_heads=1, head_size=8, dtype="float32", sliding_window=window
    )


def state(block_size: int = 64) -> MambaSpec:
    return MambaSpec(block_size=block_size, shapes=[(2, 2)], dtypes=["float32"])


def scheduler_of(
    *specs: Any, num_blocks: int = 8, max_loras: int = 0, num_cpu_blocks: int | None = None, **limits: Any
) -> Scheduler:
    groups = [KVCacheGroup(layer_names=[f"layers.{i}"], kv_cache_spec=spec) for i, spec in enumerate(specs)]
    layout = KVCacheConfig(num_blocks=num_blocks, kv_cache_tensors=(), kv_cache_groups=groups)
    config = EngineConfig(
        cache_config=CacheConfig(num_cpu_blocks=num_cpu_blocks),
        scheduler_config=SchedulerConfig(**{"max_num_seqs": 4, "max_num_batched_tokens": 16, **limits}),
        lora_config=LoRAConfig(max_loras=max_loras) if max_loras else None,
    )
    return Scheduler(config, layout)


def request(name: str, prompt: int, most: int, **more: Any) -> Request:
    # Different prompts, so that a token computed from another request's cache is seen.
    start = sum(map(ord, name))
    return Request(request_id=name, prompt=[(start + i) % 97 for i in range(prompt)], max_tokens=most, **more)


class Device:
    """A model whose next token depends on every token that its request may look at, read from the blocks."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.cells: list[dict[tuple[int, int], int]] = [{} for _ in scheduler.pools]
        self.host: list[dict[tuple[int, int], int]] = [{} for _ in scheduler.pools]
        self.steps: list[list[StepRequest]] = []

    def run(self, planned: Sequence[Running]) -> StepOutput:
        for move in self.scheduler.moves:
            self._move(move)
        shares = [one.share() for one in planned]
        self.steps.append(shares)
        for group, pool in enumerate(self.scheduler.pools):
            held = [b for one in self._all() for b in one.blocks[group] if b is not None]
            assert len(held) == len(set(held)), "a block is used twice"
            assert sorted([*held, *pool.free]) == list(range(pool.num_blocks)), "a block is lost"
            kept = [b for one in self._all() if one.on_host for b in one.on_host[group] if b is not None]
            assert sorted([*kept, *pool.free_on_host]) == list(range(len(kept) + len(pool.free_on_host)))
        return StepOutput(next_token_ids={share.request_id: self._next(share) for share in shares})

    def _move(self, move: Move) -> None:
        for group, pairs in enumerate(move.blocks):
            for here, there in pairs:
                source, target = (here, there) if move.to_host else (there, here)
                old, new = self.cells[group], self.host[group]
                if not move.to_host:
                    old, new = new, old
                for cell in range(64):
                    new.pop((target, cell), None)
                    if (source, cell) in old:
                        new[target, cell] = old[source, cell]

    def _all(self) -> list[Running]:
        return [*self.scheduler.running, *self.scheduler.waiting]

    def _next(self, share: StepRequest) -> int:
        total = share.num_computed_tokens + len(share.token_ids)
        answer = 0
        for group, pool in enumerate(self.scheduler.pools):
            table = share.group_block_ids[group] if share.group_block_ids else share.block_ids
            size = pool.spec.block_size
            assert len(table) * size >= total
            for place, token in enumerate(share.token_ids, share.num_computed_tokens):
                self.cells[group][table[place // size], place % size] = token
            window = getattr(pool.spec, "sliding_window", None) or total
            for place in range(max(0, total - window), total):
                answer = (answer * 31 + self.cells[group][table[place // size], place % size] + group) % 89
        return answer


def run(scheduler: Scheduler, arrivals: Mapping[int, Sequence[Request]]) -> dict[str, Result]:
    """Let requests arrive at given steps and run to the end; what became of each."""
    device, results, step = Device(scheduler), dict[str, Result](), 0
    while scheduler.busy or any(at >= step for at in arrivals):
        for one in arrivals.get(step, ()):
            reason = scheduler.add(one)
            if reason:
                results[one.request_id] = Result(request_id=one.request_id, error=reason)
        planned = scheduler.schedule()
        assert planned or not scheduler.busy, "nothing runs although something waits"
        limits = scheduler.limits
        assert sum(one.scheduled for one in planned) <= limits.max_num_batched_tokens
        assert len(planned) <= limits.max_num_seqs
        for result in scheduler.update(planned, device.run(planned)) if planned else ():
            results[result.request_id] = result
        step += 1
        assert step < 10_000
    for pool in scheduler.pools:
        assert sorted(pool.free) == list(range(pool.num_blocks))
        assert len(pool.free_on_host) == len(set(pool.free_on_host)) == scheduler.host_blocks
    return results


SPECS = st.lists(
    st.one_of(
        st.builds(attention, st.integers(1, 5), st.one_of(st.none(), st.integers(1, 12))), st.builds(state)
    ),
    min_size=1,
    max_size=2,
)
REQUESTS = st.lists(
    # Arrival, prompt, output, adapter: most arrive together and outgrow a small cache.
    st.tuples(st.integers(0, 5), st.integers(1, 20), st.integers(4, 30), st.sampled_from([0, 0, 0, 1, 2, 3])),
    min_size=2,
    max_size=8,
)


@settings(deadline=None, max_examples=150)
@given(
    SPECS,
    REQUESTS,
    st.integers(4, 24),
    st.integers(2, 5),
    st.integers(0, 12),
    st.booleans(),
    st.booleans(),
    st.integers(0, 8),
)
def test_every_request_ends_and_its_tokens_are_its_own(
    specs: list[Any],
    requests: list[tuple[int, int, int, int]],
    num_blocks: int,
    seqs: int,
    more: int,
    chunked: bool,
    hybrid: bool,
    on_host: int,
) -> None:
    """Whatever arrives when, over whatever cache: no block twice, all freed, the tokens as if alone."""
    limits = {
        "max_num_seqs": seqs,
        "max_num_batched_tokens": seqs + more,
        "enable_chunked_prefill": chunked,
        "disable_hybrid_kv_cache_manager": not hybrid,
    }
    arrivals: dict[int, list[Request]] = {}
    for number, (at, prompt, most, adapter) in enumerate(requests):
        arrivals.setdefault(at, []).append(request(f"r{number}", prompt, most, lora_id=adapter))
    together = run(
        scheduler_of(*specs, num_blocks=num_blocks, num_cpu_blocks=on_host, max_loras=2, **limits), arrivals
    )
    assert len(together) == len(requests)
    for one in [one for those in arrivals.values() for one in those]:
        result = together[one.request_id]
        roomy = scheduler_of(*specs, num_blocks=64, max_num_batched_tokens=64, max_loras=1)
        alone = run(roomy, {0: [one]})[one.request_id]
        assert bool(result.error) == bool(
            scheduler_of(*specs, num_blocks=num_blocks, max_loras=2, **limits).never_fits(one)
        )
        if not result.error:
            assert result.tokens == alone.tokens
            assert len(result.tokens) == one.max_tokens


def steps_of(scheduler: Scheduler, *requests: Request) -> list[dict[str, int]]:
    """Run to the end; by step, the tokens of each request in it."""
    device = Device(scheduler)
    for one in requests:
        assert scheduler.add(one) == ""
    while scheduler.busy:
        planned = scheduler.schedule()
        scheduler.update(planned, device.run(planned))
    return [{share.request_id: len(share.token_ids) for share in step} for step in device.steps]


def test_a_long_prompt_runs_in_chunks_beside_the_tokens_of_others() -> None:
    """A step is never larger than its budget, and who generates does not wait for who reads."""
    scheduler = scheduler_of(attention(), num_blocks=32, max_num_batched_tokens=8)
    steps = steps_of(scheduler, request("a", 3, 4), request("long", 20, 1))
    assert steps == [{"a": 3, "long": 5}, {"a": 1, "long": 7}, {"a": 1, "long": 7}, {"a": 1, "long": 1}]


def test_without_chunks_a_prompt_waits_for_a_step_that_holds_it() -> None:
    """It is never split, and one that no step holds is refused."""
    scheduler = scheduler_of(
        attention(), num_blocks=32, max_num_batched_tokens=8, enable_chunked_prefill=False
    )
    assert steps_of(scheduler, request("a", 6, 2), request("b", 8, 1)) == [{"a": 6}, {"a": 1}, {"b": 8}]
    assert "has 9 prompt tokens, a step has room for 8" in scheduler.add(request("c", 9, 1))


def test_the_youngest_gives_its_blocks_back_and_computes_again() -> None:
    """Two requests outgrow the cache: the older one goes on, the younger one starts anew after it."""
    scheduler = scheduler_of(attention(4), num_blocks=3)
    steps = steps_of(scheduler, request("a", 4, 5), request("b", 4, 5))
    assert steps[0] == {"a": 4, "b": 4}
    assert steps[1] == {"a": 1}
    again = next(step for step in steps[1:] if step.get("b", 0) > 1)
    assert again["b"] == 5  # its prompt, and the token that it had


def test_with_room_on_the_host_nothing_is_computed_again() -> None:
    """The younger request comes back with what it had, and goes on with one token."""
    scheduler = scheduler_of(attention(4), num_blocks=3, num_cpu_blocks=2)
    steps = steps_of(scheduler, request("a", 4, 5), request("b", 4, 5))
    assert steps[0] == {"a": 4, "b": 4}
    assert all(step.get("b", 0) <= 1 for step in steps[1:])
    assert sum("b" in step for step in steps) == 5


def test_a_window_gives_back_what_it_no_longer_sees() -> None:
    """A request that is far longer than the cache runs; with the hybrid manager off it is refused."""
    long = request("long", 8, 60)
    limits = {"num_blocks": 6, "max_num_batched_tokens": 8}
    assert len(run(scheduler_of(attention(4, window=8), **limits), {0: [long]})["long"].tokens) == 60
    off = scheduler_of(attention(4, window=8), **limits, disable_hybrid_kv_cache_manager=True)
    assert "needs 17 blocks, the KV cache has 6" in off.add(long)


def test_a_step_holds_no_more_adapters_than_there_are_slots() -> None:
    """The base model needs none."""
    scheduler = scheduler_of(attention(), num_blocks=32, max_loras=1)
    steps = steps_of(
        scheduler,
        request("a", 2, 2, lora_id=1),
        request("base", 2, 2),
        request("a2", 2, 2, lora_id=1),
        request("b", 2, 1, lora_id=2),
    )
    assert steps == [{"a": 2, "base": 2, "a2": 2}, {"a": 1, "base": 1, "a2": 1}, {"b": 2}]


def test_a_stop_token_ends_a_request_and_stays_in_it() -> None:
    """Not before its least number of tokens."""
    (result,) = run(scheduler_of(attention()), {0: [request("a", 3, 9)]}).values()
    stop = result.tokens[0]
    early = request("a", 3, 9, stop=frozenset({stop}))
    assert run(scheduler_of(attention()), {0: [early]})["a"].tokens == (stop,)
    least = request("a", 3, 9, stop=frozenset(result.tokens), min_tokens=3)
    assert run(scheduler_of(attention()), {0: [least]})["a"].tokens == result.tokens[:3]


def test_an_aborted_request_frees_its_blocks() -> None:
    """Running or waiting; an unknown name is nothing."""
    scheduler = scheduler_of(attention(4), num_blocks=2, max_num_seqs=1)
    assert scheduler.add(request("a", 4, 5)) == scheduler.add(request("b", 4, 5)) == ""
    scheduler.update(planned := scheduler.schedule(), Device(scheduler).run(planned))
    scheduler.abort(["a", "b", "c"])
    assert not scheduler.busy
    assert sorted(scheduler.pools[0].free) == [0, 1]


@pytest.mark.parametrize(
    ("one", "text"),
    [(request("a", 30, 5), "request a needs 9 blocks, the KV cache has 8")],
)
def test_a_request_that_never_fits_is_refused_with_numbers(one: Request, text: str) -> None:
    """The last token is never stored, so it needs no room."""
    scheduler = scheduler_of(attention(4))
    assert scheduler.add(one) == text
    assert scheduler.add(request("b", 30, 3)) == ""
