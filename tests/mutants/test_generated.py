"""Generated mutants: every member of the contract, spoilt in every way that fits it, is found out."""

from __future__ import annotations

import inspect
import sys
import warnings
import zlib
from collections.abc import Callable
from typing import Final

import pytest

from platform_abc.members import MEMBERS
from tests.mutants import generated
from tests.mutants.equivalents import EQUIVALENT, SURVIVORS, Rule
from tests.mutants.matrix import generated_request
from tests.mutants.matrix_model import Matrix, judged
from tests.mutants.pool import judge_all
from tests.mutants.sources import OPERATORS, split

pytestmark = pytest.mark.torch

_SAMPLE: Final = 12
_ENOUGH: Final = 95.0
"""Percent of the faults that a `must` has to find."""


def _matrix(names: list[str]) -> Matrix:
    asked = [generated_request("native", name, "forked") for name in names]
    # Coverage has seen it all on the mutants of the zoo.
    seen = judge_all("native", asked, measured=False)
    found = {name: judged(seen[f"generated:{name}"]) for name in names}
    return Matrix(engine="native", deep=False, written=[], generated=found)


@pytest.mark.mutants
def test_a_sample_is_found_out() -> None:
    """Of a few mutants from all over the contract, each is killed, warned of, or has a reason to survive."""
    names = sorted(generated.names(), key=lambda name: zlib.crc32(name.encode()))[:_SAMPLE]
    matrix = _matrix(names)
    assert not matrix.unexplained()
    assert not matrix.accused()


@pytest.mark.zoo
def test_all_are_found_out() -> None:
    """At least 95 % are killed; no fault survives without a reason, and what is no fault is not blamed."""
    matrix = _matrix(generated.names())
    assert matrix.killed() >= _ENOUGH
    assert not matrix.unexplained()
    assert not matrix.accused()


def test_every_member_and_operator_takes_part() -> None:
    """No member of the contract and no way to spoil one is left out."""
    pairs = [split(name) for name in generated.names()]
    assert {member for member, _ in pairs} == set(MEMBERS)
    assert {operator for _, operator in pairs} == set(OPERATORS)


@pytest.mark.parametrize("rules", [EQUIVALENT, SURVIVORS], ids=["equivalent", "survivors"])
def test_every_rule_is_about_a_mutant(rules: tuple[Rule, ...]) -> None:
    """No reason stands in the tables for a mutant that there is not."""
    for rule in rules:
        assert any(rule.covers(name) for name in generated.names()), rule


def _class(name: str) -> type:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the base warns of these where they are defined
        found = getattr(generated, name)
    assert isinstance(found, type)
    return found


@pytest.mark.parametrize(
    ("name", "is_so"),
    [
        ("device_name__wrong_type", lambda cls: cls.device_name == 42),
        ("is_cuda__not_callable", lambda cls: cls.is_cuda == 42),
        ("get_attn_backend_cls__fewer", lambda cls: len(_parameters(cls.get_attn_backend_cls)) == 2),
        ("log_warnings__more", lambda cls: list(_parameters(cls.log_warnings)) == ["stream_of_chip"]),
        ("set_device__renamed", lambda cls: list(_parameters(cls.set_device)) == ["device_of_chip"]),
        ("import_kernels__none", lambda cls: cls.import_kernels is None),
        ("import_kernels__property", lambda cls: isinstance(cls.import_kernels, property)),
        ("import_kernels__instance", lambda cls: inspect.isfunction(cls.import_kernels)),
        ("dist_backend__missing", lambda cls: cls.dist_backend == ""),
    ],
)
def test_a_mutant_has_its_one_fault(name: str, is_so: Callable[[type], bool]) -> None:
    """An operator does to the member what its name says."""
    assert is_so(_class(name))


def test_a_raising_member_raises() -> None:
    """The operator that makes a member raise leaves its parameters as they are."""
    cls = _class("get_device_name__raises")
    with pytest.raises(RuntimeError, match="driver"):
        cls().get_device_name(0)


def test_a_mutant_has_a_module_and_source_of_its_own() -> None:
    """The kit finds lines of a generated mutant as of any platform, and a child finds it by name."""
    cls = _class("device_name__raises")
    assert sys.modules[cls.__module__].__name__ == "tests.mutants.generated.device_name__raises"
    assert inspect.getsource(cls).startswith("class device_name__raises(Good):")


def test_an_unknown_name_is_no_mutant() -> None:
    """A misspelt name is an AttributeError, as for any module."""
    with pytest.raises(AttributeError, match="no_such__raises"):
        _class("no_such__raises")


def _parameters(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)
