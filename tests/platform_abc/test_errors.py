"""The errors of the contract: what they say and what they are kinds of."""

from __future__ import annotations

import copy
import pickle

import pytest

from platform_abc import errors
from platform_abc.errors import DeviceUnavailable, MissingDependency, NotSupported

ALL_NOT_SUPPORTED = [
    NotSupported("get_punica_wrapper", "MyPlatform", "override it"),
    DeviceUnavailable("set_device", "MyPlatform", "load the driver"),
    MissingDependency("get_attn_backend_cls", "MyPlatform", "my-kernels"),
]


def test_not_supported_says_what_who_and_how_to_make_it_work() -> None:
    """One line with the member, the platform and the remedy."""
    assert str(ALL_NOT_SUPPORTED[0]) == (
        "MyPlatform does not support get_punica_wrapper; to make it work, override it"
    )


def test_a_missing_dependency_says_what_to_install() -> None:
    """The remedy is the command."""
    assert str(ALL_NOT_SUPPORTED[2]) == (
        "MyPlatform cannot answer get_attn_backend_cls without my-kernels; install it: pip install my-kernels"
    )


def test_an_unavailable_device_is_not_called_unsupported() -> None:
    """The platform could answer, on another machine."""
    assert str(ALL_NOT_SUPPORTED[1]) == (
        "MyPlatform finds no device to answer set_device; to make it work, load the driver"
    )


@pytest.mark.parametrize("error", ALL_NOT_SUPPORTED, ids=lambda error: type(error).__name__)
def test_not_supported_is_what_engines_already_catch(error: NotSupported) -> None:
    """An engine that catches NotImplementedError needs no change."""
    assert isinstance(error, NotImplementedError)


@pytest.mark.parametrize("error", ALL_NOT_SUPPORTED, ids=lambda error: type(error).__name__)
def test_not_supported_survives_pickling_and_copying(error: NotSupported) -> None:
    """It comes back from a child process as it was."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert vars(again) == vars(error)
        assert str(again) == str(error)


def test_resolution_errors_cannot_be_mistaken_for_import_errors() -> None:
    """Python would turn an ImportError or AttributeError into "cannot import name"."""
    assert not issubclass(errors.ResolutionError, (ImportError, AttributeError))


def test_each_step_of_a_dotted_name_has_an_error_of_its_own() -> None:
    """All four are import errors, and none is a kind of another."""
    steps = [errors.MalformedQualname, errors.MissingModule, errors.MissingName, errors.FailingImport]
    assert all(issubclass(step, ImportError) for step in steps)
    assert [sum(issubclass(one, other) for other in steps) for one in steps] == [1, 1, 1, 1]


def test_the_contract_has_a_version_of_its_own() -> None:
    """Major and minor, apart from the package's version."""
    major, minor = errors.CONTRACT_VERSION.split(".")
    assert int(major) >= 1
    assert int(minor) >= 0
