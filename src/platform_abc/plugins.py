"""Plugins found through entry points: discovery, filter, loading, and failures as data.

Every plugin carries the distribution that brought it, so that a message can name what to uninstall
or to report to. Nothing is imported from `importlib.metadata` until plugins are asked for. The values are
named tuples, because the first read of `current_platform` comes this way and should not wait for attrs.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from platform_abc import envs
from platform_abc.foreign import describe, traceback_text
from platform_abc.turn import Turn

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

PLATFORM_PLUGINS_GROUP: Final = "platform_abc.platform_plugins"
GENERAL_PLUGINS_GROUP: Final = "platform_abc.general_plugins"
SEE_TRACEBACK: Final = "python -m platform_abc"

logger = logging.getLogger(__name__)


class Plugin(NamedTuple):
    """One entry point of one installed distribution.

    Args:
        name: the entry point's name.
        group: its group.
        value: what it names, `package.module:function`.
        distribution: the distribution's name; empty if its metadata cannot be read.
        version: the distribution's version; empty likewise.
        entry_point: what loads it; None for one that was not discovered here.
    """

    name: str
    group: str
    value: str
    distribution: str
    version: str
    entry_point: EntryPoint | None = None

    @property
    def origin(self) -> str:
        """The distribution as shown to users, `vendor-plugin 1.2`."""
        return f"{self.distribution or 'an unreadable distribution'} {self.version}".rstrip()

    @property
    def title(self) -> str:
        """The plugin as shown to users, `npu (vendor-plugin 1.2)`."""
        return f"{self.name} ({self.origin})"

    def is_being_imported(self) -> bool:
        """Say whether the import of the plugin's module has begun and not ended."""
        spec = getattr(sys.modules.get(self.value.partition(":")[0].strip()), "__spec__", None)
        return bool(getattr(spec, "_initializing", False))

    def load(self) -> Callable[[], object]:
        """Import the function that the entry point names.

        Raises:
            BaseException: whatever the import raises.
            ValueError: the entry point's value is malformed.
            TypeError: it is not callable.
        """
        if self.entry_point is None:
            raise TypeError(f"plugin {self.title} was not discovered on this machine")
        try:
            _ = self.entry_point.module, self.entry_point.attr
        except Exception as error:
            raise ValueError(
                f"its value in entry_points.txt is {self.value!r}, expected package.module:function"
            ) from error
        loaded: object = self.entry_point.load()
        if not callable(loaded):
            raise TypeError(
                f"its entry point {self.value} is of type {type(loaded).__name__}, "
                "expected a function without arguments (package.module:function)"
            )
        return loaded


class PluginFailure(NamedTuple):
    """A plugin that could not be loaded or run.

    Args:
        plugin: which one.
        doing: `load` or `run`.
        error: `Type: message`.
        traceback: the formatted traceback.
    """

    plugin: Plugin
    doing: str
    error: str
    traceback: str


class LoadedPlugins(NamedTuple):
    """What loading one group gave.

    Args:
        loaded: the plugins in the order in which they are to be called, with their functions.
        failures: those that could not be loaded.
        filtered: those that the filter keeps out.
        complaints: damaged metadata, unknown names in the filter, names that two distributions share.
    """

    loaded: tuple[tuple[Plugin, Callable[[], object]], ...] = ()
    failures: tuple[PluginFailure, ...] = ()
    filtered: tuple[Plugin, ...] = ()
    complaints: tuple[str, ...] = ()


def discover(groups: Iterable[str], *, as_found: bool = False) -> tuple[Plugin, ...]:
    """List the plugins of some groups, ordered by name and then by distribution.

    The order does not depend on `sys.path`, so every process sees the same one.

    Args:
        groups: the entry-point groups.
        as_found: keep the order of the import path instead, as other engines do.
    """
    return _discover(groups, as_found)[0]


def _discover(groups: Iterable[str], as_found: bool) -> tuple[tuple[Plugin, ...], list[str]]:
    """List the plugins, and complain about each distribution whose metadata cannot be read."""
    entries, complaints = _entry_points(tuple(groups))
    plugins = tuple(_plugin(entry) for entry in entries)
    if as_found:
        return plugins, complaints
    in_order = sorted(plugins, key=lambda plugin: (plugin.name, plugin.distribution, plugin.value))
    return tuple(in_order), complaints


def load_plugins_by_group(
    group: str,
    *,
    environ: Mapping[str, str] | None = None,
    variable: str = envs.PLUGINS,
    groups: Iterable[str] = (PLATFORM_PLUGINS_GROUP, GENERAL_PLUGINS_GROUP),
    last_wins: bool = False,
    before_each: Callable[[Plugin], None] | None = None,
) -> LoadedPlugins:
    """Import the functions of one group's plugins; a plugin that fails is a warning and data.

    Two distributions may use one name: both are loaded, in the order of their distribution names,
    with a warning. Nothing is chosen silently.

    Args:
        group: the entry-point group to load.
        environ: where the filter is read; the process's own environment by default.
        variable: the filter's variable.
        groups: all groups that share the filter, so that a name is unknown only if none has it.
        last_wins: of plugins that share a name load only the last one found, as other engines do.
        before_each: told of each plugin before it is imported.

    Returns:
        What was loaded, what failed, what the filter keeps out, and what is odd.
    """
    allowed = envs.allowed_plugins(environ, variable)
    everything, damaged = _discover(dict.fromkeys((group, *groups)), last_wins)
    plugins = [plugin for plugin in everything if plugin.group == group]
    complaints = [
        *damaged,
        *_unknown_names(allowed, everything, variable),
        *_shared_names(plugins, last_wins),
    ]
    if last_wins:
        plugins = list({plugin.name: plugin for plugin in plugins}.values())
    for complaint in complaints:
        logger.warning("%s", complaint)
    loaded: list[tuple[Plugin, Callable[[], object]]] = []
    failures: list[PluginFailure] = []
    filtered: list[Plugin] = []
    for plugin in plugins:
        if allowed is not None and plugin.name not in allowed:
            filtered.append(plugin)
            logger.debug("plugin %s is not in %s, so it stays out", plugin.title, variable)
            continue
        if before_each is not None:
            before_each(plugin)
        try:
            loaded.append((plugin, plugin.load()))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  (SystemExit too: a plugin must not end the process)
            failures.append(failure(plugin, "load", error))
    return LoadedPlugins(tuple(loaded), tuple(failures), tuple(filtered), tuple(complaints))


def failure(plugin: Plugin, doing: str, error: BaseException) -> PluginFailure:
    """Make the record of a failing plugin and log its warning.

    Args:
        plugin: which one.
        doing: `load` or `run`.
        error: what it raised.
    """
    text = traceback_text(error)
    reason = describe(error)
    if isinstance(error, AttributeError | ImportError) and plugin.is_being_imported():
        reason += "; the plugin's module reads the platform while it is itself being imported"
    logger.warning(
        "plugin %s failed to %s: %s; see the traceback with `%s`", plugin.title, doing, reason, SEE_TRACEBACK
    )
    logger.debug("plugin %s:\n%s", plugin.title, text)
    return PluginFailure(plugin, doing, reason, text)


class _General:
    """The general plugins of this process: loaded once, whichever thread asks first."""

    def __init__(self) -> None:
        self.turn = Turn("loading the general plugins")
        self.done: LoadedPlugins | None = None

    def load(self) -> LoadedPlugins:
        """Load and run them, unless another thread has done so while this one waited."""
        if self.done is None:
            envs.configure_logging()
            self.done = _run(load_plugins_by_group(GENERAL_PLUGINS_GROUP), self.turn.remember)
        return self.done


_general = _General()


def load_general_plugins(before: Callable[[], object] | None = None) -> LoadedPlugins:
    """Load and call every general plugin, once per process; later calls return the first result.

    A general plugin that itself asks gets an empty result, since they are not loaded yet.

    Args:
        before: called first. It resolves the platform, which must be there before the first
            general plugin runs; `platforms.load_general_plugins` passes it.

    Returns:
        The plugins that ran, and the failures; a failing plugin is a warning and stops no other one.

    Raises:
        ResolutionError: another thread loads them and takes too long.
    """
    if _general.done is not None:
        return _general.done
    if _general.turn.is_mine:
        return LoadedPlugins()
    if before is not None:
        before()
    with _general.turn.taken():
        return _general.load()


def reset_general_plugins() -> None:
    """Forget that general plugins were loaded, for tests only."""
    _general.done = None


def _run(found: LoadedPlugins, progress: Callable[[str, str], None]) -> LoadedPlugins:
    ran: list[tuple[Plugin, Callable[[], object]]] = []
    failures = list(found.failures)
    for plugin, function in found.loaded:
        progress("running general plugin", plugin.title)
        try:
            function()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  (likewise)
            failures.append(failure(plugin, "run", error))
        else:
            ran.append((plugin, function))
    return found._replace(loaded=tuple(ran), failures=tuple(failures))


def _plugin(entry: EntryPoint) -> Plugin:
    name, version = "", ""
    try:
        if entry.dist is not None:
            name, version = entry.dist.name or "", entry.dist.version or ""
    except Exception as error:  # noqa: BLE001  (damaged metadata; the entry point may still work)
        logger.debug("metadata of the distribution of %s cannot be read: %s", entry.name, describe(error))
    return Plugin(entry.name, entry.group, entry.value, name, version, entry)


def _entry_points(groups: tuple[str, ...]) -> tuple[list[EntryPoint], list[str]]:
    """Collect entry points, and complaints; one damaged distribution does not hide those of the others."""
    import importlib.metadata

    try:
        everything = importlib.metadata.entry_points()
        return [entry for group in groups for entry in everything.select(group=group)], []
    except Exception as error:  # noqa: BLE001  (one damaged distribution breaks the reading of all)
        logger.debug(
            "reading all entry points raised %s; reading one distribution at a time", describe(error)
        )
    found: list[EntryPoint] = []
    complaints: list[str] = []
    seen: set[str] = set()
    for distribution in importlib.metadata.distributions():
        name = _normalized_name(distribution)
        if name in seen:
            continue  # shadowed by one earlier on the path
        if name:
            seen.add(name)
        try:
            found += [entry for group in groups for entry in distribution.entry_points.select(group=group)]
        except Exception as error:  # noqa: BLE001  (damaged metadata raises whatever the parser met)
            where = getattr(distribution, "_path", None) or name or "an unknown place"
            complaints.append(
                f"the entry points in {where} cannot be read, so its plugins are not there: {describe(error)}; "
                "install that distribution again"
            )
    return found, complaints


def _normalized_name(distribution: Distribution) -> str:
    """Return the name by which one installation hides another; empty if the metadata has none."""
    try:
        metadata = distribution.metadata
        if "Name" not in metadata:
            return ""
        name = metadata["Name"] or ""
    except Exception as error:  # noqa: BLE001  (its entry points may be readable all the same)
        logger.debug("a distribution has no readable name: %s", describe(error))
        return ""
    return re.sub(r"[-_.]+", "-", name).lower()


def _unknown_names(allowed: frozenset[str] | None, plugins: Iterable[Plugin], variable: str) -> list[str]:
    known = sorted({plugin.name for plugin in plugins})
    return [_unknown_name(name, known, variable) for name in sorted((allowed or frozenset()) - set(known))]


def _unknown_name(name: str, known: list[str], variable: str) -> str:
    import difflib

    by_folded = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.7)
    hint = (
        f"did you mean {by_folded[close[0]]!r}?" if close else f"installed are: {', '.join(known) or 'none'}"
    )
    return f"{variable} names the plugin {name!r}, which is not installed; {hint}"


def _shared_names(plugins: Iterable[Plugin], last_wins: bool) -> list[str]:
    origins: dict[str, list[str]] = {}
    for plugin in plugins:
        origins.setdefault(plugin.name, []).append(plugin.origin)
    effect = "only the last one counts" if last_wins else "each is called, in this order"
    return [
        f"plugin name {name!r} is used {len(those)} times, by {' and '.join(those)}; "
        f"{effect}; uninstall one if that is not meant"
        for name, those in sorted(origins.items())
        if len(those) > 1
    ]
