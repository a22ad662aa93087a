"""The environment and the start of child interpreters: import path, variables, the first line they run."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import conformance

SINGLE_THREAD: Final = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Set before a process that is forked later imports anything: a fork keeps only the thread that forks."""

_OFFLINE: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}
_CACHES: Final = {
    "XDG_CACHE_HOME": "cache",
    "HF_HOME": "cache/huggingface",
    "TORCH_HOME": "cache/torch",
    "TORCHINDUCTOR_CACHE_DIR": "cache/inductor",
    "TRITON_CACHE_DIR": "cache/triton",
    "NUMBA_CACHE_DIR": "cache/numba",
    "TMPDIR": "tmp",
}
_OWN: Final = ("PYTHONWARNINGS", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONBREAKPOINT")
_BOOT: Final = (
    "import sys, json; boot = json.loads(sys.argv[1]); sys.argv[:] = ['platform-abc'];"
    " sys.path[:] = [boot['kit'], *boot['path']]; import conformance.isolation.entry as entry;"
    " sys.path[:] = boot['path']; entry.enter(boot)"
)


def import_path() -> list[str]:
    """This process's `sys.path`, in words that mean the same in another process."""
    here = os.getcwd()
    return [os.path.abspath(entry) if entry else here for entry in sys.path]


def child_environment(scratch: Path, path: Sequence[str]) -> dict[str, str]:
    """The variables of every child: the user's, offline, caches in `scratch`, our import path.

    Filters and options meant for pytest stay behind, so that they change no verdict.

    Args:
        scratch: a folder that the kit removes at the end.
        path: the import path of the children.
    """
    env = {name: value for name, value in os.environ.items() if not _is_pytests(name)}
    for name in _OWN:
        env.pop(name, None)
    env.update(_OFFLINE)
    for name, folder in _CACHES.items():
        place = scratch / folder
        place.mkdir(parents=True, exist_ok=True)
        env[name] = str(place)
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["PYTHONSAFEPATH"] = "1"
    env["PYTHONPATH"] = os.pathsep.join(_own_entries(path))
    return env


def command(module: str, path: Sequence[str], settings: Mapping[str, object]) -> list[str]:
    """The command line of a child that runs `enter` of `conformance.isolation.entry`.

    Args:
        module: which of the entries to run, see `conformance.isolation.entry`.
        path: the import path.
        settings: JSON values for the entry.
    """
    kit = str(Path(next(iter(conformance.__path__))).parent)
    boot = {"kit": kit, "path": list(path), "entry": module, **settings}
    return [sys.executable, "-P", "-c", _BOOT, json.dumps(boot)]


def _is_pytests(name: str) -> bool:
    return name.startswith("PYTEST_")


def _own_entries(path: Sequence[str]) -> list[str]:
    """The entries before the standard library: what the user or pytest put there."""
    stock = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    own: list[str] = []
    for entry in path:
        if entry in stock or entry.endswith(".zip"):
            break
        own.append(entry)
    return own
