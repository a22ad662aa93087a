"""Device level: questions that need the device, asked only where it is on the machine."""

from __future__ import annotations

from typing import Any, Final

from conformance.checks.answers import Expected, judge
from conformance.context import CheckContext, kind_of, short
from conformance.model import Level, Unsupported
from conformance.registry import check

_NEEDS: Final = ("members.kinds", "members.engine-calls", "identity.torch-device")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


_FACTS: Final = (
    ("get_device_name", Expected("the device's name, non-empty text", _is_text, may_decline=True)),
    ("get_device_uuid", Expected("the device's identifier, non-empty text", _is_text, may_decline=True)),
    ("num_compute_units", Expected("a whole number, at least 1", _is_count, may_decline=True)),
    (
        "get_all_gpu_pci_bus_ids",
        Expected("a dict: device number to bus id", lambda value: isinstance(value, dict), may_decline=True),
    ),
)


@check(
    "device.facts",
    group="device",
    level=Level.DEVICE,
    needs=_NEEDS,
    asks=tuple(name for name, _ in _FACTS),
    why="Engines write the name into reports and size kernels by the number of compute units.",
    hint="Answer with the documented type for device 0.",
)
def facts(ctx: CheckContext) -> None:
    """Name, identifier, units and bus ids of device 0 have their documented types."""
    ctx.need_device()
    judge(ctx, _FACTS)


@check(
    "device.memory",
    group="device",
    level=Level.DEVICE,
    needs=_NEEDS,
    asks=("get_device_total_memory", "get_current_memory_usage"),
    why="The engine sizes its KV cache from these numbers, in bytes.",
    hint="Return bytes as an int; do not return 0 where the driver does not say.",
)
def memory(ctx: CheckContext) -> None:
    """Total memory is a positive number of bytes, and the use of it is between 0 and that."""
    ctx.need_device()
    member = "get_device_total_memory"
    says = f"`{member}(0)` gives the memory of the device in bytes, a positive int."
    hint = (
        f"Return bytes as an int from `{member}`; where the library cannot tell, ask torch or the host, or raise "
        "NotSupported."
    )
    total = ctx.ask(member, 0, contract_says=says, hint=hint)
    if not _is_count(total) or total < 2**20:
        small = " (less than 1 MiB: it may count in larger units)" if _is_count(total) else ""
        raise ctx.fail(member, contract_says=says, platform_did=f"it gave {kind_of(total)}{small}", hint=hint)
    member = "get_current_memory_usage"
    says = f"`{member}()` gives the bytes in use, from 0 to the total of {total}."
    try:
        used = ctx.ask(member, contract_says=says, hint=f"Return bytes from `{member}`.")
    except Unsupported:
        return
    if not isinstance(used, int | float) or isinstance(used, bool) or not 0 <= used <= total:
        raise ctx.fail(
            member,
            contract_says=says,
            platform_did=f"it gave {kind_of(used)}",
            hint=f"Return bytes from `{member}`.",
        )


@check(
    "device.seed",
    group="device",
    level=Level.DEVICE,
    needs=_NEEDS,
    asks=("manual_seed_all",),
    why="Every worker seeds the device before it loads a model; equal seeds must give equal numbers.",
    hint="Seed torch's generator of the device in manual_seed_all.",
)
def seed(ctx: CheckContext) -> None:
    """After `manual_seed_all` with one seed, the device draws the same random numbers."""
    import torch

    ctx.need_device()
    member = "manual_seed_all"
    says = f"`{member}(seed)` seeds the device: the same seed gives the same numbers."
    hint = f"Call torch.{ctx.platform.device_type}.manual_seed_all(seed), or torch.manual_seed(seed)."
    draws: list[Any] = []
    for number in (1234, 1234):
        ctx.adapter.seed_before_hook(number)
        ctx.ask(member, number, contract_says=says, hint=hint)
        draws.append(torch.rand(4, device=ctx.platform.device_type).cpu())
    if not torch.equal(draws[0], draws[1]):
        raise ctx.fail(
            member,
            contract_says=says,
            platform_did=f"seed 1234 gave {short(draws[0])} and then {short(draws[1])}",
            hint=hint,
        )


@check(
    "device.set-device",
    group="device",
    level=Level.DEVICE,
    needs=_NEEDS,
    asks=("set_device",),
    why="A worker binds itself to its device with this call, sometimes from a helper thread.",
    hint="Accept torch.device objects with an index; return at once where there is nothing to bind.",
)
def set_device(ctx: CheckContext) -> None:
    """`set_device` takes a torch.device, from the main thread and from another one."""
    import concurrent.futures

    import torch

    ctx.need_device()
    member = "set_device"
    target = torch.device(ctx.platform.device_type, 0)
    says = f"`{member}({target!r})` binds the process to the device, from any thread."
    hint = f"Let `{member}` take a torch.device with an index."
    ctx.ask(member, target, contract_says=says, hint=hint)
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(ctx.ask, member, target, contract_says=says, hint=hint).result()
