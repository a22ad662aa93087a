"""Device level: questions that need the device, asked only where it is on the machine."""

from __future__ import annotations

from typing import Any, Final

from conformance.checks.answers import Expected, judge
from conformance.context import CheckContext, is_a, kind_of, short
from conformance.model import Level, Skip, Unsupported
from conformance.registry import check

_NEEDS: Final = ("members.kinds", "members.engine-calls", "identity.torch-device")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


_FACTS: Final = (
    (
        "get_device_name",
        Expected("the device's name, non-empty text", _is_text, may_decline=True, steady=True),
    ),
    (
        "get_device_uuid",
        Expected("the device's identifier, non-empty text", _is_text, may_decline=True, steady=True),
    ),
    (
        "num_compute_units",
        Expected("a whole number, at least 1", _is_count, may_decline=True, steady=True),
    ),
    (
        "get_all_gpu_pci_bus_ids",
        Expected(
            "a dict: device number to bus id",
            lambda value: isinstance(value, dict),
            may_decline=True,
            steady=True,
        ),
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
    ctx.need_device(memory=False)
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
    ctx.need_device(memory=False)
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
    """After `manual_seed_all` the device draws the same random numbers for one seed, others for another."""
    import torch

    ctx.need_device()
    member = "manual_seed_all"
    says = f"`{member}(seed)` seeds the device: the same seed gives the same numbers, another seed others."
    own = hasattr(getattr(torch, ctx.platform.device_type, None), member)
    hint = f"Call torch.{f'{ctx.platform.device_type}.{member}' if own else 'manual_seed'}(seed)."
    draws: list[Any] = []
    for number in (1234, 1234, 4321):
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
    if torch.equal(draws[0], draws[2]):
        raise ctx.fail(
            member,
            contract_says=says,
            platform_did=f"seeds 1234 and 4321 both gave {short(draws[0])}",
            hint=f"Pass on the seed that `{member}` is given. {hint}",
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

    ctx.need_device(memory=False)
    member = "set_device"
    target = torch.device(ctx.platform.device_type, 0)
    says = f"`{member}({target!r})` binds the process to the device, from any thread."
    hint = f"Let `{member}` take a torch.device with an index."
    ctx.ask(member, target, contract_says=says, hint=hint)
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(ctx.ask, member, target, contract_says=says, hint=hint).result()


@check(
    "device.process-group",
    group="device",
    level=Level.DEVICE,
    needs=(*_NEEDS, "identity.texts"),
    asks=("stateless_init_device_torch_dist_pg",),
    why="Workers move tensors in such groups, and other groups come and go beside them.",
    hint="Return a torch ProcessGroup of your own making, and leave torch's default group alone.",
)
def process_group(ctx: CheckContext) -> None:
    """A group of one process is a torch ProcessGroup, and torch's global state does not know it."""
    from datetime import timedelta

    from torch import distributed

    ctx.need_device(memory=False)
    member = "stateless_init_device_torch_dist_pg"
    backend: str = ctx.attribute("dist_backend")
    if not ctx.overridden(member):
        raise Unsupported(f"{member} is left to the base")
    if not distributed.is_available():
        raise Skip("this build of torch has no torch.distributed", "install one that has it")
    if not backend or (backend == "gloo" and ctx.adapter.name != "native"):
        # vLLM makes the groups of gloo itself, and asks for those of other backends.
        raise Unsupported(f"no engine asks {member} for a group of the backend {backend!r}")
    says = (
        f"`{member}` returns a torch.distributed.ProcessGroup with the rank and the size that it is asked for, "
        "and sets up no default group."
    )
    hint = f"Return from `{member}` a ProcessGroup made from its arguments, without init_process_group."
    # Not before: a torch without torch.distributed lacks the module.
    from torch._C._distributed_c10d import HashStore, PrefixStore

    had_default = distributed.is_initialized()
    made = ctx.ask(
        member,
        contract_says=says,
        hint=hint,
        backend=backend,
        prefix_store=PrefixStore("conformance", HashStore()),
        group_rank=0,
        group_size=1,
        timeout=timedelta(seconds=20),
    )
    did = ""
    if not is_a(made, distributed.ProcessGroup):
        did = f"it gave {kind_of(made)}"
    elif (made.rank(), made.size()) != (0, 1):
        did = f"asked for rank 0 of 1, it gave rank {made.rank()} of {made.size()}"
    elif distributed.is_initialized() and not had_default:
        did = "after it, torch.distributed has a default group"
    if did:
        raise ctx.fail(member, contract_says=says, platform_did=did, hint=hint)
