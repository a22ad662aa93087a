"""Which build of torch is installed, found without importing it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import re
from pathlib import Path
from typing import Literal, NamedTuple

Build = Literal["missing", "cpu", "cuda", "rocm", "xpu", "gpu"]
"""`gpu` is a build for some accelerator that its metadata does not name."""

logger = logging.getLogger(__name__)

_LOCAL: tuple[tuple[str, Build], ...] = (
    (r"cpu\b", "cpu"),
    (r"cu(da)?[\d.]", "cuda"),
    (r"rocm[\d.]*\b", "rocm"),
    (r"xpu\b", "xpu"),
)
"""How the local part of a version begins; another one, `+custom` for example, tells nothing."""
_VERSION_FILE: tuple[tuple[str, Build], ...] = (("hip", "rocm"), ("cuda", "cuda"), ("xpu", "xpu"))


class TorchBuild(NamedTuple):
    """The installed torch.

    Args:
        kind: what it was built for.
        version: its version, `2.13.0+cpu`; empty if it is missing.
        why: what told so, as a phrase.
    """

    kind: Build
    version: str
    why: str


def torch_build() -> TorchBuild:
    """Return which torch is installed, from its distribution's metadata alone.

    In this order: the local part of the version (`+cpu`, `+cu129`, `+rocm6.4`, `+xpu`); the file
    `torch/version.py`, which builds without a local part also carry; the requirements, of which a
    build for a GPU has some. None of these: a CPU build.
    """
    try:
        distribution = importlib.metadata.distribution("torch")
        version, requires = _headers(distribution)
    except importlib.metadata.PackageNotFoundError:
        return TorchBuild("missing", "", "torch is not installed (pip install torch)")
    except Exception as error:  # noqa: BLE001  (damaged metadata)
        return TorchBuild(
            "missing", "", f"the metadata of torch cannot be read: {type(error).__name__}: {error}"
        )
    named = f"torch {version}"
    local = version.partition("+")[2]
    for beginning, kind in _LOCAL:
        if re.match(beginning, local):
            return TorchBuild(kind, version, f"{named} is a build for {kind}")
    kind_of_file = _by_version_file(Path(str(distribution.locate_file("torch/version.py"))))
    if kind_of_file is not None:
        return TorchBuild(
            kind_of_file, version, f"{named} is a build for {kind_of_file}, by torch/version.py"
        )
    requirement, required = _by_requirements(requires)
    if requirement:
        return TorchBuild(required, version, f"{named} requires {requirement}, so it is a build for a GPU")
    elsewhere = _by_version_file(_imported_from())
    if elsewhere is not None:  # an editable install: the code is not beside its metadata
        return TorchBuild(elsewhere, version, f"{named} is a build for {elsewhere}, by torch/version.py")
    return TorchBuild("cpu", version, f"{named} requires no GPU library, so it is a CPU build")


def _headers(distribution: importlib.metadata.Distribution) -> tuple[str, list[str]]:
    """Return version and requirements.

    Parsing torch's long metadata with the e-mail parser costs milliseconds, several times in a
    resolution, so the two headers are picked out of the text where there is one.
    """
    head = (distribution.read_text("METADATA") or "").partition("\n\n")[0]
    version = re.search(r"^Version: *(\S+)", head, re.MULTILINE)
    if version is None:
        return distribution.version or "", distribution.requires or []
    return version[1], re.findall(r"^Requires-Dist: *(.+)$", head, re.MULTILINE)


def _by_version_file(path: Path | None) -> Build | None:
    """Read `cuda`, `hip` and `xpu` out of torch's generated version file, without running it."""
    try:
        text = path.read_text(encoding="utf-8") if path is not None else ""
    except (OSError, UnicodeDecodeError):
        return None
    set_names = set(re.findall(r"""^(cuda|hip|xpu)\b[^=\n]*=\s*['"][^'"]""", text, re.MULTILINE))
    for name, kind in _VERSION_FILE:
        if name in set_names:
            return kind
    return "cpu" if re.search(r"^cuda\b[^=\n]*=", text, re.MULTILINE) else None


def _imported_from() -> Path | None:
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).with_name("version.py") if spec is not None and spec.origin else None


def _by_requirements(requirements: list[str]) -> tuple[str, Build]:
    """Return the first requirement that only a GPU build has, and the build; empty if none."""
    for requirement in requirements:
        marker = requirement.partition(";")[2]
        if re.search(r"\bextra\b", marker):
            continue
        name = re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0].lower().replace("_", "-")
        if "rocm" in name or name.startswith(("hip", "amd-")):
            return name, "rocm"
        if "xpu" in name or "sycl" in name or name.startswith(("intel-cmplr", "dpcpp")):
            return name, "xpu"
        if name.startswith(("nvidia-", "cuda-")):
            return name, "cuda"
        if name.startswith(("triton", "pytorch-triton")):
            return name, "gpu"
    return "", "cpu"
