"""The TPU chips of this host, by their PCI identifiers.

The TPU run time gives a chip to one process at a time, so it must not be started to answer a question.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

from platforms.host_memory import ROOT, read_text

_GOOGLE: Final = "0x1ae0"
_GIB: Final = 1024**3


@attrs.frozen
class Chip:
    """One kind of chip.

    Args:
        name: as Google Cloud calls it.
        memory: bytes of its high-bandwidth memory.
        cores: tensor cores.
    """

    name: str
    memory: int
    cores: int


_CHIPS: Final = {
    "0x005e": Chip("TPU v4", 32 * _GIB, 2),
    "0x0062": Chip("TPU v5p", 95 * _GIB, 2),
    "0x0063": Chip("TPU v5e", 16 * _GIB, 1),
    "0x006f": Chip("TPU v6e", 32 * _GIB, 1),
}


def chips(root: Path = ROOT) -> list[Chip]:
    """Return the chips of this host, in order of their PCI addresses.

    Args:
        root: the root of the file system.
    """
    try:
        devices = sorted((root / "sys/bus/pci/devices").iterdir())
    except OSError:
        return []
    found = [
        _CHIPS.get((read_text(device / "device") or "").strip())
        for device in devices
        if (read_text(device / "vendor") or "").strip() == _GOOGLE
    ]
    return [chip for chip in found if chip is not None]
