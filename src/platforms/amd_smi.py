"""amdsmi, the management library of AMD devices, as far as the ROCm platform uses it.

It answers without creating a HIP context and counts physical devices whatever the visibility
variables say. The Python binding has no types, hence the Protocol.
"""

# ruff: noqa: D102  the names are the library's, and so are their meanings
from __future__ import annotations

import importlib
import logging
import os
import re
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NewType, Protocol, cast

_logger = logging.getLogger(__name__)

Handle = NewType("Handle", object)
"""A device, as amdsmi hands it out; valid within one session."""

LINK_XGMI: Final = 2
"""The link type of AMD's own interconnect, as `amdsmi_topo_get_link_type` numbers it."""


class MemoryTypes(Protocol):
    """The enumeration of memory kinds."""

    VRAM: object


class AmdSmi(Protocol):
    """The functions of `amdsmi` that are used here, under their names."""

    AmdSmiException: type[Exception]
    AmdSmiMemoryType: MemoryTypes

    def amdsmi_init(self) -> None: ...
    def amdsmi_shut_down(self) -> None: ...
    def amdsmi_get_processor_handles(self) -> Sequence[Handle]: ...
    def amdsmi_get_gpu_asic_info(self, handle: Handle, /) -> Mapping[str, object]: ...
    def amdsmi_get_gpu_device_uuid(self, handle: Handle, /) -> str: ...
    def amdsmi_get_gpu_device_bdf(self, handle: Handle, /) -> str: ...
    def amdsmi_get_gpu_memory_total(self, handle: Handle, kind: object, /) -> int: ...
    def amdsmi_get_gpu_memory_usage(self, handle: Handle, kind: object, /) -> int: ...
    def amdsmi_topo_get_link_type(self, one: Handle, other: Handle, /) -> Mapping[str, int]: ...
    def amdsmi_topo_get_numa_node_number(self, handle: Handle, /) -> int: ...


class AmdSmiMissing(Exception):
    """There is no amdsmi here, or its driver does not start."""


class AmdSmiRefused(Exception):
    """amdsmi runs, but does not answer this question for this device."""


@contextmanager
def session() -> Generator[AmdSmi, None, None]:
    """Start amdsmi for the time of a `with` block; its errors inside become `AmdSmiRefused`.

    Sessions nest and may overlap in threads: amdsmi does not count them, so it is shut down with the last.

    Yields:
        The library.

    Raises:
        AmdSmiMissing: it cannot be imported or started.
        AmdSmiRefused: a call inside the block failed in amdsmi.
    """
    try:
        library = cast("AmdSmi", importlib.import_module("amdsmi"))
    except (ImportError, OSError, KeyError, AttributeError) as error:
        # The binding looks for its shared library while it is imported, and fails in several ways.
        raise AmdSmiMissing(f"amdsmi cannot be imported: {error}") from error
    with _users.lock:
        if not _users.count:
            try:
                library.amdsmi_init()
            except library.AmdSmiException as error:
                raise AmdSmiMissing(f"amdsmi does not start: {error}") from error
        _users.count += 1
    try:
        yield library
    except library.AmdSmiException as error:
        raise AmdSmiRefused(str(error)) from error
    finally:
        with _users.lock:
            _users.count -= 1
            if not _users.count:
                _shut_down(library)


def _shut_down(library: AmdSmi) -> None:
    try:
        library.amdsmi_shut_down()
    except library.AmdSmiException as error:
        # The answer is there already.
        _logger.debug("amdsmi did not shut down: %s", error)


class _Users:
    """How many sessions of this process are open."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin with none; in a forked child too, whose other threads and their sessions are gone."""
        self.lock = threading.Lock()
        self.count = 0


_users: Final = _Users()
os.register_at_fork(after_in_child=_users.start)


def _field(about: Mapping[str, object], name: str) -> str:
    """Return a field of amdsmi's description of a device as text.

    Raises:
        AmdSmiRefused: this driver does not know it, which amdsmi spells `N/A`.
    """
    text = str(about.get(name, "")).strip()
    if text.upper() in ("", "N/A"):
        raise AmdSmiRefused(f"amdsmi does not know {name}")
    return text


def _number(text: str) -> int:
    """Return a number that amdsmi gave.

    Raises:
        AmdSmiRefused: it is none.
    """
    try:
        return int(text, 0)
    except ValueError as error:
        raise AmdSmiRefused(f"amdsmi answered {text!r} where a number was expected") from error


def normalize_arch(name: str) -> str:
    """Reduce an architecture's name to `gfx` and its digits: `gfx942:sramecc+` is `gfx942`.

    Older drivers spell the hexadecimal stepping of `gfx90a` in decimal, `gfx9010`.
    """
    base = name.strip().lower().partition(":")[0]
    match = re.fullmatch(r"gfx9(\d)(1[0-5])", base)
    return f"gfx9{match.group(1)}{int(match.group(2)):x}" if match else base


def capability_of(arch: str) -> tuple[int, int] | None:
    """Derive `(major, minor)` from an architecture's name, as HIP does.

    The last two characters are the minor number and the stepping, the digits before them the major.

    Args:
        arch: for example `"gfx942"`, which gives `(9, 4)`.

    Returns:
        The capability, or None if this is no such name.
    """
    match = re.fullmatch(r"gfx(\d{1,2})([0-9])([0-9a-f])", normalize_arch(arch))
    return (int(match.group(1)), int(match.group(2))) if match else None


def arch(library: AmdSmi, handle: Handle) -> str:
    """Return a device's architecture, `gfx942`."""
    return normalize_arch(_field(library.amdsmi_get_gpu_asic_info(handle), "target_graphics_version"))


def name(library: AmdSmi, handle: Handle) -> str:
    """Return a device's product name, else that of its architecture."""
    about = library.amdsmi_get_gpu_asic_info(handle)
    known = _NAMES.get(str(about.get("device_id")).lower())
    try:
        return known or _field(about, "market_name")
    except AmdSmiRefused:
        return f"AMD {arch(library, handle)}"


def uuid(library: AmdSmi, handle: Handle) -> str:
    """Return a device's UUID."""
    return _field({"uuid": library.amdsmi_get_gpu_device_uuid(handle)}, "uuid")


def total_memory(library: AmdSmi, handle: Handle) -> int:
    """Return a device's memory in bytes."""
    return _number(str(library.amdsmi_get_gpu_memory_total(handle, library.AmdSmiMemoryType.VRAM)))


def used_memory(library: AmdSmi, handle: Handle) -> int:
    """Return the bytes of a device's memory that are in use."""
    return _number(str(library.amdsmi_get_gpu_memory_usage(handle, library.AmdSmiMemoryType.VRAM)))


def compute_units(library: AmdSmi, handle: Handle) -> int:
    """Return the number of a device's compute units."""
    return _number(_field(library.amdsmi_get_gpu_asic_info(handle), "num_compute_units"))


def numa_node(library: AmdSmi, handle: Handle) -> int:
    """Return the NUMA node that a device is attached to; negative where the machine has no such notion."""
    return _number(str(library.amdsmi_topo_get_numa_node_number(handle)))


def all_linked(library: AmdSmi, handles: Sequence[Handle]) -> bool:
    """Say whether each device reaches each other one over XGMI in one hop."""
    links = [
        library.amdsmi_topo_get_link_type(one, other)
        for i, one in enumerate(handles)
        for other in handles[i + 1 :]
    ]
    return all(link["hops"] == 1 and link["type"] == LINK_XGMI for link in links)


_NAMES: Final = {
    "0x74a0": "AMD Instinct MI300A",
    "0x74a1": "AMD Instinct MI300X",
    "0x74b5": "AMD Instinct MI300X",
    "0x74a2": "AMD Instinct MI308X",
    "0x74a5": "AMD Instinct MI325X",
    "0x74b9": "AMD Instinct MI325X",
    "0x744c": "AMD Radeon RX 7900 XTX",
    "0x150e": "AMD Radeon 890M",
    "0x1586": "AMD Radeon 8060S",
    "0x7550": "AMD Radeon RX 9070 XT",
    "0x7551": "AMD Radeon AI PRO R9700",
}
"""Product names by PCI device id, for devices whose driver gives several names, or none."""
