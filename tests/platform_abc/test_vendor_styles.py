"""Platforms in the styles of real vendors; `tests/typing/cases/vendors.py` has them, checkers judge it too."""

from __future__ import annotations

import copy
import importlib
import pickle
import sys
import warnings
import weakref
from typing import Any

import pytest

from platform_abc import MEMBERS, Platform
from platform_abc._calls import Call
from platform_abc.errors import ContractWarning
from tests.platform_abc.contract_platforms import Complete
from tests.typing.cases import vendors


def test_their_definition_warns_of_nothing() -> None:
    """No style is mistaken for a fault."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ContractWarning)
        sys.modules.pop(vendors.__name__)
        try:
            again = importlib.import_module(vendors.__name__)
        finally:
            sys.modules[vendors.__name__] = vendors
    assert [str(one.message) for one in caught] == []
    assert len(again.CLASSES) == len(vendors.CLASSES)
    assert not {*again.CLASSES} & {*vendors.CLASSES}, "the classes were not defined again"


@pytest.mark.parametrize("cls", vendors.CLASSES, ids=lambda cls: cls.__name__)
class TestInstances:
    """What a program does with any object, it can do with a platform of any style."""

    def test_it_survives_pickle_and_copies_with_its_state(self, cls: type[Any]) -> None:
        """Executors pickle what they hold; state may be in slots or not."""
        platform = cls()
        if cls in vendors.WITH_HANDLES:
            platform.handles.append(8)
        for again in (pickle.loads(pickle.dumps(platform)), copy.copy(platform), copy.deepcopy(platform)):
            assert type(again) is cls
            assert vars(again) == vars(platform)
            assert again.handles == ([7, 8] if cls in vendors.WITH_HANDLES else None)

    def test_it_can_be_referred_to_weakly(self, cls: type[Any]) -> None:
        """A platform in a weak mapping does not live for ever."""
        platform = cls()
        reference = weakref.ref(platform)
        assert reference() is platform
        del platform
        assert reference() is None

    def test_a_name_of_nobody_is_none(self, cls: type[Any]) -> None:
        """The fallback is there whatever the style."""
        assert cls().no_such_name is None


def test_own_names_come_before_the_fallback() -> None:
    """A `__getattr__` of the vendor passes on what it does not know; dunder names still raise."""
    platform = vendors.OwnNames()
    assert platform.acme_serial == "A-1"
    with pytest.raises(AttributeError):
        platform.__fancy__


@pytest.mark.parametrize(
    ("name", "call"),
    [(name, call) for name, spec in MEMBERS.items() if not name.startswith("__") for call in spec.calls],
    ids=str,
)
@pytest.mark.torch
def test_every_hook_can_be_extended_with_super(name: str, call: Call) -> None:
    """An override that passes everything on answers as the default does, or raises the same error."""
    if MEMBERS[name].kind == "classmethod":

        def extended(cls: Any, *args: Any, **keywords: Any) -> Any:
            return getattr(super(Vendor, cls), name)(*args, **keywords)

        override: object = classmethod(extended)
    else:

        def override(self: Any, *args: Any, **keywords: Any) -> Any:
            return getattr(super(Vendor, self), name)(*args, **keywords)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Vendor: Any = type(Platform)("Complete", (Complete,), {"__module__": __name__, name: override})
    found: list[object] = []
    for platform in (Vendor(), Complete()):
        try:
            answer: object = getattr(platform, name)(*call.args, **dict.fromkeys(call.keywords))
            found.append(answer if answer.__hash__ and answer == answer else type(answer))
        except Exception as error:
            found.append((type(error), str(error)))
    if name == "inference_mode":
        found = [type(answer) for answer in found]
    assert found[0] == found[1]
