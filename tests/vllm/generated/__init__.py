"""Generated mutants of vLLM's base: `tests.vllm.generated:device_name__raises` and its like.

`python -m tests.vllm.generated` lists them.
"""

from __future__ import annotations

import functools
import inspect
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.engines import vllm_platform
from tests.mutants.sources import Member, Recipe, source, spoilt
from tests.mutants.synthetic import Synthetic

_RECIPE = Recipe(good="tests.vllm.zoo:Good", root="vllm.platforms.interface:Platform")


@functools.cache
def members() -> Mapping[str, Member]:
    """The members of the installed base, with what the good platform has."""
    from tests.vllm.zoo import Good

    return {name: _member(Good, name) for name in vllm_platform.members()}


def _member(good: type, name: str) -> Member:
    declared = vllm_platform.members()[name]
    raw: Any = inspect.getattr_static(good, name)
    value: Any = getattr(raw, "__func__", raw)
    if declared.kind == "attribute":
        answers = type(value).__name__
    else:
        function = value.fget if isinstance(value, property) else value
        answers = inspect.formatannotation(inspect.signature(function).return_annotation).strip("'")
    return Member(
        name=name,
        kind=declared.kind,
        mandatory=declared.unset,
        own=any(name in vars(cls) for cls in good.__mro__ if not issubclass(vllm_platform.base_class(), cls)),
        value=value,
        answers=answers,
    )


def names() -> list[str]:
    """Every mutant's name, in the order of the base."""
    return list(spoilt(members()))


def listed() -> list[str]:
    """The names, from a process of their own, so that this one does not import vLLM."""
    ended = subprocess.run(
        [sys.executable, "-m", __name__],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return ended.stdout.split()


_FINDER = Synthetic(__name__, Path(__file__).parent, lambda name: source(name, members(), _RECIPE))
_FINDER.install()


def __getattr__(name: str) -> type:
    return _FINDER.platform(name)
