"""The three ways to number a device, and the way from one to the other.

- logical: the engine's own, a local rank. It indexes the assigned devices, where there are any.
- visible: the device runtime's, in this process, after the device variable has hidden some.
- physical: the machine's, as management libraries number it; no variable changes it.

The device variable (`CUDA_VISIBLE_DEVICES` and its like) lists the visible devices by physical number
or by identifier. Unset and empty both mean that nothing is hidden: on a node without accelerators,
launchers set it to the empty string. A single trailing comma and spaces are allowed; anything else
that is not a list of distinct devices is an error that names the variable and its value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import cast

Convert = Callable[[str], int]
"""Turns one entry of the device variable into a physical number."""

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_OLD_MIG = re.compile(r"MIG-(GPU-[^/]+)/\d+/\d+", re.ASCII | re.IGNORECASE)

_assigned: tuple[int, ...] | None = None


def assign_physical_devices(ids: Sequence[int] | None) -> None:
    """Say which physical device each logical one is, for this process.

    Args:
        ids: physical numbers by logical number; None forgets the assignment.

    Raises:
        ValueError: a number is negative or occurs twice.
    """
    global _assigned
    if ids is not None:
        ids = tuple(ids)
        if not all(map(_is_number, ids)) or len(set(ids)) != len(ids):
            raise ValueError(f"assigned physical devices are distinct numbers from 0 on, got {list(ids)!r}")
    _assigned = ids


def assigned_physical_devices() -> tuple[int, ...] | None:
    """Return the physical number of each logical device of this process; None without an assignment."""
    return _assigned


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def parse_control(variable: str, value: str | None) -> tuple[str, ...] | None:
    """Split the value of a device variable into its entries.

    Args:
        variable: its name, for messages.
        value: its value; None where it is unset.

    Returns:
        The entries without spaces around them, in order; None where nothing is hidden.

    Raises:
        ValueError: an entry is empty or occurs twice, or a number is negative.
    """
    if value is None or not value.strip():
        return None
    entries = [entry.strip() for entry in value.split(",")]
    if len(entries) > 1 and not entries[-1]:
        del entries[-1]
    if not all(entries):
        raise ValueError(f"{variable}={value!r} has an empty entry: expected devices separated by commas")
    for entry in entries:
        if entry.startswith("-") and _NUMBER.fullmatch(entry[1:]):
            raise ValueError(
                f"{variable}={value!r}: expected devices from 0 on, got {entry} "
                "(to hide all devices, choose another platform)"
            )
    keys = [int(entry) if _NUMBER.fullmatch(entry) else entry.casefold() for entry in entries]
    repeated = sorted({entry for entry, key in zip(entries, keys, strict=True) if keys.count(key) > 1})
    if repeated:
        raise ValueError(f"{variable}={value!r}: expected each device once, got {', '.join(repeated)} twice")
    return tuple(entries)


def visible_entries(variable: str) -> tuple[str, ...] | None:
    """Return the entries of a device variable as this process's environment has it; see `parse_control`."""
    return parse_control(variable, os.environ.get(variable))


def entry_to_physical(entry: str, *, variable: str, device_name: str) -> int:
    """Turn a numeric entry of a device variable into a physical number.

    Args:
        entry: one entry.
        variable: the variable's name, for messages.
        device_name: the platform's device, for messages.

    Raises:
        ValueError: the entry is no number from 0 on; naming the variable and its value.
    """
    text = entry.strip()
    if _NUMBER.fullmatch(text):
        return int(text)
    value = os.environ.get(variable, entry)
    raise ValueError(
        f"{variable}={value!r}: the entry {entry!r} is not a device number, and {device_name} cannot look up "
        "devices by identifier; write the numbers of the devices instead"
    )


def find_by_identifier(entry: str, identifiers: Mapping[str, int], *, variable: str) -> int:
    """Turn an entry that is a number or an identifier into a physical number.

    An identifier may be shortened as long as one device only begins so. A partition in the old
    spelling, `MIG-GPU-<uuid>/<instance>/<instance>`, is found by the device that it is a part of.

    Args:
        entry: one entry: `3`, `GPU-5f2c`, `MIG-…`.
        identifiers: identifier -> physical number, all devices (and partitions) of the machine.
        variable: the variable's name, for messages.

    Raises:
        ValueError: no device or several begin so; naming the variable and its value.
    """
    text = entry.strip()
    if _NUMBER.fullmatch(text):
        return int(text)
    old_partition = _OLD_MIG.fullmatch(text)
    wanted = (old_partition.group(1) if old_partition else text).casefold()
    exact = {number for name, number in identifiers.items() if name.casefold() == wanted}
    found = exact or {number for name, number in identifiers.items() if name.casefold().startswith(wanted)}
    if wanted and len(found) == 1:
        return found.pop()
    what = "several devices begin so" if found else "no device begins so"
    known = ", ".join(identifiers) or "none"
    value = os.environ.get(variable, entry)
    raise ValueError(f"{variable}={value!r}: the entry {entry!r}: {what} (identifiers here: {known})")


def _convert(entry: str, variable: str, convert: Convert) -> int:
    """Turn one entry into a physical number, whatever the platform's own conversion does."""
    value = os.environ.get(variable, entry)
    try:
        number = cast("object", convert(entry))
    except NotImplementedError:
        raise  # the platform says that it cannot look up devices now, or at all
    except Exception as error:
        if isinstance(error, ValueError) and variable in str(error):
            raise
        raise ValueError(
            f"{variable}={value!r}: the entry {entry!r} names no device here: {type(error).__name__}: {error}"
        ) from error
    if not _is_number(number):
        raise ValueError(
            f"{variable}={value!r}: the entry {entry!r} became {number!r}, which is no device number"
        )
    return cast("int", number)


def _check_id(kind: str, device_id: int) -> None:
    if not _is_number(device_id):
        raise ValueError(f"a {kind} device is a number from 0 on, got {device_id!r}")


def visible_to_physical(device_id: int, *, variable: str, convert: Convert) -> int:
    """Return the physical number of a visible device.

    Args:
        device_id: the device runtime's number in this process.
        variable: the device variable.
        convert: turns an entry of the variable into a physical number.

    Raises:
        IndexError: the variable does not list so many devices.
        ValueError: the number, the variable or the entry is malformed.
    """
    _check_id("visible", device_id)
    entries = visible_entries(variable)
    if entries is None:
        return device_id
    if device_id >= len(entries):
        raise IndexError(
            f"device {device_id} does not exist: {variable}={os.environ[variable]!r} makes only "
            f"{len(entries)} visible, numbered from 0"
        )
    return _convert(entries[device_id], variable, convert)


def physical_to_visible(device_id: int, *, variable: str, convert: Convert) -> int:
    """Return the visible number of a physical device.

    Args:
        device_id: the machine's number.
        variable: the device variable.
        convert: turns an entry of the variable into a physical number.

    Raises:
        ValueError: the variable hides the device, or lists one device in two ways, or is malformed.
    """
    _check_id("physical", device_id)
    entries = visible_entries(variable)
    if entries is None:
        return device_id
    physical = [_convert(entry, variable, convert) for entry in entries]
    if len(set(physical)) != len(physical):
        raise ValueError(
            f"{variable}={os.environ[variable]!r}: expected each device once, got the numbers {physical}"
        )
    if device_id not in physical:
        raise ValueError(f"physical device {device_id} is hidden by {variable}={os.environ[variable]!r}")
    return physical.index(device_id)


def logical_to_physical(device_id: int, *, variable: str, convert: Convert) -> int:
    """Return the physical number of a logical device.

    Args:
        device_id: the engine's number, a local rank.
        variable: the device variable.
        convert: turns an entry of the variable into a physical number.

    Raises:
        IndexError: fewer devices are assigned or visible.
        ValueError: the number, the variable or the entry is malformed.
    """
    _check_id("logical", device_id)
    if _assigned is None:
        return visible_to_physical(device_id, variable=variable, convert=convert)
    if device_id >= len(_assigned):
        raise IndexError(
            f"logical device {device_id} does not exist: {len(_assigned)} are assigned, {list(_assigned)} "
            "by physical number (parallel_config.assigned_physical_gpu_ids)"
        )
    return _assigned[device_id]


def logical_to_visible(device_id: int, *, variable: str, convert: Convert) -> int:
    """Return the visible number of a logical device, as `torch.device` takes it.

    Args:
        device_id: the engine's number, a local rank.
        variable: the device variable.
        convert: turns an entry of the variable into a physical number.

    Raises:
        IndexError: fewer devices are assigned or visible.
        ValueError: the assigned device is hidden, or the variable or an entry is malformed.
    """
    physical = logical_to_physical(device_id, variable=variable, convert=convert)
    if _assigned is None:
        # Both numbers count the visible devices then. The way back would not do where two of them are
        # parts of one physical device.
        return device_id
    return physical_to_visible(physical, variable=variable, convert=convert)
