"""The context of a check: where it points, whom it blames, and what it runs apart."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from conformance.context import ApartFailed, CheckContext, describe, is_a, kind_of, locate_attribute, short
from conformance.engines.native import adapter
from conformance.model import NotRun, Skip, Unsupported, Violation
from platform_abc.errors import DeviceUnavailable, MissingDependency
from tests.mutants.good import Good

pytestmark = pytest.mark.torch


class Sample(Good):
    """A platform whose answers are what a test needs."""

    ray_device_key: str = "SAMPLE"

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """Raise as a driver does."""
        raise RuntimeError("driver said no")

    @classmethod
    def get_punica_wrapper(cls) -> str:
        """Lack a package."""
        raise MissingDependency("get_punica_wrapper", "Sample", "chip-lora")

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Lack the device."""
        raise DeviceUnavailable("num_compute_units", "Sample", "plug it in")


def without_argument(cls: type) -> None:
    """An override of a hook that has a parameter, without it."""


Sample.validate_environ = classmethod(without_argument)  # type: ignore[method-assign, assignment]


def context(cls: type = Sample) -> CheckContext:
    """A context that starts no interpreter."""

    def fresh(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no interpreter is started here")

    return CheckContext(cls, adapter(), fresh)


def ask(member: str, *args: Any) -> Any:
    """Ask the sample."""
    return context().ask(member, *args, contract_says="It answers.", hint="Answer.")


def test_a_member_that_the_engine_lacks_is_declared_unsupported() -> None:
    """An older engine has not got every member; asking for one is no fault of the platform."""
    assert context().knows("get_device_uuid")
    assert not context().knows("get_device_feelings")
    with pytest.raises(Unsupported, match="the installed engine has no get_device_feelings"):
        ask("get_device_feelings")


def test_places_are_the_platforms_own() -> None:
    """A method's line, an attribute's line, and the class's for what is inherited from the engine."""
    sample = context()
    lines = open(__file__, encoding="utf-8").read().splitlines()

    def line(place: str) -> str:
        file, _, number = place.rpartition(":")
        assert file == __file__
        return lines[int(number) - 1].strip()

    assert line(sample.locate("ray_device_key")) == 'ray_device_key: str = "SAMPLE"'
    assert (
        "get_device_uuid"
        in line(sample.locate("get_device_uuid"))
        + lines[int(sample.locate("get_device_uuid").rpartition(":")[2])]
    )
    assert line(sample.locate("get_nixl_memory_type")) == "class Sample(Good):"
    assert line(sample.locate()) == "class Sample(Good):"


def test_a_class_without_source_has_its_name_for_a_place() -> None:
    """A class made at run time is named instead."""
    made = type("Made", (), {"x": 1})
    assert locate_attribute(made, "x") == ""


def test_what_a_member_raises_is_told_apart() -> None:
    """A fault is a violation that quotes the line; a missing package or device is a skip with a remedy."""
    with pytest.raises(Violation) as fault:
        ask("get_device_uuid")
    finding = fault.value.findings[0]
    assert "driver said no" in finding.platform_did
    assert 'raise RuntimeError("driver said no")' in finding.platform_did
    assert finding.location.startswith(__file__)
    with pytest.raises(Skip, match="pip install chip-lora"):
        ask("get_punica_wrapper")
    with pytest.raises(Skip, match="plug it in"):
        ask("num_compute_units")
    with pytest.raises(Unsupported, match="NotSupported"):
        ask("get_all_gpu_pci_bus_ids")


def test_a_refused_call_is_another_checks_matter() -> None:
    """An override that does not take the call is not blamed twice; the kit's own wrong call is its error."""
    with pytest.raises(NotRun, match=r"members\.engine-calls"):
        ask("validate_environ", False)
    with pytest.raises(TypeError):
        ask("supports_fp8", 1, 2, 3)


def test_the_hosts_processor_is_always_here() -> None:
    """A device that torch does not have is missing, in words."""

    class Elsewhere(Good):
        device_type = "privateuseone"

    assert context().device_missing() == ""
    assert "privateuseone" in context(Elsewhere).device_missing()
    with pytest.raises(Skip, match="no privateuseone device"):
        context(Elsewhere).need_device()


def test_what_runs_apart_changes_nothing_here() -> None:
    """The answer comes back; the environment of this process is as it was."""

    def change() -> int:
        os.environ["CHIP_APART"] = "1"
        return 42

    assert context().apart(change) == 42
    assert "CHIP_APART" not in os.environ


def test_what_dies_apart_is_told() -> None:
    """An exception, an exit and a signal are told apart."""

    def raises() -> None:
        raise KeyError("lost")

    def exits() -> None:
        os._exit(0)

    def crashes() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    for function, text in ((raises, "KeyError"), (exits, "exit status 0"), (crashes, "signal 9")):
        with pytest.raises(ApartFailed, match=text):
            context().apart(function)


def test_values_are_spelled_for_a_sentence() -> None:
    """None, a value with its type, a long one cut, one whose repr fails."""

    class Mute:
        def __repr__(self) -> str:
            raise ValueError

    assert kind_of(None) == "None"
    assert kind_of(1) == "1 (int)"
    assert len(short("x" * 500)) == 100
    assert short(Mute()) == "<Mute, whose repr raises ValueError>"
    assert describe(KeyError()) == "KeyError"
    assert is_a([], list, tuple)
