"""Overrides are checked against the calls of an engine where the class is defined."""

from __future__ import annotations

import functools
import linecache
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from platform_abc import ContractWarning, Platform
from platform_abc._groups import calls, declarations
from tests.platform_abc.contract_platforms import Complete


def warnings_of(**body: object) -> list[str]:
    """Define a platform with these members and return what it is warned about."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        type(Platform)("Vendor", (Complete,), {"__module__": __name__, "__qualname__": "Vendor", **body})
    assert all(one.category is ContractWarning for one in caught)
    return [str(one.message).removeprefix(f"{__name__}.Vendor.") for one in caught]


def renamed(cls: type, i: int = 0) -> str:
    """Take the argument under another name, which a call by position does not mind."""
    return "Dummy"


def anything(*args: object, **kwargs: object) -> str:
    """Take anything."""
    return "Dummy"


def more(cls: type, device_id: int = 0, verbose: bool = False) -> str:
    """Take more, with a default."""
    return "Dummy"


def without(cls: type) -> str:
    """Take nothing."""
    return "Dummy"


def needing(cls: type, device_id: int) -> str:
    """Insist on what the engine may leave out."""
    return "Dummy"


def needing_more(cls: type, device_id: int = 0, *, verbose: bool) -> str:
    """Insist on what the engine never passes."""
    return "Dummy"


async def later(cls: type, device_id: int = 0) -> str:
    """Answer later."""
    return "Dummy"


def streaming(cls: type, device_id: int = 0) -> Iterator[str]:
    """Answer bit by bit."""
    yield "Dummy"


def passing_on(function: Callable[..., str]) -> Callable[..., str]:
    """Decorate with a wrapper that takes everything."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> str:
        return function(*args, **kwargs)

    return wrapper


def injecting(function: Callable[..., str]) -> Callable[..., str]:
    """Decorate with a wrapper that has a signature of its own."""

    @functools.wraps(function)
    def wrapper(cls: type, device_id: int = 0) -> str:
        return function(cls, device_id, verbose=True)

    return wrapper


class Bindable:
    """A descriptor that the contract knows nothing of."""

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., str]:
        """Give a function."""
        return anything


@pytest.mark.parametrize(
    "override",
    [
        pytest.param(classmethod(function), id=getattr(function, "__name__", "cached"))
        for function in (
            renamed,
            anything,
            more,
            functools.cache(renamed),
            passing_on(renamed),
            injecting(needing_more),
        )
    ]
    + [pytest.param(Bindable(), id="descriptor")],
)
def test_an_override_that_takes_the_calls_is_right(override: object) -> None:
    """Whatever it is called, decorated with, or takes besides."""
    assert warnings_of(get_device_name=override) == []


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (without, "get_device_name(device_id): too many positional arguments"),
        (needing, "get_device_name(): missing a required argument: 'device_id'"),
        (needing_more, "get_device_name(): missing a required"),
        (functools.cache(without), "get_device_name(device_id): too many positional arguments"),
        (passing_on(without), "get_device_name(device_id): too many positional arguments"),
        (later, "is a coroutine function"),
        (streaming, "is a generator function"),
    ],
    ids=["too few", "required", "more required", "cached", "wrapped", "coroutine", "generator"],
)
def test_an_override_that_cannot_take_a_call_is_warned_about(
    function: Callable[..., Any], reason: str
) -> None:
    """The warning names the member, the call that fails and why."""
    [text] = warnings_of(get_device_name=classmethod(function))
    assert text.startswith("get_device_name ")
    assert reason in text


def test_a_keyword_of_the_engine_must_keep_its_name() -> None:
    """The attention picker gets two arguments by keyword."""

    def picker(cls: type, backend: object, selector: object, num_heads: int | None = None) -> str:
        return "a.B"

    def older(cls: type, backend: object, attn_selector_config: object) -> str:
        return "a.B"

    assert "attn_selector_config" in warnings_of(get_attn_backend_cls=classmethod(picker))[0]
    assert "'num_heads'" in warnings_of(get_attn_backend_cls=classmethod(older))[0]


@pytest.mark.parametrize(
    ("override", "kind"),
    [
        (staticmethod(lambda device_id=0: "Dummy"), "is a static method"),
        (lambda self, device_id=0: "Dummy", "is a method of instances"),
        (property(lambda self: "Dummy"), "is a property"),
        ("Dummy", "is a str"),
        (None, "is a None value"),
        (functools.partial(anything), "is a partial"),
    ],
    ids=["static", "instance", "property", "value", "none", "partial"],
)
def test_a_class_method_must_stay_one(override: object, kind: str) -> None:
    """Other class methods call it on the class."""
    [text] = warnings_of(get_device_name=override)
    assert text.startswith(f"get_device_name {kind}, but ")
    assert text.endswith("make it a class method")


@pytest.mark.parametrize(
    "override",
    [lambda self: True, classmethod(lambda cls: True), staticmethod(lambda: True)],
    ids=["instance", "class", "static"],
)
def test_a_method_of_instances_may_be_any_kind(override: object) -> None:
    """The engine calls it on the instance, where all kinds work."""
    assert warnings_of(is_cuda=override) == []


def test_a_method_of_instances_must_be_callable() -> None:
    """A property would be called on its answer."""
    assert warnings_of(is_cuda=property(lambda self: True)) == [
        "is_cuda is a property, but the engine calls it; make it a method"
    ]


@pytest.mark.parametrize(
    "override", [["float32"], property(lambda self: []), functools.cached_property(list)]
)
def test_a_property_may_be_a_value(override: object) -> None:
    """Read on the instance, all of them work."""
    assert warnings_of(supported_dtypes=override) == []


@pytest.mark.parametrize("override", [lambda self: [], classmethod(lambda cls: []), staticmethod(list)])
def test_a_property_must_not_be_a_method(override: object) -> None:
    """The engine reads it without a call."""
    [text] = warnings_of(supported_dtypes=override)
    assert text.startswith("supported_dtypes is a ")
    assert text.endswith("make it a property")


@pytest.mark.parametrize(
    "override", [property(lambda self: "x"), lambda self: "x", classmethod(lambda cls: "x")]
)
def test_an_attribute_must_be_a_value(override: object) -> None:
    """It is read on the class, where a property gives itself."""
    [text] = warnings_of(device_name=override)
    assert "but it is read on the class as well; write a plain value: `device_name = …`" in text


def test_an_override_is_judged_once() -> None:
    """A child does not repeat the warning of its base, but a mixin that comes in with it is judged."""

    class Mixin:
        @classmethod
        def get_device_uuid(cls) -> str:
            return "0"

    with pytest.warns(ContractWarning, match=r"Base\.get_device_name"):

        class Base(Complete):
            get_device_name = classmethod(without)  # type: ignore[assignment]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        class Child(Mixin, Base):  # type: ignore[misc]
            pass

    assert [str(one.message).split(" ")[0].rpartition(".")[2] for one in caught] == ["get_device_uuid"]
    assert "Mixin" in str(caught[0].message)


def test_the_warning_points_at_the_override() -> None:
    """At the line of the `def`, or of the assignment, in the vendor's own file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        class Vendor(Complete):
            @classmethod
            @functools.cache
            def get_device_name(cls) -> str:  # type: ignore[override]
                return "Dummy"

            def supported_dtypes(self) -> list[object]:  # type: ignore[override]
                return []

            get_punica_wrapper = "dummy.Wrapper"  # type: ignore[assignment]

            @property
            def device_type(self) -> str:  # type: ignore[override]
                return "cpu"

    lines = {linecache.getline(one.filename, one.lineno).strip().partition("(")[0] for one in caught}
    assert {Path(one.filename) for one in caught} == {Path(__file__)}
    assert lines == {
        "def get_device_name",
        "def supported_dtypes",
        'get_punica_wrapper = "dummy.Wrapper"  # type: ignore[assignment]',
        "def device_type",
    }


def test_without_source_the_warning_points_at_the_class_statement() -> None:
    """Code from a string has no file; the frame that runs it still has a place."""
    namespace = {"__name__": "made_up", "Complete": Complete}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(
            compile("\n\nclass Vendor(Complete):\n    get_punica_wrapper = 1\n", "<string>", "exec"),
            namespace,
        )
    assert (caught[0].filename, caught[0].lineno) == ("<string>", 3)


def test_filters_by_module_work() -> None:
    """A user may silence one vendor."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", module=__name__.replace(".", r"\."))

        class Vendor(Complete):
            get_punica_wrapper = None  # type: ignore[assignment]

    assert caught == []


@pytest.mark.parametrize("name", [name for name, one in declarations().items() if calls(name)])
def test_the_defaults_take_every_call(name: str) -> None:
    """The contract keeps its own rules: a copy of each default, as an override, is not warned about."""
    default: Any = declarations()[name].default
    function = getattr(default, "__func__", default)

    @functools.wraps(function, updated=())
    def copied(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    assert warnings_of(**{name: classmethod(copied) if isinstance(default, classmethod) else copied}) == []


class Chameleon:
    """Answers every attribute with itself, as some proxies do."""

    def __getattr__(self, name: str) -> Chameleon:
        """Give itself."""
        return self

    def __call__(self, *args: object, **kwargs: object) -> str:
        """Take anything."""
        return "Dummy"


@pytest.mark.parametrize("override", [Chameleon(), classmethod(Chameleon()), type, classmethod(dict)])
def test_strange_overrides_do_not_break_the_definition(override: object) -> None:
    """They may be warned about; the check itself never raises."""
    assert len(warnings_of(get_device_uuid=override)) <= 1
