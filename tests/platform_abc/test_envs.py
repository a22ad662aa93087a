"""The variables `PLATFORM_ABC_*` mean what the table says, and wrong ones are pointed out."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_abc import envs
from platform_abc.errors import ConfigError


def test_an_unset_filter_allows_all_and_an_empty_one_none() -> None:
    """Unset and empty are different things."""
    assert envs.allowed_plugins({}) is None
    assert envs.allowed_plugins({envs.PLUGINS: ""}) == frozenset()
    assert envs.allowed_plugins({envs.PLUGINS: " , ,"}) == frozenset()


def test_names_in_the_filter_may_have_spaces_around_them() -> None:
    """A list written with spaces and a trailing comma is read as meant."""
    assert envs.allowed_plugins({envs.PLUGINS: " a, b ,"}) == {"a", "b"}


@given(st.sets(st.from_regex(r"[a-z_][a-z0-9_]*", fullmatch=True)))
def test_the_filter_gives_back_the_names(names: set[str]) -> None:
    """Joining names with commas and reading them is the identity."""
    assert envs.allowed_plugins({envs.PLUGINS: ",".join(names)}) == names


@pytest.mark.parametrize(
    ("value", "target"), [(None, "auto"), ("", "auto"), ("auto", "auto"), ("cpu", "cpu"), (" CPU ", "cpu")]
)
def test_targets(value: str | None, target: str) -> None:
    """Unset, empty and `auto` detect; `cpu` forces."""
    assert envs.target_device({} if value is None else {envs.TARGET_DEVICE: value}) == target


@pytest.mark.parametrize("value", ["cuda", "gpu", "cpu,cuda", "0"])
def test_another_target_is_an_error_that_lists_the_values(value: str) -> None:
    """The variable, its value and the allowed ones are in the text."""
    with pytest.raises(ConfigError, match=rf"PLATFORM_ABC_TARGET_DEVICE='{value}'.*auto, cpu"):
        envs.target_device({envs.TARGET_DEVICE: value})


def test_the_level_is_read_in_any_case() -> None:
    """`debug` is `DEBUG`; unset changes nothing."""
    assert envs.logging_level({envs.LOGGING_LEVEL: "debug"}) == "DEBUG"
    assert envs.logging_level({}) is None
    with pytest.raises(ConfigError, match="DEBUG, INFO"):
        envs.logging_level({envs.LOGGING_LEVEL: "LOUD"})


def test_the_time_limit_is_settable() -> None:
    """A number of seconds, positive and finite; sixty by default."""
    assert envs.resolution_timeout({}) == 60
    assert envs.resolution_timeout({envs.RESOLUTION_TIMEOUT: "0.5"}) == 0.5
    for wrong in ("0", "-1", "nan", "inf", "soon"):
        with pytest.raises(ConfigError, match="positive number of seconds"):
            envs.resolution_timeout({envs.RESOLUTION_TIMEOUT: wrong})


@pytest.fixture
def loggers() -> Iterator[None]:
    """Our loggers as before, after the test."""
    before = {
        name: (logging.getLogger(name).level, list(logging.getLogger(name).handlers)) for name in envs.LOGGERS
    }
    yield
    for name, (level, handlers) in before.items():
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).handlers[:] = handlers


def test_the_level_reaches_our_loggers_alone(loggers: None) -> None:
    """The root logger belongs to the application."""
    root = logging.getLogger().level
    envs.configure_logging({envs.LOGGING_LEVEL: "DEBUG"})
    assert all(logging.getLogger(name).level == logging.DEBUG for name in envs.LOGGERS)
    assert logging.getLogger().level == root


def test_without_the_variable_logging_is_left_alone(loggers: None) -> None:
    """An application that set our level keeps it."""
    logging.getLogger("platform_abc").setLevel(17)
    envs.configure_logging({})
    assert logging.getLogger("platform_abc").level == 17


def test_a_wrong_level_is_a_warning(loggers: None, caplog: pytest.LogCaptureFixture) -> None:
    """A typo in the log level does not stop an engine."""
    envs.configure_logging({envs.LOGGING_LEVEL: "LOUD"})
    assert "PLATFORM_ABC_LOGGING_LEVEL='LOUD' is not a level" in caplog.text


def test_an_unknown_name_is_a_warning_with_the_likely_one(caplog: pytest.LogCaptureFixture) -> None:
    """A misspelt variable would otherwise be ignored silently."""
    complaints = envs.validate_environ(environ={"PLATFORM_ABC_TARGET_DEVCIE": "cpu", "OTHER": "x"})
    assert complaints == (
        "unknown environment variable PLATFORM_ABC_TARGET_DEVCIE; did you mean PLATFORM_ABC_TARGET_DEVICE?",
    )
    assert caplog.messages == list(complaints)


def test_an_unknown_name_far_from_all_lists_the_known_ones() -> None:
    """Where no name is close, all of them are shown."""
    (complaint,) = envs.validate_environ(environ={"PLATFORM_ABC_XYZZY_Q": "1"})
    assert all(name in complaint for name in envs.VARIABLES)


def test_hard_fail_refuses() -> None:
    """The same complaints, raised; all in one error."""
    with pytest.raises(ConfigError, match=r"PLATFORM_ABC_PLUGIN;.*PLATFORM_ABC_TARGET_DEVICE='tpu'"):
        envs.validate_environ(True, {"PLATFORM_ABC_PLUGIN": "x", envs.TARGET_DEVICE: "tpu"})


def test_known_names_with_good_values_are_quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is said of what is right, also with `hard_fail`."""
    good = {
        envs.PLUGINS: "a",
        envs.TARGET_DEVICE: "cpu",
        envs.LOGGING_LEVEL: "INFO",
        envs.RESOLUTION_TIMEOUT: "1",
    }
    assert set(good) == set(envs.VARIABLES)
    assert envs.validate_environ(True, good) == ()
    assert not caplog.messages


def _fresh_lines(code: str) -> list[str]:
    import subprocess
    import sys

    environ = {**os.environ, envs.LOGGING_LEVEL: "WARNING"}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    return ended.stderr.splitlines()


def test_messages_are_seen_without_any_set_up_and_once_with_it() -> None:
    """An application may set up logging after the platform was chosen."""
    lines = _fresh_lines(
        "import logging\nfrom platform_abc import envs\nenvs.configure_logging()\nenvs.configure_logging()\n"
        "logging.getLogger('platforms.x').warning('before')\nlogging.basicConfig()\n"
        "logging.getLogger('platforms.x').warning('after')\n"
    )
    assert len(lines) == 2
    assert lines[0].startswith("WARNING ")
    assert lines[0].endswith("[platforms.x] before")
    assert lines[1] == "WARNING:platforms.x:after"


def test_messages_go_to_what_standard_error_is_then() -> None:
    """A test runner replaces it and closes its own afterwards."""
    lines = _fresh_lines(
        "import io, logging, sys\nfrom platform_abc import envs\nreal, sys.stderr = sys.stderr, io.StringIO()\n"
        "envs.configure_logging()\nsys.stderr.close()\nsys.stderr = real\n"
        "logging.getLogger('platforms.x').warning('later')\n"
    )
    assert len(lines) == 1
    assert lines[0].endswith("later")
