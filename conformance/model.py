"""The values that the kit is made of: checks, violations, outcomes and results.

A check is data (`Check`) around one function. The function gets a `CheckContext`, asks the
platform, and returns or raises: `Violation` for a fault, `Unsupported` for a declared "no",
`Skip` where this machine lacks something. Anything else that escapes from it is an error of the
kit, never a fault of the platform.
"""

from __future__ import annotations

import enum
import fnmatch
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

if TYPE_CHECKING:
    from conformance.context import CheckContext

DEFAULT_TIMEOUT: Final = 120.0
"""Seconds for each child process of a run that names no limit of its own."""

Severity = Literal["must", "should"]
Where = Literal["fork", "fresh"]


class Level(enum.IntEnum):
    """What a check needs and costs; a level includes the cheaper ones."""

    STATIC = 0
    CONTRACT = 1
    DEVICE = 2
    COMPONENTS = 3
    ENGINE = 4

    @property
    def label(self) -> str:
        """The spelling of the command line: `static`, `contract`, …"""
        return self.name.lower()


class Outcome(enum.Enum):
    """What became of one check."""

    PASS = "pass"
    FAIL = "fail"
    UNSUPPORTED = "unsupported"
    SKIPPED = "skipped"
    NOT_RUN = "not-run"
    ERROR = "error"
    XFAIL = "xfail"
    XPASS = "xpass"


def _not_empty(instance: object, attribute: attrs.Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{attribute.name} of a {type(instance).__name__} must not be empty")


@attrs.frozen
class Finding:
    """One fault, in the words that a vendor reads; no part may be empty.

    Args:
        contract_says: the rule, one sentence.
        platform_did: what was seen instead, with the value or the error.
        member: the member at fault, `get_attn_backend_cls`, or a dotted path into what it returned.
        location: `file:line` of the member, or the dotted name where there is no source.
        hint: what to change.
    """

    contract_says: str = attrs.field(validator=_not_empty)
    platform_did: str = attrs.field(validator=_not_empty)
    member: str = attrs.field(validator=_not_empty)
    location: str = attrs.field(validator=_not_empty)
    hint: str = attrs.field(validator=_not_empty)


class Violation(Exception):
    """Raised by a check: the platform broke the contract, in one or more places of one kind."""

    def __init__(self, *findings: Finding) -> None:
        if not findings:
            raise ValueError("a Violation needs at least one Finding")
        self.findings = findings
        super().__init__(*findings)


class Unsupported(Exception):
    """Raised by a check: the platform declares that it does not do this; the text says where."""


class NotRun(Exception):
    """Raised by a check: what it would judge is broken in a way that another check reports."""


class Skip(Exception):
    """Raised by a check: this machine lacks something.

    Args:
        lacks: what is missing.
        how_to_run: what to do so that the check runs.
    """

    def __init__(self, lacks: str, how_to_run: str) -> None:
        self.lacks = lacks
        self.how_to_run = how_to_run
        super().__init__(lacks, how_to_run)

    def __str__(self) -> str:
        return f"{self.lacks}; to run it: {self.how_to_run}"


@attrs.frozen
class Check:
    """One check, as data.

    Args:
        id: stable, dotted, lower case: `pickers.attn-backend.importable`. It never changes.
        group: the part of the contract: `identity`, `config_hooks`, `pickers`, `kernel_hooks`,
            `device`, `capabilities`, or `resolution` for detection and import.
        severity: `must` decides the verdict; a `should` that fails is a warning unless strict.
        level: what it needs and costs.
        since: the contract version that first states the rule.
        why: one sentence: what breaks in an engine when the rule is broken.
        hint: the general remedy; a finding says the particular one.
        needs: ids of checks that must have passed (or be unsupported) first.
        asks: the members that it calls. What a `per_member` check blames on other members does not keep
            it from running, so that a wrong signature hides no fault of another hook.
        per_member: it judges each member by itself, and its findings name the ones at fault.
        where: `fork` runs in a child forked from a process that has imported the platform;
            `fresh` is for checks about import itself or spawn, which start interpreters of their own
            through `ctx.fresh` while the check function runs in the fork as well.
        engines: names of the adapters it applies to; empty for all.
        timeout: seconds that it, and each fresh interpreter of it, may take under the default
            `--conformance-timeout`; another one stretches or shortens this in proportion. None for
            that option itself.
        after_plugins: an engine comes to what it asks after the general plugins: they run first, in the
            process of the check, and it does not run if `activation.general-plugins` fails.
        func: the function.
    """

    id: str
    group: str
    severity: Severity
    level: Level
    since: str
    why: str = attrs.field(validator=_not_empty)
    hint: str = attrs.field(validator=_not_empty)
    func: Callable[[CheckContext], None] = attrs.field(eq=False)
    needs: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    per_member: bool = False
    where: Where = "fork"
    engines: tuple[str, ...] = ()
    timeout: float | None = None
    after_plugins: bool = False

    def limit(self, timeout: float) -> float:
        """Seconds that the check may take in a run whose `--conformance-timeout` is `timeout`."""
        return timeout if self.timeout is None else self.timeout * timeout / DEFAULT_TIMEOUT

    @property
    def docs(self) -> str:
        """The docs page of the check, relative to the docs root."""
        return f"checks.md#{self.id.replace('.', '')}"

    def matches(self, pattern: str) -> bool:
        """Say whether a `--conformance-select` glob names this check."""
        return fnmatch.fnmatchcase(self.id, pattern)


@attrs.frozen
class CheckResult:
    """What became of one check on one platform.

    Args:
        check: the check.
        outcome: see `Outcome`.
        findings: the faults, for `fail` and `xfail`; empty otherwise.
        reason: one line for every other outcome than `pass`.
        duration_s: wall time in seconds.
        details: free facts that the report keeps (for example what a hook changed).
        traceback: of the kit's own error or of what the platform raised; empty if none.
    """

    check: Check
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    duration_s: float = 0.0
    details: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    traceback: str = ""


IMPORTABLE: Final = "platform.importable"
"""The check that every other one needs: the platform's module imports and has the class."""

INSTANTIABLE: Final = "platform.instantiable"
"""The check that every check of a member's answer needs: the class is whole and an instance exists."""
