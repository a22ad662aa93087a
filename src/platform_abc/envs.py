"""The environment variables `PLATFORM_ABC_*`: what each means, and the check for unknown ones."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import Final

from platform_abc.errors import ConfigError

PREFIX: Final = "PLATFORM_ABC_"
PLUGINS: Final = "PLATFORM_ABC_PLUGINS"
TARGET_DEVICE: Final = "PLATFORM_ABC_TARGET_DEVICE"
LOGGING_LEVEL: Final = "PLATFORM_ABC_LOGGING_LEVEL"
RESOLUTION_TIMEOUT: Final = "PLATFORM_ABC_RESOLUTION_TIMEOUT"

VARIABLES: Final[Mapping[str, str]] = {
    PLUGINS: "comma-separated names of the plugins that may load; unset: all; empty: none",
    TARGET_DEVICE: "`auto` (or unset) detects the platform, `cpu` forces the CPU",
    LOGGING_LEVEL: "DEBUG, INFO, WARNING, ERROR or CRITICAL: the level of our loggers",
    RESOLUTION_TIMEOUT: "seconds that a thread waits while another one resolves the platform; default 60",
}
"""Every variable that we read, with its meaning."""

TARGETS: Final = ("auto", "cpu")
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
DEFAULT_TIMEOUT: Final = 60.0
LOGGERS: Final = ("platform_abc", "platforms", "reference_model", "reference_engine", "conformance")

logger = logging.getLogger(__name__)


def allowed_plugins(
    environ: Mapping[str, str] | None = None, variable: str = PLUGINS
) -> frozenset[str] | None:
    """Return the names of plugins that may load.

    Args:
        environ: the environment; the process's own by default.
        variable: the variable to read.

    Returns:
        The names; `None` when the variable is unset and all may load; empty when it is set and empty.
    """
    value = _environ(environ).get(variable)
    if value is None:
        return None
    return frozenset(name.strip() for name in value.split(",") if name.strip())


def target_device(environ: Mapping[str, str] | None = None) -> str:
    """Return the wished target, `auto` or `cpu`.

    Raises:
        ConfigError: any other value.
    """
    value = _environ(environ).get(TARGET_DEVICE, "")
    target = value.strip().lower() or "auto"
    if target not in TARGETS:
        raise ConfigError(f"{TARGET_DEVICE}={value!r} is not a target; use one of: {', '.join(TARGETS)}")
    return target


def logging_level(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the name of the wished log level, `None` when unset.

    Raises:
        ConfigError: no such level.
    """
    value = _environ(environ).get(LOGGING_LEVEL, "")
    level = value.strip().upper()
    if not level:
        return None
    if level not in LEVELS:
        raise ConfigError(f"{LOGGING_LEVEL}={value!r} is not a level; use one of: {', '.join(LEVELS)}")
    return level


def resolution_timeout(environ: Mapping[str, str] | None = None) -> float:
    """Return for how many seconds a thread waits for another thread's resolution.

    Raises:
        ConfigError: not a positive, finite number.
    """
    value = _environ(environ).get(RESOLUTION_TIMEOUT, "").strip()
    if not value:
        return DEFAULT_TIMEOUT
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise ConfigError(f"{RESOLUTION_TIMEOUT}={value!r} is not a positive number of seconds")
    return seconds


def configure_logging(environ: Mapping[str, str] | None = None) -> None:
    """Apply `PLATFORM_ABC_LOGGING_LEVEL` to our loggers; without the variable change nothing.

    Where the application has set up no logging at all, messages would go nowhere, so a handler
    that writes to standard error is added once; it is silent as soon as the application sets up
    logging itself. A wrong level is one warning, not a failed start.
    """
    try:
        level = logging_level(environ)
    except ConfigError as error:
        logger.warning("%s; the level is left as it is", error)
        return
    if level is None:
        return
    for name in LOGGERS:
        ours = logging.getLogger(name)
        ours.setLevel(level)
        if not ours.hasHandlers():
            handler = _UntilConfigured()
            handler.setFormatter(
                logging.Formatter("%(levelname)s %(asctime)s [%(name)s] %(message)s", "%H:%M:%S")
            )
            ours.addHandler(handler)


class _UntilConfigured(logging.Handler):
    """Writes to what standard error is now, as long as the root logger has no handler."""

    def emit(self, record: logging.LogRecord) -> None:
        if logging.getLogger().handlers:
            return
        try:
            sys.stderr.write(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001  (closed or replaced; logging has its own way to say so)
            self.handleError(record)


def validate_environ(hard_fail: bool = False, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Complain about unknown `PLATFORM_ABC_*` names and about values that we cannot read.

    Args:
        hard_fail: raise instead of warning.
        environ: the environment; the process's own by default.

    Returns:
        The complaints, each one sentence; empty if all is well.

    Raises:
        ConfigError: there is a complaint and `hard_fail` is set.
    """
    values = _environ(environ)
    complaints = [
        _unknown(name) for name in sorted(values) if name.startswith(PREFIX) and name not in VARIABLES
    ]
    for read in (target_device, logging_level, resolution_timeout):
        try:
            read(values)
        except ConfigError as error:
            complaints.append(str(error))
    if complaints and hard_fail:
        raise ConfigError("; ".join(complaints))
    for complaint in complaints:
        logger.warning("%s", complaint)
    return tuple(complaints)


def _unknown(name: str) -> str:
    import difflib

    # Without what all have in common, or every name would be like every other one.
    known = [each.removeprefix(PREFIX) for each in VARIABLES]
    close = difflib.get_close_matches(name.removeprefix(PREFIX), known, n=1, cutoff=0.6)
    hint = f"did you mean {PREFIX}{close[0]}?" if close else f"known are: {', '.join(VARIABLES)}"
    return f"unknown environment variable {name}; {hint}"


def _environ(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environ is None else environ
