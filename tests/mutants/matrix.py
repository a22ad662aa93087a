"""The kill matrix: which checks fail on which mutants.

`python -m tests.mutants.matrix [--engine vllm] [--generated] [--deep] [--kept FILE] [--out docs/kill-matrix.md]
[--json FILE]`
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.mutants import matrix_page
from tests.mutants.equivalents import EQUIVALENT, reason
from tests.mutants.matrix_model import Judged, Matrix, judged
from tests.mutants.pool import PROCESSES, Results, judge_all, merged
from tests.mutants.row import Mutant
from tests.mutants.zoo import PACKAGES, Depth, request

MOST: Final = 3
"""So many checks may fail on one mutant: one cause is one failure, and few faults have two faces."""


def rows(engine: str) -> Sequence[Mutant]:
    """The hand-written mutants of an engine's base."""
    if engine == "vllm":
        from tests.vllm.table import MUTANTS as of_vllm

        return of_vllm
    from tests.mutants.table import MUTANTS

    return MUTANTS


def generated_names(engine: str) -> list[str]:
    """The generated mutants of an engine's base."""
    if engine == "vllm":
        from tests.vllm.generated import listed

        return listed()
    from tests.mutants.generated import names

    return names()


def generated_request(engine: str, name: str, depth: Depth) -> dict[str, Any]:
    """What to ask about a generated mutant, as `tests.mutants.zoo.request` for a written one."""
    return {
        "key": f"generated:{name}",
        "cls": f"{PACKAGES[engine]}.generated.{name}:{name}",
        "site": "",
        "host": False,
        "together": True,
        "wanted": [],
        "depth": depth,
    }


def judge(
    engine: str,
    *,
    generated: bool,
    deep: bool,
    processes: int = PROCESSES,
    tell: bool,
    kept: Path | None = None,
) -> Matrix:
    """Judge every mutant and return the matrix.

    Args:
        engine: `native` or `vllm`.
        generated: also the generated ones.
        deep: on hand-written ones also the checks that start interpreters or engines, which takes an hour; generated
            ones that nothing else kills meet those checks anyway.
        processes: how many run beside each other.
        tell: print on stderr how far it is.
        kept: a file with the answers of a run that was interrupted; each answer is added to it.
    """
    mutants = rows(engine)
    depth: Depth = "all" if deep else "forked"
    written = merged([request(engine, one, twin=False, depth=depth) for one in mutants])
    names = generated_names(engine) if generated else []
    asked = [*written, *(generated_request(engine, name, "forked") for name in names)]
    seen = judge_all(engine, asked, processes=processes, tell=tell, kept=kept)
    alive = [name for name in names if _lives(name, seen[f"generated:{name}"])]
    again = [generated_request(engine, name, "all") for name in alive]
    seen.update(judge_all(engine, again, processes=processes, tell=tell, kept=kept))
    return Matrix(
        engine=engine,
        deep=deep,
        written=_written(engine, mutants, seen),
        generated={name: judged(seen[f"generated:{name}"]) for name in names},
    )


def _lives(name: str, results: Results) -> bool:
    """Say whether a generated mutant is a fault that no `must` has found."""
    return not reason(name, EQUIVALENT) and not judged(results).must


def _written(engine: str, mutants: Sequence[Mutant], seen: Mapping[str, Any]) -> list[tuple[Mutant, Judged]]:
    return [(one, judged(seen[request(engine, one, twin=False, depth="wanted")["key"]])) for one in mutants]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the matrix; 1 where a mutant that must be named is not, or one has more failures than `MOST`."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.matrix", description=__doc__)
    parser.add_argument("--engine", choices=sorted(PACKAGES), default="native")
    parser.add_argument("--generated", action="store_true", help="also the generated mutants")
    parser.add_argument(
        "--deep", action="store_true", help="also checks that start interpreters or engines; an hour"
    )
    parser.add_argument("--processes", type=int, default=PROCESSES, help="how many run beside each other")
    parser.add_argument(
        "--kept",
        type=Path,
        help="add each answer to this file, and ask for none that stands there; remove it after a change",
    )
    parser.add_argument("--out", type=Path, help="write the page here, not to stdout")
    parser.add_argument("--json", type=Path, help="write every failure here")
    options = parser.parse_args(arguments)
    matrix = judge(
        options.engine,
        generated=options.generated,
        deep=options.deep,
        processes=options.processes,
        tell=True,
        kept=options.kept,
    )
    if options.json:
        options.json.write_text(json.dumps(matrix.as_json(), indent=1) + "\n")
    page = matrix_page.page(matrix)
    if options.out:
        options.out.write_text(page)
        print(f"wrote {options.out}", file=sys.stderr)
    else:
        print(page)
    print(matrix_page.summary(matrix), file=sys.stderr)
    return 1 if matrix.missed() or matrix.unexplained() or matrix.most() > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
