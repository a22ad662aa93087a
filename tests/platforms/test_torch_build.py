"""Which torch is installed is read off its distribution; torch itself is never imported."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from platforms import torch_build as module
from platforms.torch_build import torch_build
from tests.platform_abc.fake_distributions import distribution

NVIDIA = 'nvidia-cublas-cu12 (==12.8.4.1) ; platform_system == "Linux" and platform_machine == "x86_64"'


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder first on the import path, and no other torch to be found by its code."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(module, "_imported_from", lambda: None)
    return tmp_path


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("2.13.0+cpu", "cpu"),
        ("2.13.0+cpu.cxx11.abi", "cpu"),
        ("2.13.0+cu129", "cuda"),
        ("2.13.0+rocm6.4", "rocm"),
        ("2.13.0+cuda12.9", "cuda"),
        ("2.13.0+rocm", "rocm"),
        ("2.13.0+xpu", "xpu"),
    ],
)
def test_the_local_part_of_the_version_decides(site: Path, version: str, kind: str) -> None:
    """Whatever is required besides."""
    distribution(site, "torch", version, requires=(NVIDIA,))
    found = torch_build()
    assert (found.kind, found.version) == (kind, version)
    assert version in found.why


@pytest.mark.parametrize(
    "version", ["2.13.0+custom", "2.13.0+curated.1", "2.13.0+cpuset", "2.13.0+git1a2b3c"]
)
def test_another_local_part_tells_nothing(site: Path, version: str) -> None:
    """Somebody's own build; what it requires tells."""
    distribution(site, "torch", version, requires=("pytorch-triton-rocm (==3.4.0)",))
    assert torch_build().kind == "rocm"


@pytest.mark.parametrize(
    ("requirement", "kind"),
    [
        (NVIDIA, "cuda"),
        ("cuda-bindings>=12", "cuda"),
        ("pytorch-triton-rocm (==3.4.0)", "rocm"),
        ("pytorch_triton_xpu==3.4.0", "xpu"),
        ("intel-cmplr-lib-rt ; platform_system == 'Linux'", "xpu"),
        ("triton==3.4.0", "gpu"),
    ],
)
def test_a_requirement_of_a_gpu_library_is_a_gpu_build(site: Path, requirement: str, kind: str) -> None:
    """The wheels of the default index have no local part."""
    distribution(site, "torch", "2.13.0", requires=("filelock", "sympy>=1.13", requirement))
    assert torch_build().kind == kind


def test_no_requirement_of_a_gpu_library_is_a_cpu_build(site: Path) -> None:
    """Optional requirements do not count."""
    distribution(
        site,
        "torch",
        "2.13.0",
        requires=("filelock", "optree>=0.13; extra == 'optree'", "triton; extra=='x'"),
    )
    assert torch_build().kind == "cpu"


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n", "cuda"),
        ("cuda = None\nhip = '6.4.4'\n", "rocm"),
        ("cuda: Optional[str] = None\nhip: Optional[str] = None\nxpu: Optional[str] = '20250101'\n", "xpu"),
        ("cuda = None\nhip = None\n", "cpu"),
    ],
)
def test_torchs_own_version_file_decides_where_the_version_does_not(
    site: Path, lines: str, kind: str
) -> None:
    """Builds of conda and of vendors' containers neither carry a local part nor require GPU libraries."""
    distribution(
        site, "torch", "2.9.0a0", modules={"torch/version.py": f"from typing import Optional\n{lines}"}
    )
    assert torch_build().kind == kind


def test_an_editable_torch_is_found_by_its_code(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its metadata stands elsewhere and requires no GPU library."""
    distribution(site, "torch", "2.9.0a0+gitabc")
    elsewhere = site / "checkout" / "version.py"
    elsewhere.parent.mkdir()
    elsewhere.write_text("cuda = '12.8'\n")
    monkeypatch.setattr(module, "_imported_from", lambda: elsewhere)
    assert torch_build().kind == "cuda"


def test_a_missing_torch_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With how to install it."""

    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    found = torch_build()
    assert (found.kind, found.version) == ("missing", "")
    assert "pip install torch" in found.why


def test_damaged_metadata_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the reason is kept."""

    def damaged(name: str) -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")

    monkeypatch.setattr(importlib.metadata, "distribution", damaged)
    assert "cannot be read: UnicodeDecodeError" in torch_build().why


def test_metadata_without_headers_is_read_the_long_way(site: Path) -> None:
    """An old egg-info folder has PKG-INFO instead of METADATA."""
    info = site / "torch-2.1.0.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.1.0\nRequires-Dist: triton\n"
    )
    assert (torch_build().version, torch_build().kind) == ("2.1.0", "gpu")


def test_nothing_is_imported(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the version file would do something when run."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    distribution(site, "torch", "2.9.0", modules={"torch/version.py": "raise SystemExit\ncuda = '12'\n"})
    assert torch_build().kind == "cuda"
    assert "torch" not in sys.modules
