"""Expected failures: which checks a vendor knows to fail, and why; never without a reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

import attrs

from conformance.model import IMPORTABLE
from conformance.problems import UsageProblem, did_you_mean


@attrs.frozen
class ExpectedFailure:
    """One check that is known to fail.

    Args:
        reason: why.
        strict: passing is a failure too, so that the entry goes when its cause has gone.
    """

    reason: str
    strict: bool = True


def read_expected(table: object, source: str) -> dict[str, ExpectedFailure]:
    """Read the table `expected-failures` of a configuration file.

    Args:
        table: its value, as TOML gives it.
        source: how the user calls the file, for messages.

    Raises:
        UsageProblem: a wrong type, an unknown key, a missing reason.
    """
    if not isinstance(table, Mapping):
        raise UsageProblem(f'{source}: expected-failures must be a table of "check.id" = {{ reason = "…" }}')
    entries = cast("Mapping[str, object]", table)
    return {name: _entry(name, value, source) for name, value in entries.items()}


def require_known(expected: Mapping[str, ExpectedFailure], ids: Collection[str], source: str) -> None:
    """Refuse entries that name no check, and the one check that cannot be expected to fail.

    Raises:
        UsageProblem: such an entry is there.
    """
    for name in expected:
        if name not in ids:
            raise UsageProblem(
                f"{source}: expected-failures names {name!r}, which is no check{did_you_mean(name, ids)}"
                " (--conformance-list shows all)"
            )
    if IMPORTABLE in expected:
        raise UsageProblem(
            f"{source}: {IMPORTABLE} cannot be an expected failure, since then nothing else is judged; "
            "remove the entry"
        )


def _entry(name: str, value: object, source: str) -> ExpectedFailure:
    where = f"{source}: expected-failures.{name!r}"
    if not isinstance(value, Mapping):
        raise UsageProblem(f'{where} must be a table such as {{ reason = "…", strict = true }}')
    entry = cast("Mapping[str, object]", value)
    unknown = [key for key in entry if key not in ("reason", "strict")]
    if unknown:
        raise UsageProblem(
            f"{where} has the unknown key {unknown[0]!r}{did_you_mean(unknown[0], ('reason', 'strict'))};"
            " known: reason, strict"
        )
    reason = entry.get("reason")
    if reason is None:
        raise UsageProblem(f'{where} has no reason; add reason = "…"')
    if not isinstance(reason, str) or not reason.strip():
        raise UsageProblem(f"{where}: reason must be a text that is not empty, got {reason!r}")
    strict = entry.get("strict", True)
    if not isinstance(strict, bool):
        raise UsageProblem(f"{where}: strict must be true or false, got {strict!r}")
    return ExpectedFailure(reason.strip(), strict)
