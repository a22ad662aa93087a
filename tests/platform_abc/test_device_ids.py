"""Facts about logical, visible and physical device numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_abc.device_ids import (
    assign_physical_devices,
    assigned_physical_devices,
    entry_to_physical,
    find_by_identifier,
    logical_to_physical,
    logical_to_visible,
    parse_control,
    physical_to_visible,
    visible_to_physical,
)
from platform_abc.errors import NotSupported

VARIABLE = "CHIP_VISIBLE_DEVICES"
UUIDS = {"GPU-5f2c11aa-0001": 0, "GPU-5f2c22bb-0002": 1, "MIG-77aa": 1, "GPU-9d": 2}


@pytest.fixture(autouse=True)
def _unassigned() -> Iterator[None]:
    assign_physical_devices(None)
    yield
    assign_physical_devices(None)


def numbers_only(entry: str) -> int:
    return entry_to_physical(entry, variable=VARIABLE, device_name="chip")


def by_identifier(entry: str) -> int:
    return find_by_identifier(entry, UUIDS, variable=VARIABLE)


def set_to(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, value)


@pytest.mark.parametrize("value", [None, "", "   "])
def test_unset_and_empty_hide_nothing(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    """Every number stands for itself in all three ways to number."""
    set_to(monkeypatch, value)
    for number in (0, 3):
        assert visible_to_physical(number, variable=VARIABLE, convert=numbers_only) == number
        assert logical_to_physical(number, variable=VARIABLE, convert=numbers_only) == number
        assert logical_to_visible(number, variable=VARIABLE, convert=numbers_only) == number


@pytest.mark.parametrize(
    ("value", "physical"),
    [("0", [0]), ("3,1", [3, 1]), (" 3 , 1 ", [3, 1]), ("3,1,", [3, 1]), ("03,1", [3, 1]), ("2,", [2])],
)
def test_a_list_maps_by_place(monkeypatch: pytest.MonkeyPatch, value: str, physical: list[int]) -> None:
    """Spaces and one trailing comma change nothing."""
    set_to(monkeypatch, value)
    for visible, number in enumerate(physical):
        assert visible_to_physical(visible, variable=VARIABLE, convert=numbers_only) == number
        assert physical_to_visible(number, variable=VARIABLE, convert=numbers_only) == visible
        assert logical_to_visible(visible, variable=VARIABLE, convert=numbers_only) == visible


@pytest.mark.parametrize(
    "value",
    [
        ",",
        "0,,1",
        ",0",
        "0,1,,",
        "-1",
        "0,-1",
        "1,1",
        "1,01",
        "GPU-a,gpu-A",
        "0 1",
        "1.0",
        "+1",
        "0x1",
        "٣",
        "1_0",
        "all",
        "9" * 5000,
    ],
)
def test_a_malformed_list_is_an_error_with_variable_and_value(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Whatever is no list of distinct devices is refused, whichever way it is read."""
    set_to(monkeypatch, value)
    for function in (visible_to_physical, physical_to_visible, logical_to_physical, logical_to_visible):
        with pytest.raises(ValueError) as caught:
            function(0, variable=VARIABLE, convert=numbers_only)
        assert VARIABLE in str(caught.value)
        assert value in str(caught.value)


@pytest.mark.parametrize("device", [2, 10**9])
def test_a_device_beyond_the_list_is_an_error_with_variable_and_value(
    monkeypatch: pytest.MonkeyPatch, device: int
) -> None:
    """Two visible devices have no third."""
    set_to(monkeypatch, "3,1")
    for function in (visible_to_physical, logical_to_physical, logical_to_visible):
        with pytest.raises(IndexError, match=f"{VARIABLE}='3,1'"):
            function(device, variable=VARIABLE, convert=numbers_only)


@pytest.mark.parametrize("device", [-1, True, 0.0, "0", None])
def test_a_number_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, device: int) -> None:
    """A negative number is never an index from the end."""
    set_to(monkeypatch, "3,1")
    for function in (visible_to_physical, physical_to_visible, logical_to_physical, logical_to_visible):
        with pytest.raises(ValueError, match="a number from 0 on"):
            function(device, variable=VARIABLE, convert=numbers_only)


def test_a_hidden_device_is_an_error_with_variable_and_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A physical device that the variable does not list has no visible number."""
    set_to(monkeypatch, "3,1")
    with pytest.raises(ValueError, match=f"physical device 0 is hidden by {VARIABLE}='3,1'"):
        physical_to_visible(0, variable=VARIABLE, convert=numbers_only)


@pytest.mark.parametrize(
    ("entry", "number"),
    [
        ("GPU-5f2c11aa-0001", 0),
        ("gpu-5F2C22BB-0002", 1),
        ("GPU-5f2c2", 1),
        ("GPU-9", 2),
        ("MIG-77aa", 1),
        ("MIG-GPU-5f2c22bb-0002/7/0", 1),
        ("1", 1),
        (" GPU-9d ", 2),
    ],
)
def test_identifiers_are_found_whole_shortened_and_as_partitions(entry: str, number: int) -> None:
    """A shortened identifier counts while it is unique; an old partition counts as its device."""
    assert by_identifier(entry) == number


@pytest.mark.parametrize(
    ("entry", "why"), [("GPU-5f2c", "several"), ("GPU-0", "no device"), ("MIG-0", "no device")]
)
def test_an_identifier_that_is_unknown_or_shared_is_an_error(
    monkeypatch: pytest.MonkeyPatch, entry: str, why: str
) -> None:
    """The message names the variable, its value, and the identifiers that there are."""
    set_to(monkeypatch, f"GPU-9,{entry}")
    with pytest.raises(ValueError, match=why) as caught:
        visible_to_physical(1, variable=VARIABLE, convert=by_identifier)
    assert f"{VARIABLE}='GPU-9,{entry}'" in str(caught.value)
    assert "GPU-5f2c11aa-0001" in str(caught.value)


def test_identifiers_without_a_lookup_are_an_error_that_says_what_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A platform that cannot look up identifiers asks for numbers."""
    for number, value in enumerate(("GPU-5f2c", "0,MIG-77aa")):
        set_to(monkeypatch, value)
        with pytest.raises(ValueError, match="write the numbers") as caught:
            logical_to_visible(number, variable=VARIABLE, convert=numbers_only)
        assert f"{VARIABLE}={value!r}" in str(caught.value)


def test_a_number_and_an_identifier_of_one_device_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two entries for one device cannot be told apart on the way back."""
    set_to(monkeypatch, "1,GPU-5f2c22bb-0002")
    with pytest.raises(ValueError, match="expected each device once"):
        physical_to_visible(1, variable=VARIABLE, convert=by_identifier)


@pytest.mark.parametrize("answer", [-1, True, "0", None, 1.0])
def test_a_conversion_that_gives_no_number_is_an_error_with_the_variable(
    monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    """A platform's own conversion is not trusted."""
    set_to(monkeypatch, "x")
    convert: Callable[[str], int] = lambda _entry: answer  # type: ignore[assignment, return-value]  # noqa: E731
    with pytest.raises(ValueError, match=f"{VARIABLE}='x'"):
        visible_to_physical(0, variable=VARIABLE, convert=convert)


def test_a_conversion_that_forgets_the_variable_gets_it_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """`int("GPU-…")` says nothing of the variable; the error here does, and keeps the cause."""
    set_to(monkeypatch, "GPU-5f2c")
    with pytest.raises(ValueError, match=f"{VARIABLE}='GPU-5f2c'") as caught:
        visible_to_physical(0, variable=VARIABLE, convert=int)
    assert isinstance(caught.value.__cause__, ValueError)


def test_two_parts_of_one_device_are_two_logical_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an assignment a logical number is the visible one, though both parts are one physical device."""
    set_to(monkeypatch, "MIG-1,MIG-2")
    for number in range(2):
        assert logical_to_visible(number, variable=VARIABLE, convert=lambda _: 0) == number
        assert logical_to_physical(number, variable=VARIABLE, convert=lambda _: 0) == 0


@pytest.mark.parametrize("error", [KeyError("GPU-5f2c"), IndexError("list"), RuntimeError("driver gone")])
def test_whatever_a_conversion_raises_names_variable_value_and_cause(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A look-up that fails is told as one error; that there is none, or no device, passes as it is."""
    set_to(monkeypatch, "GPU-5f2c")

    def convert(entry: str) -> int:
        raise error

    for function in (visible_to_physical, physical_to_visible, logical_to_visible):
        with pytest.raises(ValueError, match=f"{VARIABLE}='GPU-5f2c'.*{type(error).__name__}") as caught:
            function(0, variable=VARIABLE, convert=convert)
        assert caught.value.__cause__ is error
    unsupported = NotSupported("device_control_id_to_physical_device_id", "chip", "use another driver")

    def refuse(entry: str) -> int:
        raise unsupported

    with pytest.raises(NotSupported):
        visible_to_physical(0, variable=VARIABLE, convert=refuse)


def test_assigned_devices_come_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logical numbers index the assignment; visible ones still follow the variable."""
    set_to(monkeypatch, "5,3,1")
    assign_physical_devices([1, 3])
    assert assigned_physical_devices() == (1, 3)
    assert logical_to_physical(0, variable=VARIABLE, convert=numbers_only) == 1
    assert logical_to_visible(0, variable=VARIABLE, convert=numbers_only) == 2
    assert visible_to_physical(0, variable=VARIABLE, convert=numbers_only) == 5
    with pytest.raises(IndexError, match=r"2 are assigned, \[1, 3\]"):
        logical_to_physical(2, variable=VARIABLE, convert=numbers_only)
    assign_physical_devices([0])
    with pytest.raises(ValueError, match=f"hidden by {VARIABLE}='5,3,1'"):
        logical_to_visible(0, variable=VARIABLE, convert=numbers_only)


def test_an_assignment_names_distinct_devices() -> None:
    """Twice the same device, or a negative one, is refused and changes nothing."""
    assign_physical_devices([4])
    bad: list[Any] = [[0, 0], [-1], [True], "01", [[0], [1]]]
    for ids in bad:
        with pytest.raises(ValueError, match="distinct numbers"):
            assign_physical_devices(ids)
    assert assigned_physical_devices() == (4,)


def test_ranks_of_one_node_get_distinct_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four ranks on four visible devices never share one."""
    set_to(monkeypatch, "7,5,3,1")
    found = {logical_to_physical(rank, variable=VARIABLE, convert=numbers_only) for rank in range(4)}
    assert found == {7, 5, 3, 1}


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(0, 99), unique=True, min_size=1, max_size=8),
    st.sampled_from([",", ", ", " ,"]),
    st.booleans(),
    st.data(),
)
def test_round_trips_hold(
    monkeypatch: pytest.MonkeyPatch, physical: list[int], comma: str, trailing: bool, data: st.DataObject
) -> None:
    """Visible to physical and back, and logical to visible to physical, with and without an assignment."""
    set_to(monkeypatch, comma.join(map(str, physical)) + ("," if trailing else ""))
    for visible in range(len(physical)):
        number = visible_to_physical(visible, variable=VARIABLE, convert=numbers_only)
        assert number == physical[visible]
        assert physical_to_visible(number, variable=VARIABLE, convert=numbers_only) == visible
    assigned = data.draw(st.none() | st.permutations(physical))
    assign_physical_devices(assigned)
    for logical in range(len(physical)):
        number = logical_to_physical(logical, variable=VARIABLE, convert=numbers_only)
        visible = logical_to_visible(logical, variable=VARIABLE, convert=numbers_only)
        assert visible_to_physical(visible, variable=VARIABLE, convert=numbers_only) == number
    assign_physical_devices(None)


@settings(deadline=None)
@given(st.text(alphabet="0123456789,-. +GPUMIGx", max_size=12))
def test_any_value_is_parsed_or_refused_with_its_name(value: str) -> None:
    """No text makes another error than one that names variable and value."""
    try:
        entries = parse_control(VARIABLE, value)
    except ValueError as error:
        assert f"{VARIABLE}={value!r}" in str(error)
        return
    if entries is None:
        assert not value.strip()
    else:
        assert entries
        assert all(entry and entry == entry.strip() for entry in entries)
        assert [e.strip() for e in value.rstrip().removesuffix(",").split(",")] == list(
            entries
        ) or entries == (value.strip(),)
