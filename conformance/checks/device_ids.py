"""The device variable in every shape that launchers and users give it, and the platform's maps of device numbers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

from conformance.context import CheckContext, describe, kind_of, short
from conformance.model import Finding, NotRun, Violation
from conformance.registry import check

_PHYSICAL: Final = "device_id_to_physical_device_id"
_VISIBLE: Final = "logical_device_id_to_visible_device_id"
_BACK: Final = "visible_device_id_to_physical_device_id"
_ENTRY: Final = "device_control_id_to_physical_device_id"
_MAPS: Final = (_PHYSICAL, _VISIBLE, _BACK, _ENTRY)
_MEMORY: Final = "get_device_total_memory"
_QUERIES: Final = (
    "get_device_uuid",
    "get_device_name",
    _MEMORY,
    "get_device_capability",
    "num_compute_units",
)
_NEEDS: Final = ("members.kinds", "members.engine-calls", "device.ids")
_LISTS: Final[tuple[tuple[str, tuple[int, ...]], ...]] = (
    ("0", (0,)),
    ("1", (1,)),
    ("2", (2,)),
    ("3", (3,)),
    ("3,1", (3, 1)),
    ("1,0,2", (1, 0, 2)),
    (" 2 , 0 ", (2, 0)),
    ("5,7,", (5, 7)),
)
"""Values of the variable, and the physical number of each visible device."""

_ODD: Final = (
    "GPU-5f2c8a31-9d1e-4c55-8a0e-6d7c1f2e3b4a",
    "GPU-5f2c8a31",
    "MIG-7a1b2c3d-0e1f-5a6b-8c7d-9e0f1a2b3c4d",
    "MIG-GPU-5f2c8a31-9d1e-4c55-8a0e-6d7c1f2e3b4a/1/0",
    "0,GPU-5f2c8a31",
    "all",
    "-1",
    "0,,1",
    ",",
)
"""Values that are no list of numbers: identifiers, partitions, words, and slips of the keyboard."""

_SLIPS: Final = (KeyError, TypeError, AttributeError, NameError, AssertionError, ZeroDivisionError)
_RAW: Final = (
    "invalid literal for int",
    "list index out of range",
    "tuple index out of range",
    "substring not found",
)


@contextlib.contextmanager
def _set(variable: str, value: str | None) -> Generator[None]:
    before = os.environ.get(variable)
    try:
        os.environ.pop(variable, None)
        if value is not None:
            os.environ[variable] = value
        yield
    finally:
        os.environ.pop(variable, None)
        if before is not None:
            os.environ[variable] = before


def _variable(ctx: CheckContext) -> str:
    name = str(ctx.attribute("device_control_env_var"))
    if "PLACEHOLDER" in name.upper():
        raise NotRun("the platform names no device variable of its own, see identity.device-variable-set")
    return name


def _own_maps(ctx: CheckContext) -> list[str]:
    """The maps that the platform itself has, or whose conversion of one entry it has; the base's are not its own."""
    known = ctx.adapter.members()
    if ctx.overridden(_ENTRY):
        return [one for one in _MAPS if one in known and one != _ENTRY]
    return [one for one in _MAPS if one in known and one != _ENTRY and ctx.overridden(one)]


def _blamed(ctx: CheckContext, member: str) -> str:
    return member if ctx.overridden(member) else _ENTRY


@check(
    "device.id-lists",
    group="device",
    needs=_NEEDS,
    asks=_MAPS,
    why="Launchers give each rank its devices by this variable; a wrong number puts two ranks on one card.",
    hint="Look the number up in the variable's list at each call; leave the maps to the base where you can.",
)
def lists(ctx: CheckContext) -> None:
    """For every list of numbers in the device variable each device has its own physical number, and the way back."""
    variable = _variable(ctx)
    findings = [one for member in _own_maps(ctx) for one in _wrong(ctx, member, variable)]
    if findings:
        raise Violation(*findings[:4])


def _wrong(ctx: CheckContext, member: str, variable: str) -> Iterator[Finding]:
    own = ctx.overridden(member)
    for value, physical in _LISTS:
        if not own and (" " in value or value.endswith(",")):
            continue  # how a list is split is the base's matter
        for index, number in enumerate(physical):
            wanted = index if member == _VISIBLE else number
            says = f"With {variable}={value!r}, `{member}({index})` is {wanted}."
            try:
                with _set(variable, value):
                    got: object = getattr(ctx.platform, member)(index)
            except NotImplementedError:
                return
            except (Exception, SystemExit) as error:
                got = f"raised {describe(error)}"
            else:
                if got == wanted and not isinstance(got, bool):
                    continue
                got = f"gave {kind_of(got)}"
            yield ctx.finding(
                _blamed(ctx, member),
                contract_says=says,
                platform_did=f"it {got}",
                hint=f"Split {variable} at commas when `{_blamed(ctx, member)}` is called, not at import; strip "
                "spaces, drop an empty last entry, and return the number of the entry.",
            )
            return


@check(
    "device.id-errors",
    group="device",
    needs=("device.id-lists",),
    asks=_MAPS,
    why="Users write identifiers, partitions and typing errors there; a bare ValueError surfaces far from it.",
    hint="Raise a ValueError that names the variable and its value, or look the identifier up.",
)
def errors(ctx: CheckContext) -> None:
    """An identifier, a malformed value or a number out of range gives a device, or an error that names the variable."""
    variable = _variable(ctx)
    findings: list[Finding] = []
    for member in _own_maps(ctx):
        found = list(_unclear(ctx, member, variable))
        findings += found[:2]
    if findings:
        raise Violation(*findings[:4])


def _unclear(ctx: CheckContext, member: str, variable: str) -> Iterator[Finding]:
    told = f"an error that names {variable} and its value"
    own = ctx.overridden(member)
    for value in _ODD:
        if not own and "," in value:
            continue  # how a list is split is the base's matter
        why_not = _asked(ctx, member, variable, value, 0)
        if why_not is not None and (value not in ("0,GPU-5f2c8a31", "0,,1") or member == _VISIBLE):
            yield _finding(
                ctx, member, f"With {variable}={value!r}, `{member}(0)` is a device or {told}.", why_not
            )
    if member == _VISIBLE and not ctx.overridden(member):
        return  # the base's own limits are the engine's
    for index, what in ((2, "one more than there are"), (-1, "no device number")):
        if not ctx.overridden(member):
            break
        why_not = _asked(ctx, member, variable, "3,1", index, must_raise=True)
        if why_not is not None:
            yield _finding(
                ctx,
                member,
                f"With {variable}='3,1', `{member}({index})` raises: {index} is {what}.",
                why_not,
            )


def _finding(ctx: CheckContext, member: str, says: str, did: str) -> Finding:
    return ctx.finding(
        _blamed(ctx, member),
        contract_says=says,
        platform_did=did,
        hint="Check the number and each entry of the variable first, and raise a ValueError or IndexError whose "
        "text has the variable's name and its value; never count from the end.",
    )


def _asked(
    ctx: CheckContext, member: str, variable: str, value: str, index: int, *, must_raise: bool = False
) -> str | None:
    """Ask for one device; None where the answer or the error is good, else what it was."""
    try:
        with _set(variable, value):
            got: object = getattr(ctx.platform, member)(index)
    except NotImplementedError:
        return None
    except (Exception, SystemExit) as error:
        text = str(error)
        named = variable in text
        spelled = (
            not isinstance(error, _SLIPS)
            and not any(one in text for one in _RAW)
            and value.rsplit(",", maxsplit=1)[-1] in text
        )
        slip = isinstance(error, _SLIPS) or any(one in text for one in _RAW)
        if not slip and ctx.device_missing():
            return None  # the library that knows the devices is not here
        if named or (spelled and isinstance(error, ValueError | IndexError | RuntimeError)):
            return None
        return f"it raised {describe(error)}, which does not name {variable}"
    if must_raise:
        return f"it gave {kind_of(got)}"
    whole = isinstance(got, int) and not isinstance(got, bool) and got >= 0
    if whole or got == value:
        return None
    return f"it gave {kind_of(got)}"


@check(
    "device.id-queries",
    group="device",
    needs=("members.kinds", "device.id-lists"),
    asks=_QUERIES,
    why="A query that forgets the device variable answers for another worker's card.",
    hint="Turn the device number into a physical one first, in every query that asks a management library.",
)
def queries(ctx: CheckContext) -> None:
    """With the device variable set, each query answers for the device that its number then means."""
    variable = _variable(ctx)
    if not ctx.device_missing() and ctx.attribute("device_type") != "cpu":
        ctx.details["not tried"] = "the device's runtime has read the variable already"
        return
    findings: list[Finding] = []
    for member in _QUERIES:
        if member not in ctx.adapter.members() or not ctx.overridden(member):
            continue
        call: Callable[[int], object] = getattr(ctx.platform, member)
        plain = [_answer(call, variable, None, index) for index in (0, 1)]
        if None in plain or plain[0] == plain[1] or _moves(ctx, call, variable, plain):
            continue  # it knows one device only, cannot answer here, or measures what other programs change
        narrowed = _answer(call, variable, "1", 0)
        if narrowed != plain[1]:
            findings.append(
                ctx.finding(
                    member,
                    contract_says=f"With {variable}='1', `{member}(0)` answers for physical device 1: {plain[1]}.",
                    platform_did=f"it answered {narrowed or 'with an exception'}, and for device 0 with the variable unset it "
                    f"answers {plain[0]}",
                    hint=f"Look up `cls.{_BACK}(device_id)` in `{member}` before you ask the library.",
                )
            )
    if findings:
        raise Violation(*findings)


def _moves(ctx: CheckContext, call: Callable[[int], object], variable: str, plain: list[str | None]) -> bool:
    """Say whether an answer changes by itself, as the host's memory does while other programs run."""
    kind = getattr(ctx.attribute("_enum"), "name", "")
    on_host = "cpu" in (ctx.attribute("device_type"), kind.lower())
    measured = on_host and getattr(call, "__name__", "") == _MEMORY
    return measured or [_answer(call, variable, None, index) for index in (0, 1)] != plain


def _answer(call: Callable[[int], object], variable: str, value: str | None, index: int) -> str | None:
    try:
        with _set(variable, value):
            return short(call(index))
    except (Exception, SystemExit):
        return None


@check(
    "device.count-follows",
    group="device",
    needs=("device.ids", "identity.lists"),
    why="Ray changes the variable after the platform was imported; a count from then hands out devices twice.",
    hint="Count when you are asked, or list in ray_noset_device_env_vars what keeps Ray from changing it.",
)
def count_follows(ctx: CheckContext) -> None:
    """A platform's own `device_count` follows the device variable, or Ray is told to leave that alone."""
    member = "device_count"
    raw: Any = ctx.raw(member)
    if raw is None or member in ctx.adapter.members():
        return
    variable = _variable(ctx)
    count: Any = getattr(ctx.platform, member)
    if not callable(count):
        return
    counts = {value: _answer(lambda _index: count(), variable, value, 0) for value in (None, "0,1", "0")}
    many = counts[None] if counts[None] not in (None, "0", "1") else counts["0,1"]
    if many in (None, "0", "1") or counts["0"] != many:
        return
    if not list(ctx.attribute("ray_noset_device_env_vars")):
        raise ctx.fail(
            member,
            contract_says=f"`{member}()` follows {variable}, or ray_noset_device_env_vars lists the variables that "
            "keep Ray from changing it.",
            platform_did=f"it gives {many} also with {variable}='0', and ray_noset_device_env_vars is empty",
            hint=f"Read {variable} in `{member}` when it is called.",
        )
