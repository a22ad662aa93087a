"""Overrides are checked against the calls of an engine where the class is defined."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from platform_abc import ContractWarning, Platform
from platform_abc._groups import calls, declarations
from tests.platform_abc.contract_platforms import Complete


def warnings_of(**body: object) -> list[str]:
    """Define a platform with these members and return what it is warned about."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of what an earlier test left to the collector
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
        (staticmethod(lambda device_id=0: "Dummy"), "a static method, so it does not get the class"),
        (lambda self, device_id=0: "Dummy", "a method of instances, but it may be called on the class"),
        (
            functools.partialmethod(renamed),
            "a partial method of instances, but it may be called on the class",
        ),
        (
            functools.partialmethod(staticmethod(anything)),
            "a partial method of instances, so it does not get",
        ),
        (property(lambda self: "Dummy"), "a property, but the engine calls it"),
        ("Dummy", "a str, but the engine calls it"),
        (7, "an int, but the engine calls it"),
        (None, "a None value, but the engine calls it"),
        (functools.partial(anything), "a partial, "),
        (str, "a class, so it does not get the class"),
    ],
    ids=[
        "static",
        "instance",
        "partial of instance",
        "partial of static",
        "property",
        "value",
        "number",
        "none",
        "partial",
        "class",
    ],
)
def test_a_class_method_must_stay_one(override: object, kind: str) -> None:
    """It may be called on the class, and means the class that it is called on."""
    [text] = warnings_of(get_device_name=override)
    assert text.startswith(f"get_device_name is {kind}")
    assert text.endswith("make it a class method")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="there a partial binds like a function")
def test_a_partial_is_called_without_the_instance() -> None:
    """It does not bind, so what it needs is what the engine passes."""
    assert warnings_of(is_cuda=functools.partial(bool, 1)) == []
    assert warnings_of(get_max_output_tokens=functools.partial(max, 1)) == []
    [text] = warnings_of(get_max_output_tokens=functools.partial(without, 1))
    assert "get_max_output_tokens(prompt_len): too many positional arguments" in text


def prefixed(cls: type, prefix: str, device_id: int = 0) -> str:
    """Take one argument more than the engine passes."""
    return prefix


def test_a_partial_method_is_judged_with_what_it_adds() -> None:
    """Of a class method it is right, if the rest takes the calls."""
    partial = functools.partialmethod(classmethod(prefixed), "Dummy")  # type: ignore[arg-type]
    assert warnings_of(get_device_name=partial) == []
    for wrong in (
        functools.partialmethod(classmethod(prefixed), "Dummy", 0),  # type: ignore[arg-type]
        functools.partialmethod(classmethod(renamed), 0),  # type: ignore[arg-type]
        functools.partialmethod(classmethod(prefixed), prefix="Dummy"),  # type: ignore[arg-type]
    ):
        [text] = warnings_of(get_device_name=wrong)
        assert text.startswith("get_device_name cannot take the engine's call get_device_name(")


def test_parameters_in_another_order_cannot_take_a_call_by_position() -> None:
    """Every argument would arrive, each as another one; other names in the same order are right."""

    def swapped(cls: type, params: object, processed_inputs: object) -> None:
        """Take them the other way round."""

    def other_names(cls: type, inputs: object, sampling: object) -> None:
        """Take them in the right order."""

    def half(cls: type, capability: object, device_id: int = 0) -> bool:
        return True

    [text] = warnings_of(validate_request=classmethod(swapped))
    assert "validate_request(processed_inputs, params): it would take processed_inputs for params" in text
    assert warnings_of(validate_request=classmethod(other_names)) == []
    assert warnings_of(has_device_capability=classmethod(half)) == []


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


def test_what_is_hidden_by_a_nearer_class_is_not_judged() -> None:
    """It is never called: neither behind the class itself, nor behind a base that comes first."""

    class Mixin:
        get_device_uuid = get_device_name = None

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ContractWarning)

        class Behind(Complete, Mixin):  # type: ignore[misc]
            @classmethod
            def get_device_uuid(cls, device_id: int = 0) -> str:
                return "0"

        class Before(Mixin, Complete):  # type: ignore[misc]
            get_device_name = Complete.__dict__["get_device_name"]
            get_device_uuid = Behind.__dict__["get_device_uuid"]

    assert [str(one.message) for one in caught] == []


def test_a_slot_is_no_method() -> None:
    """The engine would call what the instance keeps there, and on the class the slot itself."""
    assert warnings_of(__slots__=("get_device_uuid",)) == [
        "get_device_uuid is a slot, but the engine calls it; make it a class method"
    ]


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
