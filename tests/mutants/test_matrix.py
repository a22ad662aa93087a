"""The kill matrix counts right: what is killed, warned of, equivalent or survives, and what nobody exercises."""

from __future__ import annotations

import pytest

from tests.mutants import equivalents, matrix_model, matrix_page
from tests.mutants.equivalents import Rule
from tests.mutants.matrix_model import Judged, Matrix, judged
from tests.mutants.pool import Seen
from tests.mutants.row import Mutant


@pytest.fixture
def matrix(monkeypatch: pytest.MonkeyPatch) -> Matrix:
    """Two hand-written mutants, one of them missed, and five generated ones."""
    monkeypatch.setattr(
        matrix_model, "EQUIVALENT", (Rule(("missing",), ("dist_*",), "the base has a default"),)
    )
    monkeypatch.setattr(matrix_model, "SURVIVORS", (Rule(("raises",), ("log_*",), "nobody calls it"),))
    return Matrix(
        engine="native",
        deep=False,
        written=[
            (Mutant("config:Crashes", "config.plain"), Judged(("config.plain", "config.cases"), (), ())),
            (Mutant("config:Lock", "config.picklable"), Judged((), (), ())),
        ],
        generated={
            "device_name__raises": Judged(("identity.device-name",), (), ()),
            "set_device__renamed": Judged((), ("members.base-signature",), ()),
            "dist_backend__missing": Judged((), (), ()),
            "log_warnings__raises": Judged((), (), ()),
            "is_cuda__none": Judged((), (), ("members.kinds",)),
        },
    )


def _seen(outcome: str, severity: str = "must") -> Seen:
    return Seen(outcome, "", [], "", severity)


def test_results_are_sorted_by_what_they_mean() -> None:
    """A `must`, a `should` and a check that broke are told apart; what passed or was skipped is left out."""
    results = {
        "a": _seen("fail"),
        "b": _seen("fail", "should"),
        "c": _seen("error"),
        "d": _seen("pass"),
        "e": _seen("skipped"),
    }
    assert judged(results) == Judged(("a",), ("b",), ("c",))


def test_each_generated_mutant_has_one_fate(matrix: Matrix) -> None:
    """A `must` kills, a `should` warns, a reason excuses, an error is no kill."""
    assert [matrix.fate(name) for name in matrix.generated] == [
        "killed",
        "warned",
        "equivalent",
        "survived",
        "broke",
    ]
    assert matrix.killed() == 25.0


def test_a_survivor_needs_a_reason(matrix: Matrix) -> None:
    """What survives without a reason is told, and so is what the kit could not judge."""
    assert matrix.unexplained() == ["is_cuda__none"]


def test_a_fault_that_is_none_must_not_be_blamed(matrix: Matrix) -> None:
    """A `must` that fails on an equivalent mutant is a false alarm."""
    assert matrix.accused() == []
    blamed = Matrix("native", False, [], {"dist_backend__missing": Judged(("identity.texts",), (), ())})
    assert blamed.accused() == ["dist_backend__missing"]


def test_a_mutant_that_its_check_does_not_name_is_missed(matrix: Matrix) -> None:
    """The table says which check has to fail."""
    assert [one.name for one in matrix.missed()] == ["config:Lock"]
    assert matrix.fails_per_mutant() == [2, 0]
    assert matrix.fails_per_generated() == [1, 1]
    assert (matrix.median(), matrix.most()) == (1, 2)
    assert matrix.several() == [("config:Crashes", ("config.plain", "config.cases"))]


def test_a_check_without_a_row_is_not_exercised(matrix: Matrix) -> None:
    """Checks that no row names are listed, also where a generated mutant fails them."""
    assert "identity.device-name" in matrix.unexercised()
    assert "config.plain" not in matrix.unexercised()


def test_the_page_says_it_all(matrix: Matrix) -> None:
    """The page has the figures, each mutant with its fault in words, and each generated one as a sign."""
    page = matrix_page.page(matrix)
    assert "| of the others killed: a `must` fails | 1 of 4, 25.0 % |" in page
    assert "| [`identity.device-name`](checks.md#identitydevice-name) |  |  |  |  |  | 1 |" in page
    assert "| `config:Crashes` | [`config.plain`]" in page
    assert "| `config:Crashes` | Raises for every config. |" in page
    assert "| `log_warnings` |  |  |  |  |  | **!** |" in page
    assert "[B01]" not in page
    assert "| B01 |" in page


def test_the_summary_names_what_is_wrong(matrix: Matrix) -> None:
    """Whoever runs the command sees at once which mutants are not found."""
    summary = matrix_page.summary(matrix)
    assert "NOT NAMED: config:Lock (config.picklable)" in summary
    assert "UNEXPLAINED: is_cuda__none" in summary


def test_a_rule_covers_its_members_and_operators_alone() -> None:
    """Globs of members and names of operators decide."""
    rule = Rule(("none", "raises"), ("get_*",), "why")
    assert equivalents.reason("get_device_name__none", [rule]) == "why"
    assert equivalents.reason("get_device_name__more", [rule]) == ""
    assert equivalents.reason("set_device__none", [rule]) == ""
