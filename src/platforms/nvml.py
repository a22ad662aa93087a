"""NVML, the management library of NVIDIA devices, as far as the CUDA platform uses it.

NVML answers without creating a CUDA context and always counts physical devices: no environment
variable changes what index 0 means to it. The Python binding has no types, hence the Protocol.
"""

# ruff: noqa: D102, N802, N815  the names are the library's, and so are their meanings
from __future__ import annotations

import importlib
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, NewType, Protocol, cast

_logger = logging.getLogger(__name__)

Handle = NewType("Handle", object)
"""A device or MIG instance, as NVML hands it out; valid within one session."""

CORES_PER_MULTIPROCESSOR: Final = {
    (5, 0): 128, (5, 2): 128, (5, 3): 128,
    (6, 0): 64, (6, 1): 128, (6, 2): 128,
    (7, 0): 64, (7, 2): 64, (7, 5): 64,
    (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128, (10, 3): 128, (11, 0): 128, (12, 0): 128, (12, 1): 128,
}  # fmt: skip
"""CUDA cores of one multiprocessor by compute capability; NVML counts cores only."""


class Memory(Protocol):
    """What NVML says of memory, in bytes."""

    total: int
    used: int


class PciInfo(Protocol):
    """Where a device sits on the bus."""

    busId: str | bytes


class Attributes(Protocol):
    """The shape of a MIG instance."""

    multiprocessorCount: int


class Nvml(Protocol):
    """The functions of `pynvml` that are used here, under their names."""

    NVMLError: type[Exception]
    NVML_P2P_CAPS_INDEX_NVLINK: int
    NVML_P2P_STATUS_OK: int

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> Handle: ...
    def nvmlDeviceGetHandleByUUID(self, uuid: str, /) -> Handle: ...
    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Handle, /) -> Handle: ...
    def nvmlDeviceIsMigDeviceHandle(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetIndex(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetName(self, handle: Handle, /) -> str | bytes: ...
    def nvmlDeviceGetUUID(self, handle: Handle, /) -> str | bytes: ...
    def nvmlDeviceGetMemoryInfo(self, handle: Handle, /) -> Memory: ...
    def nvmlDeviceGetCudaComputeCapability(self, handle: Handle, /) -> Sequence[int]: ...
    def nvmlDeviceGetNumGpuCores(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetAttributes(self, handle: Handle, /) -> Attributes: ...
    def nvmlDeviceGetPciInfo(self, handle: Handle, /) -> PciInfo: ...
    def nvmlDeviceGetP2PStatus(self, one: Handle, other: Handle, index: int, /) -> int: ...
    def nvmlDeviceGetNumaNodeId(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetCpuAffinity(self, handle: Handle, words: int, /) -> Sequence[int]: ...


class NvmlMissing(Exception):
    """There is no NVML here: no binding, no library, or a driver that does not start it."""


class NvmlRefused(Exception):
    """NVML runs, but does not answer this question for this device."""


@contextmanager
def session() -> Generator[Nvml, None, None]:
    """Start NVML for the time of a `with` block.

    Sessions nest: NVML counts them. Errors of NVML inside the block become `NvmlRefused`.

    Yields:
        The library.

    Raises:
        NvmlMissing: it cannot be imported or started.
        NvmlRefused: a call inside the block failed in NVML.
    """
    try:
        library = cast("Nvml", importlib.import_module("pynvml"))
    except ImportError as error:
        raise NvmlMissing("the package nvidia-ml-py is not installed") from error
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise NvmlMissing(f"NVML does not start: {error}") from error
    try:
        yield library
    except library.NVMLError as error:
        raise NvmlRefused(str(error)) from error
    finally:
        try:
            library.nvmlShutdown()
        except library.NVMLError as error:
            # The answer is there already; other code of this process may have shut NVML down for all.
            _logger.debug("NVML did not shut down: %s", error)


def available() -> bool:
    """Say whether NVML is here and starts."""
    try:
        with session():
            return True
    except NvmlMissing:
        return False


def as_text(value: str | bytes) -> str:
    """Decode what older bindings give as bytes, without the padding of fixed-size fields."""
    text = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
    return text.rstrip("\x00")


def is_mig(library: Nvml, handle: Handle) -> bool:
    """Say whether the handle is a MIG instance; drivers that know no MIG have none."""
    try:
        return bool(library.nvmlDeviceIsMigDeviceHandle(handle))
    except (library.NVMLError, AttributeError):
        # Bindings that know no MIG lack the function.
        return False


def is_known(library: Nvml, identifier: str) -> bool:
    """Say whether a device answers to what `CUDA_VISIBLE_DEVICES` may hold; see `handle_by_identifier`."""
    try:
        handle_by_identifier(library, identifier)
    except ValueError:
        return False
    return True


def whole_device(library: Nvml, handle: Handle) -> Handle:
    """Return the physical device of a MIG instance, or the handle itself."""
    return library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle) if is_mig(library, handle) else handle


def handle_by_identifier(library: Nvml, identifier: str) -> Handle:
    """Find a device by what `CUDA_VISIBLE_DEVICES` may hold.

    Args:
        library: NVML, within a session.
        identifier: a physical index; or the UUID of a device or MIG instance; or the beginning of a
            device's UUID, which CUDA takes where it is unambiguous.

    Returns:
        The handle.

    Raises:
        ValueError: no device, or more than one, answers to it.
    """
    if identifier.isdecimal():
        count = library.nvmlDeviceGetCount()
        if int(identifier) >= count:
            raise ValueError(f"there is no device {identifier}: NVML counts {count}")
        return library.nvmlDeviceGetHandleByIndex(int(identifier))
    try:
        return library.nvmlDeviceGetHandleByUUID(identifier)
    except library.NVMLError:
        handles = [library.nvmlDeviceGetHandleByIndex(i) for i in range(library.nvmlDeviceGetCount())]
    matching = [h for h in handles if as_text(library.nvmlDeviceGetUUID(h)).startswith(identifier)]
    if identifier.startswith("GPU-") and len(matching) == 1:
        return matching[0]
    found = "no device" if not matching else f"{len(matching)} devices"
    raise ValueError(f"{found} of this machine answer to {identifier!r}")
