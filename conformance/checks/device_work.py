"""The device at work: memory follows what is allocated, dtypes compute, events order, groups move tensors."""

from __future__ import annotations

import contextlib
import functools
import gc
import time
from collections.abc import Callable, Generator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from conformance.context import CheckContext, describe, kind_of, short
from conformance.model import Level, Skip, Unsupported
from conformance.numeric.attention_run import device_of
from conformance.numeric.ranks import Say, on_ranks
from conformance.numeric.values import numbers
from conformance.places import quoted
from conformance.registry import check

if TYPE_CHECKING:
    import torch

_USAGE: Final = "get_current_memory_usage"
_INFO: Final = "mem_get_info"
_GROUP: Final = "stateless_init_device_torch_dist_pg"
_BYTES: Final = 192 << 20
_TRIES: Final = 3
"""Other programs share the host's memory, and may free some just then."""
_LAG: Final = 1.5
"""Seconds after which an operating system has taken back what was freed."""
_NEEDS: Final = ("members.kinds", "members.engine-calls", "identity.torch-device", "device.set-device")
_PAUSE: Final = 0.06
_LIMIT: Final = 20.0


@check(
    "device.memory-follows",
    group="device",
    level=Level.DEVICE,
    engines=("native",),
    needs=(*_NEEDS, "device.memory-plausible", "device.memory-agrees"),
    asks=(_USAGE,),
    why="The engine gives its cache what is not in use: a number that does not move plans memory that is not there.",
    hint="Measure at each call, in bytes, and count what torch has allocated.",
)
def memory_follows(ctx: CheckContext) -> None:
    """The bytes in use grow by what torch allocates on the device, and shrink again when it is freed."""
    ctx.need_device()
    asked: list[tuple[str, Callable[[], float], str]] = []

    def used() -> float:
        return float(_used(ctx))

    def taken() -> float:
        return -float(ctx.platform.mem_get_info()[0])

    readings: tuple[tuple[str, Callable[[], float], str], ...] = (
        (_USAGE, used, "grow"),
        (_INFO, taken, "shrink"),
    )
    for member, read, way in readings:
        try:
            read()
        except Unsupported:
            continue
        except Exception as error:
            if member == _USAGE:
                raise
            ctx.details[_INFO] = describe(error)
            continue
        asked.append((member, read, way))
    if not asked:
        raise Unsupported(f"the platform has neither {_USAGE} nor {_INFO}")
    for member, read, way in asked:
        steps = _steps(ctx, read)
        if steps is None:
            continue
        grown, freed, turned = steps
        what = "the bytes in use" if member == _USAGE else "the free bytes"
        says = f"{what[0].upper()}{what[1:]} that `{member}` gives {way} by what is allocated on the device, and back."
        hint = (
            f"Measure in `{member}` at each call: torch's own count of the device (`memory_allocated`), the driver's, "
            "or the operating system's for the host; keep no answer."
        )
        if turned:
            raise ctx.fail(
                member,
                contract_says=says,
                platform_did=f"each of {_TRIES} times that torch took {3 * _BYTES} bytes more, {what} moved by as much the "
                "other way",
                hint=f"Return the bytes in use from `{member}`, not those that are free. {hint}"
                if member == _USAGE
                else f"Return (free, total) from `{member}`, free first, and not the bytes in use. {hint}",
            )
        if grown < _BYTES / 2:
            still = "did not move" if grown == 0 else f"moved by {int(grown)}"
            raise ctx.fail(
                member,
                contract_says=says,
                platform_did=f"while torch held at least {_BYTES} bytes more, {what} {still}",
                hint=hint,
            )
        raise ctx.fail(
            member,
            contract_says=says,
            platform_did=f"when torch had freed {_BYTES} bytes and emptied its cache, {what} moved back by {int(freed)}",
            hint=f"{hint} Peaks and counters that only grow are something else.",
        )


def _used(ctx: CheckContext) -> Any:
    return ctx.ask(
        _USAGE, contract_says=f"`{_USAGE}()` gives the bytes in use.", hint=f"Return bytes from `{_USAGE}`."
    )


def _steps(ctx: CheckContext, read: Callable[[], float]) -> tuple[float, float, bool] | None:
    """How far a reading moves when memory is taken and when it is freed, and whether it always moves the other way.

    Returns:
        None where both are enough.
    """
    import torch

    device, grown, freed, turned = device_of(ctx), 0.0, 0.0, 0
    # The host is shared: other programs take and free as much meanwhile, and what is freed comes back late. So there
    # a reading has to move, no more.
    shared = device.type == "cpu"
    least = _BYTES / 256 if shared else _BYTES / 2
    for _ in range(_TRIES):
        before = read()
        held: list[torch.Tensor] = []
        for _ in range(3 if shared else 1):
            held.append(torch.ones(_BYTES, dtype=torch.uint8, device=device))
        _settle(ctx)
        grown = max(grown, _soon(functools.partial(_since, read, before)))
        during = read()
        if shared:
            grown = max(grown, abs(during - before))
            turned += during - before < -1.5 * _BYTES
        held.clear()
        _settle(ctx)
        freed = _BYTES if shared else max(freed, _soon(functools.partial(_until, read, during)))
        if min(grown, freed) >= least and not turned:
            return None
    if min(grown, freed) >= least and turned < _TRIES:
        return None
    return grown, freed, turned == _TRIES


def _since(read: Callable[[], float], before: float) -> float:
    return read() - before


def _until(read: Callable[[], float], before: float) -> float:
    return before - read()


def _soon(moved: Callable[[], float]) -> float:
    """How far a reading moves within a while."""
    until = time.monotonic() + _LAG
    best = moved()
    while best < _BYTES / 2 and time.monotonic() < until:
        time.sleep(0.05)
        best = max(best, moved())
    return best


def _settle(ctx: CheckContext) -> None:
    """Wait for the device, and give back what nobody holds; each where the device's run time can."""
    gc.collect()
    for name in ("synchronize", "empty_cache"):
        call: Any = getattr(ctx.platform, name, None)
        if callable(call):
            call()


@check(
    "device.dtypes-compute",
    group="device",
    level=Level.DEVICE,
    engines=("native",),
    needs=(*_NEEDS, "device.answers", "device.dtypes"),
    asks=("supported_dtypes",),
    why="The engine runs a model in any dtype of the list, the first where the model's own is not in it.",
    hint="List the dtypes in which torch computes a model on the device.",
)
def dtypes_compute(ctx: CheckContext) -> None:
    """In each dtype of `supported_dtypes` the device multiplies, adds and normalises with that dtype's precision."""
    import torch

    ctx.need_device()
    device, member = device_of(ctx), "supported_dtypes"
    says = f"In each dtype of `{member}` the device computes what a layer of a model does."
    left = torch.randn(5, 64, generator=torch.Generator().manual_seed(1))
    right = torch.randn(64, 32, generator=torch.Generator().manual_seed(2)) / 8
    for dtype in ctx.platform.supported_dtypes:
        hint = f"Remove {dtype} from `{member}`, or let `check_if_supports_dtype` refuse it where this device cannot."
        try:
            a, b = left.to(device, dtype), right.to(device, dtype)
            got = torch.softmax(torch.nn.functional.silu(a @ b) + b[0], dim=-1)
            exact_a, exact_b = a.double().cpu(), b.double().cpu()
        except (RuntimeError, NotImplementedError, TypeError) as error:
            raise ctx.fail(
                member,
                contract_says=says,
                platform_did=f"it lists {dtype}, and a layer in it raises {describe(error)}",
                hint=hint,
            ) from error
        exact = torch.softmax(torch.nn.functional.silu(exact_a @ exact_b) + exact_b[0], dim=-1)
        within = 16 * torch.finfo(dtype).eps + (
            1e-2 if dtype is torch.float32 and device.type != "cpu" else 0
        )
        gap = float((got.double().cpu() - exact).abs().max())
        if got.dtype is not dtype or not gap <= within:
            raise ctx.fail(
                member,
                contract_says=says,
                platform_did=f"it lists {dtype}, and a layer in it gave {got.dtype}, off by up to {gap:.3g}; {within:.3g} "
                "is what rounding explains",
                hint=hint,
            )


@check(
    "device.events",
    group="device",
    level=Level.DEVICE,
    engines=("native",),
    needs=_NEEDS,
    why="The engine overlaps copies with computing, and finds out by events what is done; it times steps with them.",
    hint="Leave Event, Stream and synchronize to the device's run time, or let yours do what that of torch.cuda does.",
)
def events(ctx: CheckContext) -> None:
    """Where the run time has them, events are done after `synchronize`, order streams, and count milliseconds."""
    import torch

    ctx.need_device()
    event_cls: Any = getattr(ctx.platform, "Event", None)
    wait: Any = getattr(ctx.platform, "synchronize", None)
    if not callable(event_cls):
        raise Unsupported(f"the run time of {ctx.platform.device_type} has no Event")
    says = "An event is done once what was recorded before it is done, `wait` orders streams by it, and `elapsed_time` "
    says += "gives the milliseconds between two of them."
    hint = "Remove `Event` from the platform where torch has one for the device; else record, wait and time for real."
    device = device_of(ctx)
    work = torch.ones(64, 64, device=device)
    with _blamed(ctx, "Event", says, hint):
        first, last = _timed(event_cls), _timed(event_cls)
        first.record()
        work = work @ work
        time.sleep(_PAUSE)
        last.record()
        if callable(wait):
            wait()
        else:
            last.synchronize()
        done = [getattr(one, "query", lambda: True)() for one in (first, last)]
        passed = first.elapsed_time(last) if hasattr(first, "elapsed_time") else None
    if not all(done):
        raise ctx.fail(
            "Event",
            contract_says=says,
            platform_did=f"after `synchronize`, `query` of two events gave {done}",
            hint=hint,
            location=ctx.locate("Event"),
        )
    if passed is not None and not _PAUSE * 900 <= passed <= _PAUSE * 1000 + 5000:
        raise ctx.fail(
            "Event",
            contract_says=says,
            platform_did=f"between two events with {_PAUSE * 1000:g} ms of waiting `elapsed_time` gave {passed!r}",
            hint="Return milliseconds, as a float, from `elapsed_time`.",
            location=ctx.locate("Event"),
        )
    _order(ctx, device, says, hint)


def _timed(event_cls: Any) -> Any:
    try:
        return event_cls(enable_timing=True)
    except TypeError:
        return event_cls()


def _order(ctx: CheckContext, device: torch.device, says: str, hint: str) -> None:
    """Let one stream compute for a while, and another read the result after an event."""
    import torch

    make: Any = getattr(ctx.platform, "Stream", None)
    enter: Any = getattr(ctx.platform, "stream", None)
    if device.type == "cpu" or not callable(make) or not callable(enter):
        return
    with _blamed(ctx, "Event", says, hint):
        one: Any = make()
        other: Any = make()
        source = torch.zeros(1 << 20, device=device)
        large = torch.randn(4096, 4096, device=device)
        event = ctx.platform.Event()
        entered: tuple[Any, Any] = enter(one), enter(other)
        with entered[0]:
            for _ in range(20):
                large = (large @ large).tanh()
            source += 1
            event.record(one)
        with entered[1]:
            event.wait(other)
            copy = source.clone()
        other.synchronize()
        got = float(copy.min())
        one.synchronize()
    if got != 1.0:
        raise ctx.fail(
            "Event",
            contract_says=says,
            platform_did=f"a stream that waited for an event of another one read {got}, what was there before it",
            hint=hint,
            location=ctx.locate("Event"),
        )


@contextlib.contextmanager
def _blamed(ctx: CheckContext, member: str, says: str, hint: str) -> Generator[None]:
    try:
        yield
    except (Exception, SystemExit) as error:
        place = ctx.blame(error)
        raise ctx.fail(
            member,
            contract_says=says,
            platform_did=f"it raised {describe(error)}{quoted(place)}",
            hint=hint,
            location=place or ctx.locate(member),
        ) from error


@check(
    "device.current-device",
    group="device",
    level=Level.DEVICE,
    engines=("native",),
    needs=_NEEDS,
    asks=("set_device",),
    why="What a worker allocates without naming a device lands on the current one.",
    hint="Let set_device make the device the current one of torch's run time.",
)
def current_device(ctx: CheckContext) -> None:
    """After `set_device` the device is the run time's current one, among those that it counts."""
    import torch

    ctx.need_device()
    count: Any = getattr(ctx.platform, "device_count", None)
    says = "`device_count` says how many devices there are, and after `set_device` the device is the current one."
    if callable(count):
        number: object = count()
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise ctx.fail(
                "device_count",
                contract_says=says,
                platform_did=f"on a machine with the device, `device_count()` gave {kind_of(number)}",
                hint="Return the number of visible devices as an int.",
                location=ctx.locate("device_count"),
            )
    kind: str = ctx.platform.device_type
    ask: Any = getattr(ctx.platform, "current_device", None)
    if kind == "cpu" or not callable(ask):
        return
    many: Any = count() if callable(count) else 1
    last = int(many) - 1
    for index in dict.fromkeys((last, 0)):
        ctx.ask("set_device", torch.device(kind, index), contract_says=says, hint="Take a torch.device.")
        now: object = ask()
        if now != index:
            raise ctx.fail(
                "set_device",
                contract_says=says,
                platform_did=f"after `set_device({kind}:{index})`, `current_device()` gave {kind_of(now)}",
                hint=f"Call torch.{kind}.set_device(device) in `set_device`.",
            )


@check(
    "device.process-group-ranks",
    group="device",
    level=Level.DEVICE,
    engines=("native",),
    needs=(*_NEEDS, "identity.texts", "device.process-group"),
    asks=(_GROUP,),
    why="Tensor parallel workers meet in such a group, each with its rank, and wait for each other for good otherwise.",
    hint="Make the group from the store, the rank and the size that are given.",
)
def process_group_ranks(ctx: CheckContext) -> None:
    """Two processes that make a group with one store meet in it, and their tensors are added up."""
    import torch

    ctx.need_device()
    if not ctx.overridden(_GROUP):
        raise Unsupported(f"{_GROUP} is left to the base")
    kind: str = ctx.platform.device_type
    if kind != "cpu" and getattr(torch, kind).device_count() < 2:
        raise Skip(f"one {kind} device, a group needs two", "run the kit on a machine with two devices")
    says = f"Processes that call `{_GROUP}` with the same store, a rank each and the size form one group."
    hint = (
        f"Pass `prefix_store`, `group_rank`, `group_size` and `timeout` on as they are given in `{_GROUP}`."
    )

    def work(rank: int, folder: Path, say: Say) -> Any:
        from torch._C._distributed_c10d import FileStore, PrefixStore

        device = torch.device("cpu") if kind == "cpu" else torch.device(kind, rank)
        if kind != "cpu":
            ctx.platform.set_device(device)
        say(_GROUP)
        group = ctx.platform.stateless_init_device_torch_dist_pg(
            backend=ctx.attribute("dist_backend"),
            prefix_store=PrefixStore("kit", FileStore(str(folder / "store"), 2)),
            group_rank=rank,
            group_size=2,
            timeout=timedelta(seconds=60),
        )
        say("allreduce in the group")
        tensor = torch.tensor([1.0 + rank, 10.0], device=device)
        group.allreduce([tensor]).wait()
        _groups.append(group)
        return numbers(tensor)

    for end in sorted(on_ranks(2, work, _LIMIT, ctx.blame), key=lambda one: one.hung):
        if end.answer == [3.0, 20.0]:
            continue
        did = f"it raised {end.raised}{quoted(end.place)}" if end.raised else f"it {end.died}"
        if end.hung:
            did = f"it was still in {end.doing} after {_LIMIT:g} s"
        if end.answer is not None:
            did = f"the sum of [1, 10] and [2, 10] was {short(end.answer)} there"
        raise ctx.fail(
            _GROUP,
            contract_says=says,
            platform_did=f"rank {end.rank} of two: {did}",
            hint=hint,
            location=end.place or ctx.locate(_GROUP),
        )


_groups: Final[list[Any]] = []
"""Kept until their process ends: the other rank may still use its end."""
