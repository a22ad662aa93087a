"""The kill matrix as a page of the docs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from conformance.registry import all_checks
from tests.mutants import corpus
from tests.mutants.equivalents import EQUIVALENT, SURVIVORS, Rule, reason
from tests.mutants.matrix_model import Fate, Matrix
from tests.mutants.sources import OPERATORS, split

_COMMANDS: Final = {
    "native": "python -m tests.mutants.matrix --generated --out docs/kill-matrix.md",
    "vllm": "python -m tests.mutants.matrix --engine vllm --out docs/kill-matrix-vllm.md",
}
_BASES: Final = {"native": "the contract's base class", "vllm": "vLLM's base class"}
_SIGNS: Final[dict[Fate, str]] = {
    "killed": "●",
    "warned": "○",
    "equivalent": "=",
    "survived": "**!**",
    "broke": "**?**",
}


def summary(matrix: Matrix) -> str:
    """The figures in a few lines."""
    named = len(matrix.written) - len(matrix.missed())
    lines = [
        f"hand-written: {named} of {len(matrix.written)} named by the check of the table",
        f"checks that fail per mutant: median {matrix.median():g}, at most {matrix.most()}",
        f"checks that no mutant exercises: {', '.join(matrix.unexercised()) or 'none'}",
    ]
    lines += [f"NOT NAMED: {one.name} ({one.check})" for one in matrix.missed()]
    if matrix.generated:
        faults = len(matrix.generated) - len(matrix.fates("equivalent"))
        lines.append(
            f"generated: {len(matrix.generated)}, of them {faults} faults; {matrix.killed():.1f} % killed, "
            f"{len(matrix.fates('warned'))} warned of, {len(matrix.fates('survived'))} survive"
        )
        lines += [f"UNEXPLAINED: {name}" for name in matrix.unexplained()]
        lines += [f"ACCUSED WITHOUT FAULT: {name}" for name in matrix.accused()]
    return "\n".join(lines)


def page(matrix: Matrix) -> str:
    """The whole page."""
    parts = [_head(matrix), _figures(matrix), _by_check(matrix), _written(matrix)]
    if matrix.generated:
        parts += [_generated(matrix), _by_operator(matrix), _explained(matrix)]
    if matrix.engine == "native":
        parts.append(_corpus())
    return "\n\n".join(parts) + "\n"


def _head(matrix: Matrix) -> str:
    return (
        f"# Kill matrix: mutants of {_BASES[matrix.engine]}\n\n"
        "A mutant is a platform with one fault. The kit is only as good as the mutants that it finds, so they "
        "are listed here, with the checks that find them. A twin is the same platform without the fault; every "
        "twin passes.\n\n"
        f"This page is made by `{_COMMANDS[matrix.engine]}`."
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _figures(matrix: Matrix) -> str:
    rows: list[tuple[str, object]] = [
        ("hand-written mutants", len(matrix.written)),
        ("of them named by the check that the table names", len(matrix.written) - len(matrix.missed())),
        ("checks that fail on a mutant that is found, median", f"{matrix.median():g}"),
        ("the same, most", matrix.most()),
        ("mutants on which more than one fails", len(matrix.several())),
        ("checks of this engine", len(matrix.checks())),
        ("checks that no mutant exercises", ", ".join(map(_code, matrix.unexercised())) or "none"),
    ]
    if matrix.generated:
        faults = len(matrix.generated) - len(matrix.fates("equivalent"))
        killed = len(matrix.fates("killed"))
        rows += [
            ("generated mutants", len(matrix.generated)),
            ("of them no faults", len(matrix.fates("equivalent"))),
            ("of the others killed: a `must` fails", f"{killed} of {faults}, {matrix.killed():.1f} %"),
            ("of the others only warned of: a `should` fails", len(matrix.fates("warned"))),
            ("survivors", len(matrix.fates("survived")) + len(matrix.fates("broke"))),
        ]
    return "## Figures\n\n" + _table(("figure", "value"), rows)


def _by_check(matrix: Matrix) -> str:
    rows: list[Sequence[object]] = []
    for check, written, generated in matrix.by_check():
        severity = all_checks()[check].severity
        shown = ", ".join(map(_code, written[:6])) + (f" and {len(written) - 6} more" if written[6:] else "")
        row: list[object] = [_link(check), severity, shown or "–"]
        rows.append([*row, len(generated)] if matrix.generated else row)
    head = ["check", "severity", "hand-written mutants on which it fails"]
    return "## By check\n\n" + _table([*head, "generated"] if matrix.generated else head, rows)


def _written(matrix: Matrix) -> str:
    rows = (
        (
            _code(mutant.name),
            _fault(matrix.engine, mutant.name),
            _link(mutant.check),
            ", ".join(_code(one) for one in seen.failed if one != mutant.check) or "–",
        )
        for mutant, seen in matrix.written
    )
    head = ("mutant", "fault", "named by", "also fails")
    return "## Hand-written mutants\n\n" + _table(head, rows)


def _generated(matrix: Matrix) -> str:
    members = list(dict.fromkeys(split(name)[0] for name in matrix.generated))
    rows = (
        (
            _code(member),
            *(
                _SIGNS[matrix.fate(name)] if (name := f"{member}__{operator}") in matrix.generated else ""
                for operator in OPERATORS
            ),
        )
        for member in members
    )
    words = "\n".join(f"* `{one.name}`: the member {one.says}" for one in OPERATORS.values())
    return (
        "## Generated mutants\n\n"
        "Each member of the contract, spoilt in each way that fits it; an empty place is a way that does not. "
        "● killed: a `must` fails; ○ a `should` warns; = no fault; **!** survives.\n\n"
        f"{words}\n\n" + _table(("member", *(one.replace("_", " ") for one in OPERATORS)), rows)
    )


def _by_operator(matrix: Matrix) -> str:
    rows: list[Sequence[object]] = []
    for check, _, generated in matrix.by_check():
        operators = [split(name)[1] for name in generated]
        if operators:
            rows.append([_link(check), *(operators.count(one) or "" for one in OPERATORS)])
    head = ("check", *(one.replace("_", " ") for one in OPERATORS))
    return "### Which check finds them\n\nHow many of the mutants of each way fail a check.\n\n" + _table(
        head, rows
    )


def _explained(matrix: Matrix) -> str:
    several = [(_code(name), ", ".join(map(_link, checks))) for name, checks in matrix.several()]
    return "\n\n".join(
        [
            "### More than one failure",
            "Mutants, hand-written ones too, on which more than one check fails." if several else "None.",
            *([_table(("mutant", "checks"), several)] if several else []),
            "### No faults",
            _rules(matrix, "equivalent", EQUIVALENT) or "None.",
            "### Survivors",
            _rules(matrix, "survived", SURVIVORS) or "None.",
        ]
    )


def _rules(matrix: Matrix, fate: Fate, rules: Sequence[Rule]) -> str:
    names = matrix.fates(fate)
    found = [(one.reason, [name for name in names if reason(name, rules) == one.reason]) for one in rules]
    rows = [(why, len(those), _few(those)) for why, those in dict(found).items() if those]
    rest = [name for name in names if not reason(name, rules)]
    rows += [("not explained", len(rest), _few(rest))] if rest else []
    return _table(("reason", "mutants", "which"), rows) if rows else ""


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(map(_code, names[:8]))
    return shown + (f" and {len(names) - 8} more" if names[8:] else "")


def _corpus() -> str:
    rows = (
        (
            one.id,
            f"[report]({one.url})",
            one.fault,
            _code(one.mutant) if one.mutant else "–",
            _link(one.check) if one.check else one.why_not,
            _code(one.vllm) if one.vllm else "–",
        )
        for one in corpus.CASES
    )
    return (
        "## Reported faults\n\n"
        "Faults of real platforms and of their plugins, as people reported them, and the mutant that has the same "
        "one. Where the engine alone is at fault no platform can have it; the table says so.\n\n"
        + _table(("case", "report", "fault", "mutant", "named by", "on vLLM's base"), rows)
    )


def _code(text: str) -> str:
    return f"`{text}`"


def _link(check: str) -> str:
    return f"[`{check}`](checks.md#{check.replace('.', '')})"


def _fault(engine: str, name: str) -> str:
    """The first sentence of what a mutant says of itself."""
    return next(_sentences(engine, name), "")


def _sentences(engine: str, name: str) -> Iterator[str]:
    """The first line of the docstring of a mutant's class or, for a package, of its module."""
    import ast

    from tests.mutants.zoo import PACKAGES, ROOT, SITES

    module, _, cls = name.partition(":")
    if module.startswith("chip_"):
        parts = module.split(".")
        files = list(SITES.glob(f"*/{'/'.join(parts)}.py"))
    else:
        files = [ROOT / PACKAGES[engine].replace(".", "/") / f"{module.replace('.', '/')}.py"]
    for file in files:
        tree = ast.parse(file.read_text())
        told = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls]
        text = (
            ast.get_docstring(tree) if module.startswith("chip_") or not told else ast.get_docstring(told[0])
        )
        if text:
            yield text.partition("\n")[0]
