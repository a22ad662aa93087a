"""Defining a platform: what is refused, what is only warned about, what is allowed."""

from __future__ import annotations

import dataclasses
import warnings
from abc import ABCMeta, abstractmethod

import pytest

from platform_abc import ContractWarning, Platform, PlatformEnum
from tests.platform_abc.contract_platforms import Complete

MANDATORY = {
    "_enum": PlatformEnum.OOT,
    "device_name": "dummy",
    "device_type": "cpu",
    "check_and_update_config": classmethod(lambda cls, vllm_config: None),
    "get_attn_backend_cls": classmethod(lambda cls, backend, attn_selector_config, num_heads=None: "a.B"),
    "get_device_name": classmethod(lambda cls, device_id=0: "Dummy"),
}


def define(name: str, bases: tuple[type, ...], body: dict[str, object], **keywords: object) -> type:
    """Define a class as a class statement would."""
    return type(Platform)(name, bases, {"__module__": __name__, "__qualname__": name, **body}, **keywords)


class TestMandatoryMembers:
    """A platform that lacks a mandatory member."""

    @pytest.mark.parametrize("forgotten", MANDATORY)
    def test_it_is_refused_where_it_is_defined(self, forgotten: str) -> None:
        """The error names the class and what is missing, and nothing else, and says what to write."""
        body = {name: value for name, value in MANDATORY.items() if name != forgotten}
        with pytest.raises(TypeError) as caught:
            define("Forgetful", (Platform,), body)
        text = str(caught.value)
        assert f"{__name__}.Forgetful lacks what every platform must define: {forgotten}." in text
        assert not any(name in text for name in MANDATORY if name not in {forgotten, "device_name"})
        assert "abstract=True" in text

    def test_all_of_them_are_named_at_once(self) -> None:
        """One run shows everything that is missing."""
        with pytest.raises(TypeError) as caught:
            define("Empty", (Platform,), {})
        assert all(name in str(caught.value) for name in MANDATORY)

    def test_an_annotation_is_no_value(self) -> None:
        """`device_name: str` alone sets nothing."""
        body = {name: value for name, value in MANDATORY.items() if name != "device_name"}
        with pytest.raises(TypeError, match="must define: device_name"):
            define("Annotated", (Platform,), {**body, "__annotations__": {"device_name": str}})

    def test_a_mixin_may_define_them_if_it_comes_first(self) -> None:
        """The order of the bases decides, as always in Python."""
        mixin = type("Mixin", (), {"get_device_name": MANDATORY["get_device_name"]})
        body = {name: value for name, value in MANDATORY.items() if name != "get_device_name"}
        assert define("First", (mixin, Platform), body)().get_device_name() == "Dummy"
        with pytest.raises(TypeError, match="get_device_name is in Mixin, but .* put it first"):
            define("Last", (Platform, mixin), body)

    def test_a_member_can_be_left_open_again(self) -> None:
        """The text does not send the author to a base that defines it."""

        @classmethod  # type: ignore[misc]
        @abstractmethod
        def get_device_name(cls: type, device_id: int = 0) -> str:
            """Leave it to children."""
            raise NotImplementedError

        with pytest.raises(TypeError, match=r"@classmethod def get_device_name\(cls, …\)"):
            define("Open", (Complete,), {"get_device_name": get_device_name})

    def test_a_base_of_other_platforms_says_so(self) -> None:
        """It can be defined but not instantiated; its children are checked again."""

        class Base(Platform, abstract=True):
            device_type = "cpu"

        with pytest.raises(TypeError, match="abstract"):
            Base()  # type: ignore[abstract]
        rest = {name: value for name, value in MANDATORY.items() if name != "device_type"}
        assert define("Child", (Base,), rest)().device_type == "cpu"
        with pytest.raises(TypeError, match="must define: device_name"):
            define("Child", (Base,), {name: value for name, value in rest.items() if name != "device_name"})

    def test_a_base_stays_one_when_a_decorator_makes_it_anew(self) -> None:
        """`dataclass(slots=True)` defines the class twice, the second time without its keywords."""

        @dataclasses.dataclass(slots=True)
        class Base(Platform, abstract=True):
            handle: int = 0

        assert Base.__slots__ == ("handle",)
        with pytest.raises(TypeError, match="lacks what every platform must define"):
            define("Child", (Base,), {})

    def test_abstract_is_not_inherited(self) -> None:
        """A child of an abstract base must be complete, or say it again."""

        class Base(Platform, abstract=True):
            pass

        class Nested(Base, abstract=True):
            pass

        with pytest.raises(TypeError, match="lacks what every platform must define"):
            define("Child", (Nested,), {})


class TestClass:
    """The class as such."""

    def test_arguments_of_the_constructor_are_refused(self) -> None:
        """A platform takes none, and none is swallowed."""
        with pytest.raises(TypeError):
            Complete(1)  # type: ignore[call-arg]

    def test_a_metaclass_of_the_vendor_works(self) -> None:
        """Any that derives from ABCMeta, as ours is no other."""
        assert type(Platform) is ABCMeta

        class Meta(ABCMeta):
            pass

        class Vendor(Complete, metaclass=Meta):
            pass

        assert isinstance(Vendor(), Platform)

    def test_keywords_of_other_bases_arrive(self) -> None:
        """Platform's own keyword does not stand in the way."""

        class Registered:
            names: list[str] = []

            def __init_subclass__(cls, *, register: str = "", **kwargs: object) -> None:
                super().__init_subclass__(**kwargs)
                cls.names.append(register)

        class Vendor(Complete, Registered, register="mine"):
            pass

        assert Registered.names == ["mine"]
        with pytest.raises(TypeError):
            define("Misspelt", (Complete,), {}, abstrakt=True)

    def test_parameters_may_be_strings(self) -> None:
        """A vendor need not import the engine whose types it names."""

        class Vendor(Platform["EngineConfig", "Selector"], abstract=True):  # type: ignore[name-defined]
            pass

        assert issubclass(Vendor, Platform)


class TestWarnings:
    """Definitions of platforms under the warning filters of a user."""

    def test_a_right_platform_warns_of_nothing(self) -> None:
        """Names of its own are nobody's business."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ContractWarning)
            cls = define(
                "Right",
                (Complete,),
                {"my_own": lambda self, x: x, "_private": 3, "extra_attribute": object()},
            )
        assert [str(one.message) for one in caught] == []
        assert cls().my_own(2) == 2

    def test_a_wrong_override_warns_but_the_class_is_there(self) -> None:
        """It works as far as it goes."""
        with pytest.warns(ContractWarning, match="get_device_name"):
            cls = define("Wrong", (Complete,), {"get_device_name": classmethod(lambda cls: "Dummy")})
        assert cls().get_device_name() == "Dummy"
