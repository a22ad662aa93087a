"""What a platform says of its memory: in bytes, steady, and the same whichever query is asked."""

from __future__ import annotations

import os
from typing import Any, Final

from conformance.context import CheckContext, describe, is_a, kind_of
from conformance.model import Level, Unsupported
from conformance.registry import check

_TOTAL: Final = "get_device_total_memory"
_INFO: Final = "mem_get_info"
_SLACK: Final = 1.02
_LEAST: Final = 64 << 20
_MOST: Final = 1 << 50
_SMALL: Final = (
    "Multiply by 1024, or 1024 * 1024, where the library counts in KiB or MiB: the engine takes bytes."
)


def _total(ctx: CheckContext) -> int:
    says = f"`{_TOTAL}(0)` gives the memory of the device in bytes."
    return int(ctx.ask(_TOTAL, 0, contract_says=says, hint=f"Return bytes as an int from `{_TOTAL}`."))


@check(
    "device.memory-plausible",
    group="device",
    level=Level.DEVICE,
    needs=("device.memory",),
    asks=(_TOTAL,),
    why="A total in other units, or what is free just now, plans a cache that does not fit.",
    hint="Return the device's whole memory, in bytes, the same at each call.",
)
def plausible(ctx: CheckContext) -> None:
    """Total memory is a number of bytes that a device can have, and the same at each call."""
    ctx.need_device()
    totals = {_total(ctx)}
    held = bytearray(32 << 20)
    totals |= {_total(ctx) for _ in range(3)}
    del held
    says = f"`{_TOTAL}(0)` gives the device's whole memory in bytes, the same number each time."
    total = max(totals)
    if len(totals) > 1:
        raise ctx.fail(
            _TOTAL,
            contract_says=says,
            platform_did=f"four calls gave {', '.join(map(str, sorted(totals)))}",
            hint="Return the whole memory; what is free or in use now is for get_current_memory_usage.",
        )
    if not _LEAST <= total <= _MOST:
        unit = "KiB or MiB" if total < _LEAST else "bits, or bytes times 1024"
        raise ctx.fail(
            _TOTAL,
            contract_says=says,
            platform_did=f"it gave {total}, which looks like {unit}",
            hint=_SMALL if total < _LEAST else "Divide by 8, or by 1024: the engine takes bytes.",
        )
    host = _of_host() if ctx.platform.device_type == "cpu" else 0
    if host and host / _SLACK <= total * 1024 <= host * _SLACK:
        raise ctx.fail(
            _TOTAL,
            contract_says=says,
            platform_did=f"it gave {total}, and this host has {host} bytes: it counts in KiB",
            hint=_SMALL,
        )


def _of_host() -> int:
    """The bytes of this host's memory; 0 where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


@check(
    "device.memory-agrees",
    group="device",
    level=Level.DEVICE,
    needs=("device.memory-plausible",),
    asks=(_TOTAL,),
    why="Workers ask the runtime for free and total memory, and the front end asks the platform.",
    hint="Define mem_get_info on the platform where the runtime's own answers for something else.",
)
def agrees(ctx: CheckContext) -> None:
    """`mem_get_info`, where there is one, gives 0 < free ≤ total, and the total of `get_device_total_memory`."""
    ctx.need_device()
    info: Any = getattr(ctx.platform, _INFO, None)
    if not callable(info):
        return
    try:
        total: int | None = _total(ctx)
    except Unsupported:
        total = None
    variable = str(ctx.attribute("device_control_env_var"))
    before = os.environ.get(variable)
    try:
        _judge(ctx, info, total, "")
        for value in ("0", "1"):  # as the launcher narrows it for a worker
            os.environ[variable] = value
            _judge(ctx, info, None, f" with {variable}={value!r}")
    except _NoAnswer as reason:
        ctx.details[_INFO] = str(reason)
    finally:
        os.environ.pop(variable, None)
        if before is not None:
            os.environ[variable] = before


class _NoAnswer(Exception):
    """The runtime cannot say it here, or has no such device."""


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _judge(ctx: CheckContext, info: Any, total: int | None, when: str) -> None:
    says = f"`{_INFO}()` gives a pair of whole numbers of bytes, 0 < free ≤ total."
    hint = f"Return (free, total) in bytes of the one device from `{_INFO}`."
    try:
        answer = info()
    except (Exception, SystemExit) as error:
        if ctx.raw(_INFO) is None or when:
            raise _NoAnswer(f"{_INFO}{when} raised {describe(error)}") from error
        raise ctx.raised(_INFO, error, contract_says=says, hint=hint) from error
    good = is_a(answer, tuple, list) and len(answer) == 2 and all(map(_is_whole, answer))
    if not good:
        raise ctx.fail(_INFO, contract_says=says, platform_did=f"it gave {kind_of(answer)}{when}", hint=hint)
    free, whole = answer
    if not 0 < free <= whole:
        raise ctx.fail(
            _INFO,
            contract_says=says,
            platform_did=f"it gave free {free} and total {whole}{when}",
            hint=f"Return from `{_INFO}` the free and total bytes of the first device that the variable leaves visible, "
            "free measured at the call.",
        )
    if total is not None and not total / _SLACK <= whole <= total * _SLACK:
        ratio = max(whole / total, total / whole)
        units = " (they differ by a factor of a unit)" if round(ratio) in (1000, 1024, 1 << 20, 10**6) else ""
        raise ctx.fail(
            _INFO,
            contract_says=f"The total of `{_INFO}` is that of `{_TOTAL}`, within 2 %.",
            platform_did=f"`{_INFO}` says {whole}{when} and `{_TOTAL}(0)` {total}{units}",
            hint=f"Let `{_INFO}` and `{_TOTAL}` both give the bytes of one device, not of all linked ones; define "
            f"`{_INFO}` on the platform where the runtime's own counts them together.",
        )
