"""Calls of hooks: whose hook raised, what one changed in the configuration, and whether it left that valid."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator

from platform_abc.config import EngineConfig, diff, snapshot, unknown_fields
from platform_abc.errors import ConfigError, NotSupported
from platform_abc.hooks import trace

logger = logging.getLogger(__name__)


def owner(platform: object, hook: str) -> str:
    """Return a hook's full name for messages: `hook check_and_update_config of CpuPlatform`."""
    return f"hook {hook} of {type(platform).__name__}"


@contextlib.contextmanager
def named(hook: str, platform: object) -> Generator[None]:
    """Name a hook in whatever it raises within the `with` block."""
    try:
        yield
    except NotSupported:
        raise  # says itself of which member and platform it is
    except Exception as error:
        error.add_note(f"raised in {owner(platform, hook)}")
        raise


@contextlib.contextmanager
def observed(hook: str, platform: object, config: EngineConfig) -> Generator[None]:
    """Watch one call of a config hook: note its changes, and check the whole config after it.

    The changes go to the debug log, and into the trace where one runs.

    Args:
        hook: the member that is called within the `with` block.
        platform: whose hook it is.
        config: what the hook may change.

    A value that the hook has hung on a part beside its fields is a warning: it may be a typing error.

    Raises:
        ConfigError: the hook assigned, or left behind, what the configuration refuses; the message
            names the field and the hook. Any other exception of the hook passes with a note.
    """
    before, unknown = snapshot(config), unknown_fields(config)
    who = owner(platform, hook)
    try:
        with named(hook, platform):
            yield
    except ConfigError as error:
        raise ConfigError(f"{error} (raised in {who})") from error
    config.validate(written_by=who)
    for path, alike in unknown_fields(config).items():
        if path not in unknown:
            logger.warning(
                "%s wrote %s, which is no field%s; values of a platform's own belong into additional_config",
                who,
                path,
                f" (did you mean {alike}?)" if alike else "",
            )
    changes = [str(change) for change in diff(before, snapshot(config))]
    logger.debug("%s: %s", hook, "; ".join(changes) or "changed nothing")
    trace.changed(hook, changes)
