"""The texts that the kit writes about the zoo, kept in files so that a change of words is seen.

`python -m tests.mutants.snapshots` writes the files anew, one for each check, in `tests/mutants/texts`;
with globs of ids, as `'config.*'`, those of these checks alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from conformance.registry import all_checks
from tests.mutants.pool import Results, Seen, judge_all, merged
from tests.mutants.row import Mutant
from tests.mutants.table import MUTANTS
from tests.mutants.zoo import request

FOLDER: Final = Path(__file__).with_name("texts")
COMMAND: Final = "python -m tests.mutants.snapshots"
PYTHON: Final = (3, 11)
"""The texts quote messages of Python itself, which other versions word otherwise."""

_HEAD: Final = "## "
_STABLE: Final = (
    (re.compile(r"0x[0-9a-f]{6,}"), "0x…"),
    # A path of this machine: what lies below the project or below a folder of packages, else the name.
    (re.compile(r"(?:/[^\s/:'\"`]+)+/(tests/mutants/)"), r"\1"),
    (re.compile(r"(?:/[^\s/:'\"`]+)*/(?:site-packages|lib/python3\.\d+)/"), ""),
    (re.compile(r"(?:/[^\s/:'\"`]+)+/(?:src|main)/(?=[a-z_]+/)"), ""),
    # The folder in which the command runs, as a whole.
    (re.compile(re.escape(str(Path.cwd())) + r"(?![\w/])"), "<this folder>"),
    (re.compile(r"\bpsm_[0-9a-f]+"), "psm_…"),
    (re.compile(r"`python3(?:\.\d+)? "), "`python "),
    (re.compile(r"/tmp/[^\s:'\"`]*"), "/tmp/…"),
    (re.compile(r"(\.py|generated/\w+):\d+"), r"\1:…"),
    (re.compile(r"\b(line|pid|process) \d+\b"), r"\1 …"),
    (re.compile(r"\b\d{9,}\b"), "<a large number>"),
    (re.compile(r"outlived the engine: \d+"), "outlived the engine: …"),
    # What a tiny model generates depends on how this machine's processor rounds.
    (re.compile(r"\[\d+(?:, \d+){4,}\]"), "[…]"),
    (re.compile(r"\b\d+ loggers\b"), "… loggers"),
    (re.compile(r"tensor\(\[[^\]]*\]\)"), "tensor([…])"),
)


def stable(text: str) -> str:
    """A text without what differs between machines: folders, line numbers, addresses, sizes of memory."""
    for pattern, instead in _STABLE:
        text = pattern.sub(instead, text)
    return text


def told(seen: Seen, check: str) -> str:
    """What the kit says of a mutant, as a reader sees it."""
    lines: list[str] = []
    for finding in seen.findings:
        lines += [
            f"contract says: {finding['contract_says']}",
            f"platform did:  {finding['platform_did']}",
            f"member:        {finding['member']}",
            f"location:      {finding['location']}",
            f"hint:          {finding['hint']}",
        ]
    lines.append(f"why:           {all_checks()[check].why}")
    return stable("\n".join(lines))


def _file(check: str) -> Path:
    return FOLDER / f"{check}.txt"


def committed(mutant: Mutant) -> str:
    """The text that is kept for a mutant and its check; empty if there is none."""
    file = _file(mutant.check)
    return _sections(file.read_text()).get(mutant.name, "") if file.exists() else ""


def _sections(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in f"\n{text}".split(f"\n{_HEAD}")[1:]:
        name, _, body = part.partition("\n")
        found[name] = body.strip("\n")
    return found


def write(judged: Mapping[str, Results], mutants: Iterable[Mutant]) -> None:
    """Write the files of the checks of some mutants anew, and remove those of checks that are gone."""
    FOLDER.mkdir(exist_ok=True)
    by_check: dict[str, dict[str, str]] = {}
    for one in mutants:
        seen = judged[request("native", one, twin=False, depth="wanted")["key"]][one.check]
        by_check.setdefault(one.check, {})[one.name] = told(seen, one.check)
    for check, sections in by_check.items():
        text = "\n\n".join(f"{_HEAD}{name}\n{body}" for name, body in sections.items())
        _file(check).write_text(f"{text}\n")
    for file in FOLDER.glob("*.txt"):
        if file.stem not in {one.check for one in MUTANTS}:
            file.unlink()


def main(globs: Sequence[str]) -> int:
    """Judge the zoo and write the files.

    Args:
        globs: of the ids of checks; empty for all.
    """
    chosen = [one for one in MUTANTS if any(fnmatchcase(one.check, glob) for glob in globs or ("*",))]
    asked = merged(request("native", one, twin=False, depth="wanted") for one in chosen)
    write(judge_all("native", asked, tell=True), chosen)
    print(f"wrote the texts of {len({one.check for one in chosen})} checks into {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
