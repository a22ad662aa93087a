"""Facts about the host's processor: its name, the cores this process may run on, and NUMA nodes.

As in `host_memory`, functions take the root of the file system, and an absent file is no error.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

from platforms.host_memory import ROOT, read_text

_NAME_KEYS: Final = ("model name", "Model Name", "Processor", "cpu model", "cpu", "uarch", "processor 0")
"""Where `/proc/cpuinfo` has a name: x86, LoongArch, old ARM, MIPS, POWER, RISC-V, s390x."""


def parse_id_list(text: str) -> list[int]:
    """Parse the kernel's list format, `"0-2,4"`, to sorted distinct numbers.

    Args:
        text: the list; empty gives an empty list.

    Returns:
        The numbers, ascending.

    Raises:
        ValueError: a part is neither a number nor a range of two.
    """
    found: set[int] = set()
    for part in text.strip().split(","):
        if not part.strip():
            continue
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+)(?::(\d+)/(\d+))?)?\s*", part)
        if match is None:
            raise ValueError(f"expected numbers and ranges such as 0-2,4, got {part!r} in {text!r}")
        first, last = int(match.group(1)), int(match.group(2) or match.group(1))
        used, group = int(match.group(3) or 1), int(match.group(4) or 1)
        if last < first or group < 1:
            raise ValueError(f"the range {part!r} in {text!r} is empty")
        found.update(number for number in range(first, last + 1) if (number - first) % group < used)
    return sorted(found)


def usable_cpus() -> list[int]:
    """Return the numbers of the logical processors that this process may run on, ascending.

    The affinity mask counts where the system has one; elsewhere all processors do.
    """
    if sys.platform != "darwin" and hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def processor_name(root: Path = ROOT) -> str:
    """Return the processor's marketing name; the architecture's name where there is none.

    Args:
        root: the root of the file system.
    """
    fields: dict[str, str] = {}
    for line in (read_text(root / "proc/cpuinfo") or "").splitlines():
        key, colon, value = line.partition(":")
        if colon and value.strip():
            fields.setdefault(key.strip(), value.strip())
    for key in _NAME_KEYS:
        if key in fields and not fields[key].isdigit():
            return _machine_of_s390x(fields[key]) if key == "processor 0" else " ".join(fields[key].split())
    if root == ROOT and sys.platform == "darwin":
        named = _sysctl("machdep.cpu.brand_string")
        if named:
            return named
    import platform

    return platform.machine() or "cpu"


def _machine_of_s390x(text: str) -> str:
    machine = re.search(r"machine\s*=\s*(\w+)", text)
    return f"IBM Z {machine.group(1)}" if machine else "IBM Z"


def machine_id(root: Path = ROOT) -> str | None:
    """Return this installation's own stable identifier; None where it has none.

    Args:
        root: the root of the file system.

    Returns:
        32 hexadecimal digits in lower case.
    """
    for path in ("etc/machine-id", "var/lib/dbus/machine-id"):
        text = (read_text(root / path) or "").strip().lower()
        if re.fullmatch(r"[0-9a-f]{32}", text):
            return text
    return _macos_hardware_id() if root == ROOT and sys.platform == "darwin" else None


def _macos_hardware_id() -> str | None:
    """Return the identifier of this Mac's hardware."""
    found = re.search(
        r'"IOPlatformUUID" = "([0-9A-Fa-f-]{36})"',
        _output("ioreg", "-rd1", "-c", "IOPlatformExpertDevice"),
    )
    return found.group(1).replace("-", "").lower() if found else None


def macos_has_bfloat16() -> bool:
    """Say whether this Mac's processor multiplies bfloat16 itself."""
    return sys.platform == "darwin" and _sysctl("hw.optional.arm.FEAT_BF16") == "1"


def _sysctl(name: str) -> str:
    # An unknown name makes the command fail, which then means "no".
    return _output("sysctl", "-n", name)


def _output(*command: str) -> str:
    import subprocess

    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def numa_nodes(root: Path = ROOT) -> list[int]:
    """Return the numbers of the NUMA nodes, ascending; empty where the system has no such notion.

    Args:
        root: the root of the file system.
    """
    try:
        names = [entry.name for entry in (root / "sys/devices/system/node").iterdir()]
    except OSError:
        return []
    return sorted(int(match.group(1)) for name in names if (match := re.fullmatch(r"node(\d+)", name)))


def cpus_of_node(node: int, root: Path = ROOT) -> list[int]:
    """Return the logical processors of a NUMA node, ascending; empty for a memory-only node.

    Args:
        node: the node's number.
        root: the root of the file system.
    """
    text = read_text(root / f"sys/devices/system/node/node{node}/cpulist")
    return _ids_or_none(text) or []


def node_of_cpu(cpu: int, root: Path = ROOT) -> int | None:
    """Return the NUMA node that a logical processor belongs to; None if no node lists it."""
    for node in numa_nodes(root):
        if cpu in cpus_of_node(node, root):
            return node
    return None


def one_cpu_per_core(node: int, *, highest: bool, root: Path = ROOT) -> list[int]:
    """Return one logical processor for each physical core of a NUMA node, ascending.

    Args:
        node: the node's number.
        highest: take the highest-numbered sibling of each core, else the lowest.
        root: the root of the file system.
    """
    chosen: set[int] = set()
    for cpu in cpus_of_node(node, root):
        siblings = _ids_or_none(
            read_text(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        ) or [cpu]
        chosen.add(max(siblings) if highest else min(siblings))
    return sorted(chosen)


def _ids_or_none(text: str | None) -> list[int] | None:
    try:
        return parse_id_list(text) if text is not None else None
    except ValueError:
        return None
