"""Attention in float64, token by token, and what it would give if one thing were done wrong.

Nothing here is fast, blocked or clever: each token looks at a list of slots. A `Reading` says how the list, the
scale and the heads are chosen; the right one is `RIGHT`, and the others are mistakes that kernels make.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from conformance.numeric.attention_cases import Ask, Case, Shape, Step, slots, stream

if TYPE_CHECKING:
    import torch

Look = Callable[[Shape, Ask, int], Sequence[int]]
"""`(shape, request, position) -> slots that the token sees`, in any order."""


@attrs.frozen
class Store:
    """What the cache holds, by slot, as the steps so far should have filled it.

    Args:
        keys: float64 `[slots, K, D]`.
        values: as `keys`.
    """

    keys: torch.Tensor
    values: torch.Tensor


@attrs.frozen
class Reading:
    """One way to read what is stored.

    Args:
        words: how it looks, after "it looks as if …"; empty for the right way.
        family: `mask`, `scale`, `heads`, `blocks`, `window`, `scores` or `stale`.
        look: which slots a token sees.
        scale: the factor of the scores.
        head: `(query head, query heads, kv heads) -> kv head`.
        value_head: the same for values, where it differs.
        store: which state of the cache is read: `now`, `before` this step, or the `first` content of each slot.
        swapped: keys and values are taken for each other.
        taken: for which shape it takes the one that it is given.
    """

    words: str
    look: Look
    family: str = "mask"
    scale: Callable[[Shape], float] = lambda shape: shape.scale
    head: Callable[[int, int, int], int] = lambda h, heads, kv: h * kv // heads
    value_head: Callable[[int, int, int], int] | None = None
    store: str = "now"
    swapped: bool = False
    taken: Callable[[Shape], Shape] = lambda shape: shape


def _from(shape: Shape, position: int, window: int | None) -> int:
    return 0 if window is None else max(0, position - window + 1)


def _seen(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    return slots(ask, shape.block_size)[_from(shape, position, shape.window) : position + 1]


def _with_next(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    every = slots(ask, shape.block_size)
    return every[_from(shape, position, shape.window) : min(position + 2, len(every))]


def _without_self(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    return slots(ask, shape.block_size)[_from(shape, position, shape.window) : position]


def _before_self_if_any(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    return _without_self(shape, ask, position) or _seen(shape, ask, position)


def _without_first(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    return _seen(shape, ask, position)[1:]


def _everything(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    return slots(ask, shape.block_size)


def _from_the_left(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    return slots(ask, shape.block_size)[: position - ask.past + 1]


def _new_only(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    return slots(ask, shape.block_size)[ask.past : position + 1]


def _past_only(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    return slots(ask, shape.block_size)[: ask.past]


def _one_beyond(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    every = slots(ask, shape.block_size)
    beyond = ask.blocks[min(ask.length // shape.block_size, len(ask.blocks) - 1)]
    return [*every[: position + 1], beyond * shape.block_size + ask.length % shape.block_size]


def _whole_blocks(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    count = -(-(position + 1) // shape.block_size)
    return [b * shape.block_size + i for b in ask.blocks[:count] for i in range(shape.block_size)]


def _in_order_of_number(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    used = ask.blocks[: -(-ask.length // shape.block_size)]
    return slots(attrs.evolve(ask, blocks=tuple(sorted(used))), shape.block_size)[: position + 1]


def _without_table(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    return range(position + 1)


def _from_first_block_on(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    first = ask.blocks[0] * shape.block_size
    return range(first, first + position + 1)


def _first_block_only(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    first = ask.blocks[0] * shape.block_size
    return [first + i % shape.block_size for i in range(position + 1)]


def _last_full_block_left_out(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
    whole = (position + 1) // shape.block_size * shape.block_size
    return slots(ask, shape.block_size)[: whole or position + 1]


def _blocks_of(factor: float) -> Look:
    def look(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
        size = int(shape.block_size * factor)
        tables = [*ask.blocks, *[ask.blocks[-1]] * len(ask.blocks)]
        return [tables[i // size] * size + i % size for i in range(position + 1)]

    return look


def _window_of(change: int | None) -> Look:
    def look(shape: Shape, ask: Ask, position: int) -> Sequence[int]:
        window = None if change is None or shape.window is None else shape.window + change
        return slots(ask, shape.block_size)[_from(shape, position, window) : position + 1]

    return look


RIGHT: Final = Reading("", _seen)

READINGS: Final = (
    Reading("a token saw the one after it", _with_next),
    Reading("a token did not see itself", _without_self),
    Reading("a token did not see itself, but for the first one", _before_self_if_any),
    Reading("the first token of a request, or of a window, was not seen", _without_first),
    Reading("there were no causal mask: a token saw all tokens of its request", _everything),
    Reading(
        "the mask counted from the start of the request, not from the end of what is cached", _from_the_left
    ),
    Reading("only the tokens of this step were seen, not those in the cache", _new_only),
    Reading("only the tokens in the cache were seen, not those of this step", _past_only),
    Reading("this step's keys and values were read before they were stored", _seen, store="before"),
    Reading("a slot beyond the last token of the request were seen", _one_beyond),
    Reading("whole blocks were seen, also their slots beyond the last token", _whole_blocks),
    Reading("the scale were 1", _seen, "scale", scale=lambda shape: 1.0),
    Reading("the scale were applied twice", _seen, "scale", scale=lambda shape: shape.scale**2),
    Reading(
        "the scale were head_size ** -0.5, and not the one that the implementation was made with",
        _seen,
        "scale",
        scale=lambda shape: shape.head_size**-0.5,
    ),
    Reading(
        "powers of 2 were taken for powers of e",
        _seen,
        "scale",
        scale=lambda shape: shape.scale * math.log(2),
    ),
    Reading(
        "log2(e) were multiplied in twice",
        _seen,
        "scale",
        scale=lambda shape: shape.scale / math.log(2),
    ),
    Reading("the scale had the other sign", _seen, "scale", scale=lambda shape: -shape.scale),
    Reading("all tokens had the same weight", _seen, "scale", scale=lambda shape: 0.0),
    Reading(
        "kv heads were taken in the wrong order: query head h used kv head h % kv heads, not h // group",
        _seen,
        "heads",
        head=lambda h, heads, kv: h % kv,
    ),
    Reading("every query head used the first kv head", _seen, "heads", head=lambda h, heads, kv: 0),
    Reading(
        "kv heads were taken from the last to the first",
        _seen,
        "heads",
        head=lambda h, heads, kv: kv - 1 - h * kv // heads,
    ),
    Reading(
        "keys were taken of kv head h % kv heads, and values of the right one",
        _seen,
        "heads",
        head=lambda h, heads, kv: h % kv,
        value_head=lambda h, heads, kv: h * kv // heads,
    ),
    Reading(
        "values were taken of kv head h % kv heads, and keys of the right one",
        _seen,
        "heads",
        value_head=lambda h, heads, kv: h % kv,
    ),
    Reading("keys and values were swapped", _seen, "heads", swapped=True),
    Reading("the window were one token larger", _window_of(1), "window"),
    Reading("the window were one token smaller", _window_of(-1), "window"),
    Reading("there were no window", _window_of(None), "window"),
    Reading(
        "blocks were read in the order of their numbers, not of the block table",
        _in_order_of_number,
        "blocks",
    ),
    Reading("the block table were not looked at: slots counted from 0", _without_table, "blocks"),
    Reading(
        "the blocks of a request lay one behind the other, from its first one on",
        _from_first_block_on,
        "blocks",
    ),
    Reading("the first block of a request stood for all of them", _first_block_only, "blocks"),
    Reading("the last block, which is not full, were left out", _last_full_block_left_out, "blocks"),
    Reading("a block held half as many tokens as it does", _blocks_of(0.5), "blocks"),
    Reading("a block held twice as many tokens as it does", _blocks_of(2), "blocks"),
    Reading("there were no soft cap", _seen, "scores", taken=lambda shape: attrs.evolve(shape, cap=None)),
    Reading(
        "there were no position bias", _seen, "scores", taken=lambda shape: attrs.evolve(shape, slopes=())
    ),
    Reading(
        "the position bias had the other sign",
        _seen,
        "scores",
        taken=lambda shape: attrs.evolve(shape, slopes=tuple(-one for one in shape.slopes)),
    ),
    Reading(
        "a block still held what was stored in it first, before it was used again",
        _seen,
        "stale",
        store="first",
    ),
)
"""Mistakes that are told by name."""


def references(case: Case) -> Iterator[tuple[Step, Mapping[str, Store]]]:
    """The steps of a problem, and the states of the cache that each of them may be read in."""
    import torch

    shape = case.shape
    count = (case.num_blocks + 1) * shape.block_size * 2
    empty = torch.zeros(count, shape.kv_heads, shape.head_size, dtype=torch.float64)
    now, first = Store(empty, empty.clone()), Store(empty.clone(), empty.clone())
    written: set[int] = set()
    for step in case.steps:
        before = Store(now.keys.clone(), now.values.clone())
        now = Store(now.keys.clone(), now.values.clone())
        for ask in step.asks:
            _, keys, values = stream(shape, ask)
            for position in range(ask.past, ask.length):
                slot = slots(ask, shape.block_size)[position]
                now.keys[slot], now.values[slot] = keys[position].double(), values[position].double()
                if slot not in written:
                    written.add(slot)
                    first.keys[slot], first.values[slot] = now.keys[slot], now.values[slot]
        yield step, {"now": now, "before": before, "first": Store(first.keys.clone(), first.values.clone())}


def attend(shape: Shape, step: Step, stores: Mapping[str, Store], reading: Reading = RIGHT) -> torch.Tensor:
    """Attend as a reading says; a token that sees nothing gets zeros.

    Returns:
        float64 `[T, H, D]`.
    """
    import torch

    shape = reading.taken(shape)
    store = stores[reading.store]
    kept, paid = (store.values, store.keys) if reading.swapped else (store.keys, store.values)
    of_keys = [reading.head(h, shape.heads, shape.kv_heads) for h in range(shape.heads)]
    chosen = reading.value_head or reading.head
    of_values = [chosen(h, shape.heads, shape.kv_heads) for h in range(shape.heads)]
    result = torch.zeros(step.tokens, shape.heads, shape.head_size, dtype=torch.float64)
    queries = {ask.name: stream(shape, ask)[0].double() for ask in step.asks}
    for row, (ask, position) in enumerate(step.rows()):
        seen = list(reading.look(shape, ask, position) if step.causal else slots(ask, shape.block_size))
        if not seen:
            continue
        # As products of elements: einsum would hand such small problems to a library that starts threads.
        scores = (kept[seen][:, of_keys] * queries[ask.name][position]).sum(-1) * reading.scale(shape)
        weights = torch.softmax(_shaped(scores, shape, ask, position, seen), 0)
        result[row] = (weights.unsqueeze(-1) * paid[seen][:, of_values]).sum(0)
    return result


def _shaped(scores: torch.Tensor, shape: Shape, ask: Ask, position: int, seen: Sequence[int]) -> torch.Tensor:
    """Scores `[slots, heads]` with the cap and the position bias of a shape."""
    import torch

    if shape.cap:
        scores = shape.cap * torch.tanh(scores / shape.cap)
    if shape.slopes:
        places = {slot: place for place, slot in enumerate(slots(ask, shape.block_size))}
        far = torch.tensor([places.get(slot, position) - position for slot in seen], dtype=scores.dtype)
        scores = scores + far.unsqueeze(1) * torch.tensor(shape.slopes, dtype=scores.dtype)
    return scores
