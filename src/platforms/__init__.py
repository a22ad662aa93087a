"""The platforms that ship with the engine, and `current_platform`, the one of this process.

`from platforms import current_platform` chooses the platform on the first read, once per process.
A choice that fails is a `ResolutionError` and is not kept: the next read chooses again, from the start.
Importing this package, or any other of ours, chooses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from platform_abc.platform import Platform
    from platform_abc.plugins import LoadedPlugins
    from platform_abc.resolution_report import ResolutionReport

    current_platform: Platform
else:

    def __getattr__(name: str) -> object:
        """Resolve `current_platform` on its first read; afterwards it is a plain global."""
        if name == "current_platform":
            return _resolve()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["load_general_plugins", "reset_current_platform", "resolution_report", "resolved_platform"]


def resolution_report() -> ResolutionReport:
    """Return how the platform of this process was chosen; chooses it if that has not happened yet.

    Raises:
        ResolutionError: none can be chosen; the error's `report` is then the report.
    """
    from platforms._resolver import RESOLVER

    return RESOLVER.report()


def resolved_platform() -> Platform | None:
    """Return the platform of this process if it has been chosen; this chooses none."""
    chosen: Platform | None = globals().get("current_platform")
    return chosen


def load_general_plugins() -> LoadedPlugins:
    """Load and run the general plugins, once per process, after the platform is there.

    Returns:
        The plugins that ran and those that failed.

    Raises:
        ResolutionError: the platform cannot be resolved.
    """
    from platform_abc import plugins

    return plugins.load_general_plugins(before=_resolve)


def reset_current_platform() -> None:
    """Forget the platform, so that the next read of `current_platform` chooses again.

    For tests only. Modules that hold their own reference keep the old object.
    """
    from platforms._resolver import RESOLVER

    globals().pop("current_platform", None)
    RESOLVER.reset()


def _resolve() -> Platform:
    """Choose the platform and keep it as the module's global, which later reads find at once.

    One that a test or another tool has put there stays.
    """
    from typing import cast

    from platforms._resolver import RESOLVER

    if "current_platform" not in globals():
        globals()["current_platform"] = RESOLVER.platform()
    return cast("Platform", globals()["current_platform"])
