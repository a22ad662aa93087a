"""Generated mutants of the native base: `tests.mutants.generated:device_name__raises` and its like.

Each is a class in a module of its own name, so `tests.mutants.generated.device_name__raises` exists too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platform_abc.members import MEMBERS
from tests.mutants.good import Good
from tests.mutants.sources import Member, Recipe, source, spoilt
from tests.mutants.synthetic import Synthetic

_RECIPE = Recipe(good="tests.mutants.good:Good", root="platform_abc.platform:Platform")


@functools.cache
def members() -> Mapping[str, Member]:
    """The members of the contract, with what the good platform has."""
    return {name: _member(name) for name in MEMBERS}


def _member(name: str) -> Member:
    spec = MEMBERS[name]
    raw: Any = inspect.getattr_static(Good, name)
    value: Any = getattr(raw, "__func__", raw)
    if spec.kind == "attribute":
        answers = type(value).__name__
    else:
        function = value.fget if isinstance(value, property) else value
        answers = inspect.formatannotation(inspect.signature(function).return_annotation).strip("'")
    return Member(
        name=name,
        kind=spec.kind,
        mandatory=spec.mandatory,
        own=name in vars(Good),
        value=value,
        answers=answers,
    )


def names() -> list[str]:
    """Every mutant's name, in the order of the contract."""
    return list(spoilt(members()))


_FINDER = Synthetic(__name__, Path(__file__).parent, lambda name: source(name, members(), _RECIPE))
_FINDER.install()


def __getattr__(name: str) -> type:
    return _FINDER.platform(name)
