"""Facts of `platforms.host_processor`, on recorded trees of `/proc` and `/sys`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from platforms import host_processor as hp

CPUINFO = {
    "loongarch": ("processor\t\t: 0\nModel Name\t\t: Loongson-3A5000-HV\n", "Loongson-3A5000-HV"),
    "x86": ("processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)  Platinum 8480+\n", "Intel(R) Xeon(R) Platinum 8480+"),
    "power": ("processor\t: 0\ncpu\t\t: POWER10 (architected), altivec supported\nclock\t\t: 3550MHz\n", "POWER10 (architected), altivec supported"),
    "riscv": ("processor\t: 0\nhart\t\t: 2\nisa\t\t: rv64imafdcv\nuarch\t\t: sifive,u74-mc\n", "sifive,u74-mc"),
    "s390x": ("vendor_id       : IBM/S390\n# processors    : 2\nprocessor 0: version = FF,  identification = 0133E8,  machine = 3931\n", "IBM Z 3931"),
    "old-arm": ("Processor\t: ARMv7 Processor rev 4 (v7l)\nprocessor\t: 0\n", "ARMv7 Processor rev 4 (v7l)"),
}  # fmt: skip


def write(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


@pytest.fixture
def two_nodes(tmp_path: Path) -> Path:
    """Two sockets of four cores with two threads each; node 2 has memory and no processor."""
    for node, cpus in ((0, "0-3,8-11"), (1, "4-7,12-15"), (2, "\n")):
        write(tmp_path, f"sys/devices/system/node/node{node}/cpulist", cpus)
    write(tmp_path, "sys/devices/system/node/has_cpu", "0-1")
    for cpu in range(16):
        low = cpu % 8
        write(
            tmp_path,
            f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list",
            f"{low},{low + 8}\n",
        )
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("0", [0]),
        ("0-2,4", [0, 1, 2, 4]),
        (" 3 , 1 \n", [1, 3]),
        ("0-7:1/4", [0, 4]),
        ("2,2-3", [2, 3]),
    ],
)
def test_lists_of_the_kernel_are_parsed(text: str, expected: list[int]) -> None:
    """Single numbers, ranges and strided ranges give sorted distinct numbers."""
    assert hp.parse_id_list(text) == expected


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,x", "0-7:1/0"])
def test_a_malformed_list_names_itself(text: str) -> None:
    """A part that is no number and no range is an error that shows the text."""
    with pytest.raises(ValueError, match="in '"):
        hp.parse_id_list(text)


@pytest.mark.parametrize("arch", list(CPUINFO))
def test_the_name_is_found_on_each_architecture(tmp_path: Path, arch: str) -> None:
    """x86, POWER, RISC-V, Z and old ARM kernels name the processor under different keys."""
    text, expected = CPUINFO[arch]
    write(tmp_path, "proc/cpuinfo", text)
    assert hp.processor_name(tmp_path) == expected


def test_without_a_name_the_architecture_stands_in(tmp_path: Path) -> None:
    """ARM servers' kernels give no name; the answer is never empty."""
    write(tmp_path, "proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 2100.00\nCPU implementer\t: 0x41\n")
    assert hp.processor_name(tmp_path) == os.uname().machine


def test_nodes_and_their_processors(two_nodes: Path) -> None:
    """Node numbers come from the directory names, and a memory-only node has no processors."""
    assert hp.numa_nodes(two_nodes) == [0, 1, 2]
    assert hp.cpus_of_node(1, two_nodes) == [4, 5, 6, 7, 12, 13, 14, 15]
    assert hp.cpus_of_node(2, two_nodes) == []
    assert hp.node_of_cpu(13, two_nodes) == 1
    assert hp.node_of_cpu(99, two_nodes) is None


def test_one_thread_stands_for_each_core(two_nodes: Path) -> None:
    """The highest or the lowest sibling of each core is taken, once."""
    assert hp.one_cpu_per_core(0, highest=True, root=two_nodes) == [8, 9, 10, 11]
    assert hp.one_cpu_per_core(0, highest=False, root=two_nodes) == [0, 1, 2, 3]


def test_a_processor_without_topology_is_its_own_core(tmp_path: Path) -> None:
    """Containers hide the topology; each logical processor then counts as a core."""
    write(tmp_path, "sys/devices/system/node/node0/cpulist", "0-1")
    write(tmp_path, "sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "nonsense")
    assert hp.one_cpu_per_core(0, highest=True, root=tmp_path) == [0, 1]


def test_a_machine_without_numa_has_no_nodes(tmp_path: Path) -> None:
    """No directory, no nodes, no error."""
    assert hp.numa_nodes(tmp_path) == []
    assert hp.cpus_of_node(0, tmp_path) == []


def test_machine_id_is_taken_only_when_well_formed(tmp_path: Path) -> None:
    """An image that was never started has the word `uninitialized` there."""
    assert hp.machine_id(tmp_path) is None
    write(tmp_path, "etc/machine-id", "uninitialized\n")
    assert hp.machine_id(tmp_path) is None
    write(tmp_path, "var/lib/dbus/machine-id", "3D1219C7C4C5404AAA1F6D2A48ADFDA4\n")
    assert hp.machine_id(tmp_path) == "3d1219c7c4c5404aaa1f6d2a48adfda4"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity mask")
def test_usable_processors_follow_the_affinity_mask() -> None:
    """Narrowing the mask of this process narrows the answer."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert hp.usable_cpus() == [min(before)]
    finally:
        os.sched_setaffinity(0, before)
    assert hp.usable_cpus() == sorted(before)


def test_without_affinity_all_processors_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Mac has no mask."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert hp.usable_cpus() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("output", "status", "has_it"), [("1\n", 0, True), ("0\n", 0, False), ("", 1, False)]
)
def test_a_mac_says_whether_it_has_bfloat16(
    monkeypatch: pytest.MonkeyPatch, output: str, status: int, has_it: bool
) -> None:
    """An unknown name makes the command fail, which means no; elsewhere nobody is asked."""
    monkeypatch.setattr(
        subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], status, stdout=output)
    )
    assert not hp.macos_has_bfloat16()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert hp.macos_has_bfloat16() is has_it


def test_a_mac_is_known_by_its_hardware(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """macOS has no machine-id file; a recorded tree is never answered from the machine below it."""
    output = '    "IOPlatformUUID" = "4C4C4544-0033-4A10-8052-B7C04F4E3432"\n'
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, stdout=output))
    monkeypatch.setattr(hp, "read_text", lambda _: None)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert hp.machine_id() == "4c4c454400334a108052b7c04f4e3432"
    assert hp.machine_id(tmp_path) is None
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, stdout=""))
    assert hp.machine_id() is None
