"""The user's arguments for the engine that is booted: they travel to children, and unknown ones are refused."""

from __future__ import annotations

import pytest

from conformance.engines import user_arguments
from conformance.problems import UsageProblem


def test_they_travel_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child reads what the run was given; without arguments there is no variable."""
    assert user_arguments.given() == {}
    assert user_arguments.variables({}) == {}
    for name, value in user_arguments.variables({"model": "/m", "seed": 3}).items():
        monkeypatch.setenv(name, value)
    assert user_arguments.given() == {"model": "/m", "seed": 3}


def test_one_that_the_engine_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typo is told, with the name that was meant."""
    for name, value in user_arguments.variables({"modle": "/m"}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageProblem, match="'modle'.*did you mean 'model'"):
        user_arguments.require_known(["model", "dtype"])
