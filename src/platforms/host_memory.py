"""How much memory this process may use, as the operating system and its control groups say.

Every function takes the root of the file system, so that a recorded tree can stand in for `/proc`
and `/sys`. A file that is absent or unreadable means "no statement", never an error: containers hide
parts of both trees.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path("/")
_NO_LIMIT: Final = 1 << 60  # version 1 groups spell "unlimited" as the largest page-aligned number
_KIB: Final = 1024


class MemoryState(NamedTuple):
    """Memory in bytes at one moment.

    Args:
        total: what this process could use at most.
        available: what it could still use, reclaimable caches included; `0 <= available <= total`.
    """

    total: int
    available: int

    @property
    def used(self) -> int:
        """Bytes that are taken and cannot be reclaimed."""
        return self.total - self.available


def host_memory(root: Path = ROOT) -> MemoryState | None:
    """Return the memory of this process's world: the machine's, or its control group's if smaller.

    Args:
        root: the root of the file system.

    Returns:
        The state, or None where the operating system says nothing.
    """
    machine = _meminfo(root / "proc/meminfo") or _without_proc(root)
    if machine is None:
        return None
    state = machine
    for limit, used in _group_limits(root):
        if limit >= machine.total:
            continue
        available = max(0, min(machine.available, limit - used))
        state = MemoryState(min(state.total, limit), min(state.available, available, limit))
    return state


def node_memory(node: int, root: Path = ROOT) -> MemoryState | None:
    """Return the memory of one NUMA node, never more than `host_memory` says.

    Args:
        node: the node's number as in `/sys/devices/system/node`.
        root: the root of the file system.

    Returns:
        The state, or None if there is no such node.
    """
    state = _meminfo(root / f"sys/devices/system/node/node{node}/meminfo")
    if state is None:
        return None
    host = host_memory(root)
    if host is None:
        return state
    total = min(state.total, host.total)
    return MemoryState(total, min(state.available, host.available, total))


def _meminfo(path: Path) -> MemoryState | None:
    """Parse `/proc/meminfo` or a node's `meminfo`; the second has no `MemAvailable`."""
    text = read_text(path)
    if text is None:
        return None
    # A node's lines start with "Node 0 "; both give kibibytes.
    found = {
        name: int(value) * _KIB
        for name, value in re.findall(r"^(?:Node\s+\d+\s+)?([\w()]+):\s+(\d+)\s*kB", text, re.MULTILINE)
    }
    total = found.get("MemTotal", 0)
    if total <= 0:
        return None
    available = found.get("MemAvailable")
    if available is None:
        reclaimable = (
            found.get("Active(file)", 0) + found.get("Inactive(file)", 0) + found.get("SReclaimable", 0)
        )
        available = found.get("MemFree", 0) + reclaimable
    return MemoryState(total, max(0, min(available, total)))


def _without_proc(root: Path) -> MemoryState | None:
    """Answer on systems without `/proc`, for the running system only."""
    if root != ROOT:
        return None
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = page * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    if total <= 0:
        return None
    free_pages = _macos_free_pages() if sys.platform == "darwin" else None
    return MemoryState(total, total if free_pages is None else min(total, page * free_pages))


def _macos_free_pages() -> int | None:
    """Count pages that macOS could hand out: free, inactive, speculative and purgeable."""
    import subprocess

    try:
        text = subprocess.run(["vm_stat"], capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    counts = re.findall(r"^Pages (?:free|inactive|speculative|purgeable):\s+(\d+)", text, re.MULTILINE)
    return sum(int(count) for count in counts) if counts else None


def _group_limits(root: Path) -> Iterator[tuple[int, int]]:
    """Yield `(limit, used)` in bytes of the process's memory group and of every group above it."""
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0" and not controllers:
            yield from _walk(root / "sys/fs/cgroup", path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            yield from _walk(
                root / "sys/fs/cgroup/memory",
                path,
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            )


def _walk(mount: Path, path: str, limit: str, used: str, reclaimable: str) -> Iterator[tuple[int, int]]:
    # Inside a container the path may be the host's; then the mount itself is the container's group.
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    for depth in range(len(parts), -1, -1):
        group = mount.joinpath(*parts[:depth])
        bound = _number(group / limit)
        if bound is None or not 0 < bound < _NO_LIMIT:
            continue
        statistics = read_text(group / "memory.stat") or ""
        cache = re.search(rf"^{reclaimable} (\d+)$", statistics, re.MULTILINE)
        taken = (_number(group / used) or 0) - (int(cache.group(1)) if cache else 0)
        yield bound, max(0, taken)


def _number(path: Path) -> int | None:
    text = read_text(path)
    return int(text) if text is not None and text.strip().isdigit() else None


def read_text(path: Path) -> str | None:
    """Read a small text file of `/proc` or `/sys`; None if it is absent or unreadable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None
