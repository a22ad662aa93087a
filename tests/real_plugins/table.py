"""The table of real plugins: what each one is, beside which vLLM it loads, and what the kit must say of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

FILE: Final = Path(__file__).with_name("plugins.toml")


@attrs.frozen
class Known:
    """A fault that a plugin has.

    Args:
        check: the check that must name it.
        member: the member that it must name.
        says: a part of what the kit must say that the platform did.
        reason: why it is true, by the plugin's source.
    """

    check: str
    member: str
    says: str
    reason: str


@attrs.frozen
class Told:
    """Something else that the kit must tell of a plugin.

    Args:
        check: the check that tells it.
        outcome: of that check.
        says: a part of its reason or of its details.
        reason: why it is so.
    """

    check: str
    outcome: str
    says: str
    reason: str


@attrs.frozen
class Plugin:
    """One plugin and the surroundings in which it is judged.

    Args:
        name: of its row; two rows may judge one plugin in two ways.
        about: what it is, in a sentence.
        requirement: the plugin, pinned.
        engine: the distribution of vLLM to put beside it, pinned.
        platform: its class.
        level: the dearest level that can run without its device.
        select: globs of the checks that are asked for, with what they need; empty for all.
        beside: other requirements, pinned; installed without what they require.
        stub: modules that a stand-in is put in place for.
        variables: of the environment.
        weights: it boots on a model with weights of its own, which is made here.
        engine_arguments: for that boot.
        known: its faults.
        told: what else the kit tells of it.
        unjudged: what this row does not judge of it, and why.
    """

    name: str
    about: str
    requirement: str
    engine: str
    platform: str
    level: str = "contract"
    select: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    stub: tuple[str, ...] = ()
    variables: Mapping[str, str] = attrs.field(factory=dict[str, str])
    weights: bool = False
    engine_arguments: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    known: tuple[Known, ...] = ()
    told: tuple[Told, ...] = ()
    unjudged: str = ""

    @property
    def engine_version(self) -> str:
        """The version that the plugin asks for: that of vLLM itself, without what its packager added."""
        return self.engine.partition("==")[2].partition(".post")[0]

    @property
    def environment(self) -> str:
        """The name of its environment: that of the plugin, since rows of one plugin share it."""
        return self.requirement.partition("==")[0]


def read(file: Path = FILE) -> dict[str, Plugin]:
    """Read the table, by name.

    Raises:
        TypeError: an entry has a key that nothing reads, or lacks one.
    """
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    return {name: _plugin(name, entry) for name, entry in data.items()}


def _plugin(name: str, entry: dict[str, Any]) -> Plugin:
    known = tuple(Known(**one) for one in entry.pop("known", []))
    told = tuple(Told(**one) for one in entry.pop("told", []))
    lists = {key: tuple(entry.pop(key, ())) for key in ("beside", "select", "stub")}
    return Plugin(name=name, known=known, told=told, **lists, **entry)
