"""The worker and requests that come back: computed anew, in other blocks, and with blocks that the engine moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from conformance.checks.worker import STARTED, Driver, config_of, worker_of
from conformance.context import CheckContext, describe, is_a, kind_of
from conformance.model import Level, Unsupported
from conformance.numeric.worker_model import LAYERS
from conformance.registry import check

if TYPE_CHECKING:
    import torch

_NEEDS: Final = (*STARTED, "attention.batch", "worker.steps", "worker.chunks")
_SAYS: Final = (
    "What a request has computed so far is what its step says: `num_computed_tokens`, in `block_ids`."
)
_ANEW: Final = "when request 'again' was restarted after its blocks had gone to others (all its tokens anew, in other blocks)"
_IN_ITS_PLACE: Final = "after request 'again' had given its blocks to this one and was restarted in others: in the next step of this one"
_HINT: Final = "Keep nothing of a request by its name from one step to the next; or replace it by what the next step says."


@check(
    "worker.restarts",
    group="device",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=_NEEDS,
    why="Where the cache is full, the youngest request gives its blocks away and is computed anew, under its name.",
    hint=_HINT,
)
def restarts(ctx: CheckContext) -> None:
    """A request that is computed anew in other blocks, and one that takes an old one's name, get their own tokens."""
    driver = worker_of(ctx, config_of(ctx))
    driver.allocate()
    size: int = driver.config.cache_config.block_size
    text = [(13 * i + 5) % 250 for i in range(driver.longer_than(size))]
    got = driver.step([("again", text, 0, [3, 9]), ("beside", [8, 1], 0, [5])])
    driver.judge("again", text, got["again"], "in its first prefill")
    text.append(got["again"])
    # Another request has its blocks meanwhile.
    others = {"beside": ([8, 1, 6], [9]), "third": ([2, 4], [3])}
    driver.step([(name, tokens, 0, blocks) for name, (tokens, blocks) in others.items()])
    got = driver.step([("again", text, 0, [7, 4])])
    _judge(driver, "again", text, got["again"], _ANEW)
    text.append(got["again"])
    got = driver.step([(name, [30], len(tokens), blocks) for name, (tokens, blocks) in others.items()])
    for name, (tokens, _) in others.items():
        _judge(driver, name, [*tokens, 30], got[name], _IN_ITS_PLACE)
    got = driver.step([("again", text[-1:], len(text) - 1, [7, 4])])
    _judge(
        driver, "again", text, got["again"], "one step after request 'again' was restarted in other blocks"
    )
    other = [40, 41, 42]
    got = driver.step([("again", other, 0, [11])])
    _judge(
        driver,
        "again",
        other,
        got["again"],
        "in the first step of a new request that has the name of one that has ended",
    )


def _judge(driver: Driver, name: str, tokens: Sequence[int], got: int, when: str) -> None:
    driver.judge(name, tokens, got, when, says=_SAYS, hint=_HINT)


_CACHES: Final = (
    "`get_kv_caches` gives the tensors that the steps read and write, one for each layer, by its name."
)
_CACHES_HINT: Final = (
    "Return the tensors that initialize_from_config has made, not copies of them; or leave the base's method."
)


@check(
    "worker.caches",
    group="device",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*_NEEDS, "worker.restarts"),
    why="The engine copies blocks of waiting requests to the host and back, in these tensors.",
    hint=_CACHES_HINT,
)
def caches(ctx: CheckContext) -> None:
    """Blocks that are copied within what `get_kv_caches` gives are those that the next step reads."""
    driver = worker_of(ctx, config_of(ctx))
    driver.allocate()
    size: int = driver.config.cache_config.block_size
    text = [(17 * i + 2) % 250 for i in range(driver.longer_than(size))]
    got = driver.step([("moved", text, 0, [2, 6])])
    text.append(got["moved"])
    blocks = _by_block(driver, 24)
    for part in blocks:
        for here, there in ((2, 8), (6, 1)):
            part[there] = part[here]
            part[here] = 0
    got = driver.step([("moved", text[-1:], len(text) - 1, [8, 1])])
    driver.judge(
        "moved",
        text,
        got["moved"],
        "after its blocks were copied to others in what get_kv_caches gave",
        says=_CACHES,
        hint=_CACHES_HINT,
        method="get_kv_caches",
    )


def _by_block(driver: Driver, count: int) -> list[torch.Tensor]:
    """Views of all caches whose first dimension counts blocks.

    Raises:
        Unsupported: the worker does not give them, or they are laid out so that the engine cannot copy blocks.
        Violation: there is not one for each layer.
    """
    from platform_abc.components.worker import WorkerBase

    if driver.worker.__class__.get_kv_caches is WorkerBase.get_kv_caches:
        raise Unsupported("get_kv_caches is left to the base")
    try:
        with driver.ctx.adapter.active(driver.ctx.platform):
            given: Any = driver.worker.get_kv_caches()
    except NotImplementedError as error:
        raise Unsupported(describe(error)) from error
    except Exception:
        given = driver.call("get_kv_caches")  # which tells
    if not is_a(given, Mapping) or sorted(map(str, given)) != sorted(LAYERS):
        names = ", ".join(map(str, given)) if is_a(given, Mapping) else kind_of(given)
        raise driver.fail(
            "get_kv_caches",
            _CACHES,
            f"for a model with the layers {', '.join(LAYERS)} it gave {names or 'none'}",
            _CACHES_HINT,
        )
    parts: list[torch.Tensor] = []
    for cache in given.values():
        if cache.shape[:1] == (count,):
            parts.append(cache)
        elif cache.shape[:2] == (2, count):
            parts += cache.unbind(0)
        else:
            raise Unsupported(f"the engine copies no blocks of a cache of the shape {list(cache.shape)}")
    return parts
