"""The scheduler: which tokens of which requests run in a step, and which blocks of the cache hold them.

Requests join and leave at every step. A prompt runs in chunks, blocks are taken as tokens come, and where
none is free the youngest running request gives its own back. Its tokens are computed again later, or come back from
the host where there are blocks to keep them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from platform_abc.components.kv_cache import AttentionSpec
from platform_abc.components.worker import StepRequest

if TYPE_CHECKING:
    from platform_abc.components.kv_cache import KVCacheConfig, KVCacheGroup
    from platform_abc.components.worker import StepOutput
    from platform_abc.config import EngineConfig
    from reference_engine.input_processor import Request


@attrs.frozen(kw_only=True)
class Result:
    """What became of one request.

    Args:
        request_id: its name.
        tokens: what was generated.
        error: why it was not; empty if it was.
    """

    request_id: str
    tokens: Sequence[int] = ()
    error: str = ""


@attrs.frozen
class Move:
    """Blocks of one request that go to the host, or come back.

    Args:
        to_host: they go to the host.
        blocks: by cache group: pairs of a block of the cache and one of the host.
    """

    to_host: bool
    blocks: Sequence[Sequence[tuple[int, int]]]


class BlockPool:
    """The blocks of one cache group, each free or held by one request.

    Args:
        group: what its layers store.
        num_blocks: blocks of the group.
        num_host_blocks: blocks that the host keeps for it.
        reclaims: a block that a sliding window no longer sees is taken back.
    """

    def __init__(self, group: KVCacheGroup, num_blocks: int, num_host_blocks: int, *, reclaims: bool) -> None:
        self.spec = group.kv_cache_spec
        self.num_blocks = num_blocks
        self.window = self.spec.sliding_window if reclaims and isinstance(self.spec, AttentionSpec) else None
        self.free = deque(range(num_blocks))
        self.free_on_host = deque(range(num_host_blocks))

    def first_seen(self, computed: int) -> int:
        """Return the first block, by place in the request, that its next token may look at.

        Args:
            computed: tokens of the request that are in the cache.
        """
        return 0 if self.window is None else max(0, computed - self.window + 1) // self.spec.block_size

    def most_held(self, tokens: int, step: int) -> int:
        """Return the most blocks that a request holds at a time.

        Args:
            tokens: tokens of the request in the cache at its end.
            step: most of its tokens in one step.
        """
        blocks = self.spec.blocks_for(tokens)
        if self.window is None:
            return blocks
        return min(blocks, (self.window + min(step, tokens) - 2) // self.spec.block_size + 2)


@attrs.define
class Running:
    """A request with its tokens so far and its place in the cache.

    Args:
        request: what was asked.
        blocks: by group: the block of each place, None for one that was taken back.
        known: its prompt, and what was generated since.
        computed: so many of them are in the cache.
        scheduled: so many more run in this step.
        on_host: by group: the host's block of each place, while the request waits with what it has computed.
    """

    request: Request
    blocks: list[list[int | None]]
    known: list[int] = attrs.field(init=False)
    computed: int = 0
    scheduled: int = 0
    on_host: list[list[int | None]] | None = None

    def __attrs_post_init__(self) -> None:
        self.known = list(self.request.prompt)

    @property
    def tokens(self) -> list[int]:
        """What was generated."""
        return self.known[len(self.request.prompt) :]

    @property
    def pending(self) -> int:
        """Tokens that are known and not in the cache yet."""
        return len(self.known) - self.computed

    def share(self) -> StepRequest:
        """Return the tokens of this step, and where they and those before them lie."""
        tables = [_table(blocks) for blocks in self.blocks]
        return StepRequest(
            request_id=self.request.request_id,
            token_ids=self.known[self.computed : self.computed + self.scheduled],
            num_computed_tokens=self.computed,
            block_ids=tables[0] if tables else (),
            group_block_ids=tables if len(tables) > 1 else (),
            lora_id=self.request.lora_id,
        )


def _table(blocks: Sequence[int | None]) -> list[int]:
    """Put a block of the same request where one was taken back: it is masked, but must exist."""
    kept = next((block for block in blocks if block is not None), 0)
    return [kept if block is None else block for block in blocks]


class Scheduler:
    """Plans steps; a platform may name a subclass in `scheduler_config.scheduler_cls`.

    It cannot dead-lock: no request starts that the empty cache could not hold to its end, and the oldest
    running one may have the blocks of all others.

    Args:
        config: its scheduler part has the limits.
        layout: the cache.
    """

    def __init__(self, config: EngineConfig, layout: KVCacheConfig) -> None:
        self.limits = config.scheduler_config
        self.max_loras = config.lora_config.max_loras if config.lora_config is not None else 0
        reclaims = self.limits.enable_chunked_prefill and not self.limits.disable_hybrid_kv_cache_manager
        self.host_blocks = config.cache_config.num_cpu_blocks or 0
        self.pools = [
            BlockPool(group, layout.num_blocks, self.host_blocks, reclaims=reclaims)
            for group in layout.kv_cache_groups
        ]
        self.moves: list[Move] = []
        self.waiting: deque[Running] = deque()
        self.running: list[Running] = []

    @property
    def busy(self) -> bool:
        """There are requests that have not ended."""
        return bool(self.waiting or self.running)

    def add(self, request: Request) -> str:
        """Queue a request.

        Args:
            request: checked by the front end.

        Returns:
            Why it can never run, and then it is not queued; else empty.
        """
        reason = self.never_fits(request)
        if not reason:
            self.waiting.append(Running(request, [[] for _ in self.pools]))
        return reason

    def never_fits(self, request: Request) -> str:
        """Say why a request could not run even alone; empty if it could."""
        name, prompt = request.request_id, len(request.prompt)
        step = self.limits.max_num_batched_tokens
        if request.lora_id and not self.max_loras:
            return f"request {name} wants the adapter {request.lora_id}, but there is room for none"
        if not self.limits.enable_chunked_prefill and prompt > step:
            return f"request {name} has {prompt} prompt tokens, a step has room for {step}"
        for pool in self.pools:
            needed = pool.most_held(self._stored(request), step)
            if needed > pool.num_blocks:
                return f"request {name} needs {needed} blocks, the KV cache has {pool.num_blocks}"
        return ""

    def _stored(self, request: Request) -> int:
        # The last token is given out and never computed.
        return len(request.prompt) + request.max_tokens - 1

    def abort(self, names: Sequence[str]) -> None:
        """Forget requests that nobody waits for any more; names that are unknown are ignored."""
        for one in [one for one in (*self.running, *self.waiting) if one.request.request_id in names]:
            self._release(one)
            (self.running if one in self.running else self.waiting).remove(one)

    def schedule(self) -> list[Running]:
        """Plan one step and take the blocks that it needs.

        The copies in `moves` have to be made, in their order, before the step runs.

        Returns:
            The requests that run, each with the number of its tokens in `scheduled`.
        """
        budget = self.limits.max_num_batched_tokens
        planned: list[Running] = []
        self.moves = []
        for place, one in enumerate(list(self.running)):
            if one not in self.running:
                break  # an older one has taken its blocks, and those of all after it
            # A long prompt leaves room for the single tokens of the younger ones, which must not wait for it.
            left = budget - sum(other.pending == 1 for other in self.running[place + 1 :])
            budget -= self._plan(one, min(one.pending, left), planned)
        while self.waiting and budget > 0 and len(self.running) < self.limits.max_num_seqs:
            one = self.waiting[0]
            if not self._has_adapter_slot(one) or not self._can_start(one, budget):
                break
            self.running.append(self.waiting.popleft())
            self._bring_back(one)
            budget -= self._plan(one, min(one.pending, budget), planned)
        return planned

    def _can_start(self, one: Running, budget: int) -> bool:
        """Say whether the first chunk has room; a request that starts takes no blocks from others."""
        if not self.limits.enable_chunked_prefill and one.pending > budget:
            return False
        tokens = self._hold(one, min(one.pending, budget))
        kept = one.on_host or [[] for _ in self.pools]
        return all(
            pool.spec.blocks_for(tokens) - blocks.count(None) <= len(pool.free)
            for pool, blocks in zip(self.pools, kept, strict=True)
        )

    def _hold(self, one: Running, tokens: int) -> int:
        """Return the tokens that the request must have blocks for when `tokens` more are computed.

        Without chunks nothing may be computed again, which could be more than a step holds; so a request
        has all of its blocks from the start, and keeps them.
        """
        return one.computed + tokens if self.limits.enable_chunked_prefill else self._stored(one.request)

    def _has_adapter_slot(self, one: Running) -> bool:
        wanted = {other.request.lora_id for other in (*self.running, one)} - {0}
        return not one.request.lora_id or len(wanted) <= self.max_loras

    def _plan(self, one: Running, tokens: int, planned: list[Running]) -> int:
        """Give a running request its tokens and blocks, or send it back to the queue if there are none.

        Returns:
            How many of the tokens run.
        """
        if tokens < 1:
            return 0
        self._reclaim(one)
        while not self._allocate(one, self._hold(one, tokens)):
            youngest = self.running[-1]
            self._preempt(youngest)
            if youngest is one:
                return 0
        one.scheduled = tokens
        planned.append(one)
        return tokens

    def _reclaim(self, one: Running) -> None:
        for pool, blocks in zip(self.pools, one.blocks, strict=True):
            for place in range(min(pool.first_seen(one.computed), len(blocks))):
                block = blocks[place]
                if block is not None:
                    pool.free.append(block)
                    blocks[place] = None

    def _allocate(self, one: Running, tokens: int) -> bool:
        """Take blocks for the first `tokens` tokens of a request, in all groups or in none."""
        lacks = [
            pool.spec.blocks_for(tokens) - len(blocks)
            for pool, blocks in zip(self.pools, one.blocks, strict=True)
        ]
        if any(lack > len(pool.free) for lack, pool in zip(lacks, self.pools, strict=True)):
            return False
        for lack, pool, blocks in zip(lacks, self.pools, one.blocks, strict=True):
            blocks += [pool.free.popleft() for _ in range(lack)]
        return True

    def _preempt(self, one: Running) -> None:
        """Send a request back to the head of the queue."""
        if not self._send_away(one):
            self._release(one)
        self.running.remove(one)
        self.waiting.appendleft(one)

    def _send_away(self, one: Running) -> bool:
        """Keep what a request has computed on the host; not, if that has no room for it."""
        needed = [len(blocks) - blocks.count(None) for blocks in one.blocks]
        if not one.computed or any(
            count > len(pool.free_on_host) for count, pool in zip(needed, self.pools, strict=True)
        ):
            return False
        kept = [
            [None if block is None else pool.free_on_host.popleft() for block in blocks]
            for pool, blocks in zip(self.pools, one.blocks, strict=True)
        ]
        self._move(one, kept, to_host=True)
        computed = one.computed
        self._release(one)
        one.computed, one.on_host = computed, kept
        return True

    def _bring_back(self, one: Running) -> None:
        """Give a request blocks again for what the host has kept of it."""
        kept, one.on_host = one.on_host, None
        if kept is None:
            return
        one.blocks = [
            [None if block is None else pool.free.popleft() for block in blocks]
            for pool, blocks in zip(self.pools, kept, strict=True)
        ]
        self._move(one, kept, to_host=False)
        for pool, blocks in zip(self.pools, kept, strict=True):
            pool.free_on_host.extend(block for block in blocks if block is not None)

    def _move(self, one: Running, on_host: Sequence[Sequence[int | None]], *, to_host: bool) -> None:
        pairs = [
            [
                (block, other)
                for block, other in zip(blocks, others, strict=True)
                if block is not None and other is not None
            ]
            for blocks, others in zip(one.blocks, on_host, strict=True)
        ]
        self.moves.append(Move(to_host, pairs))

    def _release(self, one: Running) -> None:
        for pool, blocks in zip(self.pools, one.blocks, strict=True):
            pool.free.extend(block for block in blocks if block is not None)
            blocks.clear()
        for pool, blocks in zip(self.pools, one.on_host or [[] for _ in self.pools], strict=True):
            pool.free_on_host.extend(block for block in blocks if block is not None)
        one.on_host = None
        one.computed = one.scheduled = 0

    def update(self, planned: Sequence[Running], output: StepOutput) -> list[Result]:
        """Take over what a step gave.

        Args:
            planned: what `schedule` returned for it.
            output: the next token of each of these requests.

        Returns:
            The requests that the step has ended; their blocks are free again.
        """
        ended: list[Result] = []
        for one in planned:
            one.computed += one.scheduled
            one.scheduled = 0
            if one.pending:
                continue  # in the middle of its prompt, so what would come next is known
            one.known.append(output.next_token_ids[one.request.request_id])
            if one.request.ends_with(len(one.known) - len(one.request.prompt), one.known[-1]):
                self._release(one)
                self.running.remove(one)
                ended.append(Result(request_id=one.request.request_id, tokens=tuple(one.tokens)))
        return ended
