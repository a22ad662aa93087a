"""Facts of `platforms.host_memory`, on recorded trees of `/proc` and `/sys`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from platforms import host_memory as host_memory_module
from platforms.host_memory import MemoryState, host_memory, node_memory

GIB = 1024**3
MEMINFO = """\
MemTotal:       65843236 kB
MemFree:         1203940 kB
MemAvailable:   32000000 kB
Buffers:          883436 kB
Active(file):   12000000 kB
Inactive(file):  9000000 kB
"""
NODE = """\
Node 1 MemTotal:       33000000 kB
Node 1 MemFree:         5000000 kB
Node 1 MemUsed:        28000000 kB
Node 1 Active(file):    2000000 kB
Node 1 Inactive(file):  3000000 kB
Node 1 SReclaimable:    1000000 kB
"""


def write(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    write(tmp_path, "proc/meminfo", MEMINFO)
    return tmp_path


def test_a_machine_without_groups_answers_from_meminfo(machine: Path) -> None:
    """Total and available are MemTotal and MemAvailable, in bytes."""
    assert host_memory(machine) == MemoryState(65843236 * 1024, 32000000 * 1024)


def test_used_is_what_is_neither_free_nor_reclaimable(machine: Path) -> None:
    """`used` is total minus available."""
    state = host_memory(machine)
    assert state is not None
    assert state.used == (65843236 - 32000000) * 1024


def test_version_2_limit_of_the_own_group_counts(machine: Path) -> None:
    """A v2 group's limit is the total, and its file cache is not used memory."""
    write(machine, "proc/self/cgroup", "0::/user.slice/job.scope\n")
    group = "sys/fs/cgroup/user.slice/job.scope"
    write(machine, f"{group}/memory.max", f"{4 * GIB}\n")
    write(machine, f"{group}/memory.current", f"{3 * GIB}\n")
    write(machine, f"{group}/memory.stat", f"anon {GIB}\ninactive_file {GIB}\n")
    assert host_memory(machine) == MemoryState(4 * GIB, 2 * GIB)


def test_the_tightest_group_of_the_chain_counts(machine: Path) -> None:
    """A limit of a group above the own one binds too."""
    write(machine, "proc/self/cgroup", "0::/outer/inner\n")
    write(machine, "sys/fs/cgroup/outer/memory.max", f"{2 * GIB}\n")
    write(machine, "sys/fs/cgroup/outer/memory.current", f"{GIB}\n")
    write(machine, "sys/fs/cgroup/outer/inner/memory.max", f"{8 * GIB}\n")
    write(machine, "sys/fs/cgroup/outer/inner/memory.current", "0\n")
    assert host_memory(machine) == MemoryState(2 * GIB, GIB)


def test_in_a_container_the_mount_itself_is_the_group(machine: Path) -> None:
    """Where the path of the group does not exist inside, the limit of the mount's root counts."""
    write(machine, "proc/self/cgroup", "0::/../../docker/1234abcd\n")
    write(machine, "sys/fs/cgroup/memory.max", f"{GIB}\n")
    write(machine, "sys/fs/cgroup/memory.current", f"{GIB // 4}\n")
    assert host_memory(machine) == MemoryState(GIB, GIB - GIB // 4)


def test_version_1_limit_counts(machine: Path) -> None:
    """A v1 memory controller's limit is honoured, and its hierarchical cache is reclaimable."""
    write(machine, "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n0::/x\n")
    group = "sys/fs/cgroup/memory/x"
    write(machine, f"{group}/memory.limit_in_bytes", f"{2 * GIB}\n")
    write(machine, f"{group}/memory.usage_in_bytes", f"{2 * GIB}\n")
    write(machine, f"{group}/memory.stat", f"inactive_file 7\ntotal_inactive_file {GIB}\n")
    assert host_memory(machine) == MemoryState(2 * GIB, GIB)


@pytest.mark.parametrize("limit", ["max", "9223372036854771712", "", "garbage", f"{1024 * GIB}"])
def test_no_real_limit_is_no_limit(machine: Path, limit: str) -> None:
    """`max`, the version 1 spelling of unlimited, and more than the machine has change nothing."""
    write(machine, "proc/self/cgroup", "4:memory:/\n0::/\n")
    write(machine, "sys/fs/cgroup/memory.max", limit)
    write(machine, "sys/fs/cgroup/memory/memory.limit_in_bytes", limit)
    assert host_memory(machine) == MemoryState(65843236 * 1024, 32000000 * 1024)


def test_a_group_over_its_limit_has_nothing_left(machine: Path) -> None:
    """Available never goes below zero."""
    write(machine, "proc/self/cgroup", "0::/\n")
    write(machine, "sys/fs/cgroup/memory.max", f"{GIB}\n")
    write(machine, "sys/fs/cgroup/memory.current", f"{2 * GIB}\n")
    assert host_memory(machine) == MemoryState(GIB, 0)


def test_without_meminfo_there_is_no_answer(tmp_path: Path) -> None:
    """An empty tree gives None, not an error."""
    assert host_memory(tmp_path) is None
    assert node_memory(0, tmp_path) is None


def test_a_node_counts_its_reclaimable_cache_as_available(machine: Path) -> None:
    """A node has no MemAvailable; free, file cache and reclaimable slabs stand in for it."""
    write(machine, "sys/devices/system/node/node1/meminfo", NODE)
    assert node_memory(1, machine) == MemoryState(33000000 * 1024, 11000000 * 1024)


def test_a_node_is_never_larger_than_the_group(machine: Path) -> None:
    """The group's limit holds on one node as well."""
    write(machine, "sys/devices/system/node/node1/meminfo", NODE)
    write(machine, "proc/self/cgroup", "0::/\n")
    write(machine, "sys/fs/cgroup/memory.max", f"{GIB}\n")
    write(machine, "sys/fs/cgroup/memory.current", "0\n")
    assert node_memory(1, machine) == MemoryState(GIB, GIB)


def test_the_running_machine_answers() -> None:
    """On the machine of the test there is memory, and not all of it is used."""
    state = host_memory()
    assert state is not None
    assert 0 < state.available <= state.total


def test_a_mac_counts_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Total comes from the page count, available from `vm_stat`; without it all counts as available."""
    pages = "Pages free: 100.\nPages active: 700.\nPages inactive: 200.\nPages speculative: 50.\n"
    monkeypatch.setattr(host_memory_module, "_meminfo", lambda _: None)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 16384, "SC_PHYS_PAGES": 1000}.__getitem__)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(host_memory_module, "_group_limits", lambda _: [])
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, stdout=pages))
    assert host_memory() == MemoryState(16384 * 1000, 16384 * 350)

    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError("vm_stat")

    monkeypatch.setattr(subprocess, "run", missing)
    assert host_memory() == MemoryState(16384 * 1000, 16384 * 1000)
