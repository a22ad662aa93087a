"""The runner: prerequisites on demand, and which of them keep a check from running."""

from __future__ import annotations

import pytest

from conformance.answers import Answer
from conformance.expected import ExpectedFailure
from conformance.isolation import Opening
from conformance.isolation.client import Ran
from conformance.model import Check, Finding, Level, Outcome, Where
from conformance.runner import Runner


def _check(
    name: str,
    *,
    needs: tuple[str, ...] = (),
    asks: tuple[str, ...] = (),
    per_member: bool = False,
    where: Where = "fork",
    timeout: float | None = None,
    after_plugins: bool = False,
) -> Check:
    return Check(
        id=f"test.{name}",
        group="identity",
        severity="must",
        level=Level.STATIC,
        since="1.0",
        why="why",
        hint="hint",
        func=lambda _: None,
        needs=tuple(f"test.{need}" for need in needs),
        asks=asks,
        per_member=per_member,
        where=where,
        timeout=timeout,
        after_plugins=after_plugins,
    )


class _Answers:
    """A source that answers from a table and counts what it was asked."""

    importable_by_name = True
    limit = 60.0

    def __init__(self, **answers: Answer) -> None:
        self.answers = {f"test.{name}": answer for name, answer in answers.items()}
        self.asked: list[str] = []
        self.begun: list[str] = []
        self.spare: list[str] = []
        self.free = False
        self.limits: dict[str, float | None] = {}

    def begin(self, check_id: str, limit: float | None = None, *, spare: bool = False) -> bool:
        if not spare:
            self.begun.append(check_id)
        elif self.free:
            self.spare.append(check_id)
        return not spare or self.free

    def run(self, check_id: str, limit: float | None = None) -> Ran:
        self.asked.append(check_id)
        self.limits[check_id] = limit
        return Ran(answer=self.answers.get(check_id, Answer(Outcome.PASS)))


def _blames(*members: str) -> Answer:
    return Answer(
        Outcome.FAIL,
        tuple(
            Finding(contract_says="says", platform_did="did", member=one, location="here:1", hint="fix")
            for one in members
        ),
    )


def _runner(source: _Answers, *checks: Check) -> Runner:
    return Runner({one.id: one for one in checks}, source, Opening(status="ready", module="m"))


def test_a_prerequisite_runs_once_however_many_need_it() -> None:
    """Two checks that need a third one cause one run of it."""
    source = _Answers()
    runner = _runner(source, _check("base"), _check("one", needs=("base",)), _check("two", needs=("base",)))
    assert [runner.result(f"test.{name}").outcome for name in ("one", "two")] == [Outcome.PASS] * 2
    assert source.asked.count("test.base") == 1


def test_a_failed_prerequisite_keeps_a_check_from_running() -> None:
    """The check is not-run, is never asked, and its reason names the cause."""
    source = _Answers(base=_blames("hook"))
    runner = _runner(source, _check("base"), _check("one", needs=("base",), asks=("other",)))
    result = runner.result("test.one")
    assert result.outcome is Outcome.NOT_RUN
    assert "test.base" in result.reason
    assert "test.one" not in source.asked


@pytest.mark.parametrize(
    ("blamed", "outcome"),
    [
        (("get_attn_backend_cls",), Outcome.PASS),
        (("check_and_update_config",), Outcome.NOT_RUN),
        (("check_and_update_config.worker_cls",), Outcome.NOT_RUN),
        (("get_attn_backend_cls", "check_and_update_config"), Outcome.NOT_RUN),
    ],
)
def test_a_wrong_signature_hides_no_fault_of_another_hook(blamed: tuple[str, ...], outcome: Outcome) -> None:
    """A check that judges each member by itself holds back only the checks that call a blamed member."""
    source = _Answers(base=_blames(*blamed))
    runner = _runner(
        source,
        _check("base", per_member=True),
        _check("one", needs=("base",), asks=("check_and_update_config",)),
    )
    assert runner.result("test.one").outcome is outcome


def test_a_check_that_says_nothing_of_its_members_waits_for_all() -> None:
    """Without `asks`, any failure of a prerequisite holds the check back."""
    runner = _runner(
        _Answers(base=_blames("x")), _check("base", per_member=True), _check("one", needs=("base",))
    )
    assert runner.result("test.one").outcome is Outcome.NOT_RUN


def test_fresh_checks_begin_early_when_nothing_stands_in_their_way() -> None:
    """Only checks with an interpreter of their own are begun, after what they need, and never behind a failure."""
    source = _Answers(bad=_blames("x"))
    runner = _runner(
        source,
        _check("plain"),
        _check("good"),
        _check("bad"),
        _check("early", needs=("good",), where="fresh"),
        _check("blocked", needs=("bad",), where="fresh"),
    )
    runner.begin(["test.plain", "test.early", "test.blocked"])
    assert source.begun == ["test.early"]
    assert source.asked == ["test.good", "test.bad"]
    assert runner.result("test.early").outcome is Outcome.PASS
    assert runner.result("test.blocked").outcome is Outcome.NOT_RUN
    runner.begin(["test.early"])
    assert source.begun == ["test.early"]


def test_the_limit_of_a_check_of_its_own_follows_the_run_in_proportion():
    """A check that may take twice the usual takes twice what the user allows; the others what he allows."""
    source = _Answers()
    checks = {one.id: one for one in (_check("usual"), _check("slow", timeout=240.0))}
    runner = Runner(checks, source, Opening("ready"))
    for name in checks:
        runner.result(name)
    assert source.limits == {"test.usual": 60.0, "test.slow": 120.0}


def test_a_failure_that_is_expected_holds_nothing_back() -> None:
    """Whoever declares a failure goes on with it: what needs that check is run, here and further on."""
    checks = {one.id: one for one in (_check("first"), _check("second", needs=("first",)))}
    failed = Answer(Outcome.FAIL, (Finding("it is so", "it is not", "hook", "p.py:1", "mend it"),))
    source = _Answers(first=failed)
    opening = Opening(status="ready", module="chip")
    held = Runner(checks, source, opening)
    assert held.result("test.second").outcome is Outcome.NOT_RUN
    going = Runner(checks, source, opening, {"test.first": ExpectedFailure("known")})
    assert going.result("test.first").outcome is Outcome.XFAIL
    assert going.result("test.second").outcome is Outcome.PASS


def test_what_repeats_an_expected_failure_is_not_run() -> None:
    """A check that fails in words of an expected failure that it needs adds no second failure."""
    checks = {one.id: one for one in (_check("first"), _check("second", needs=("first",)))}
    failed = Answer(Outcome.FAIL, (Finding("it is so", "it is not", "hook", "p.py:1", "mend it"),))
    other = Answer(Outcome.FAIL, (Finding("it is so", "it is otherwise", "hook", "p.py:1", "mend it"),))
    opening = Opening(status="ready", module="chip")
    known = {"test.first": ExpectedFailure("known")}
    more = Answer(Outcome.FAIL, (Finding("it is so", "it is not (half)", "hook", "p.py:1", "mend it"),))
    for first in (failed, more):
        same = Runner(checks, _Answers(first=first, second=failed), opening, known)
        assert same.result("test.second").outcome is Outcome.NOT_RUN
    different = Runner(checks, _Answers(first=failed, second=other), opening, known)
    assert different.result("test.second").outcome is Outcome.FAIL


def test_a_free_core_gets_the_next_check_that_can_run() -> None:
    """Beside a check runs the next one whose needs have run, unless no core is free; each is started once."""
    source = _Answers()
    names = ("first", "second", "third")
    runner = _runner(source, *(_check(one) for one in names), _check("after", needs=("third",)))
    runner.begin([f"test.{one}" for one in (*names, "after")])
    runner.result("test.first")
    assert source.spare == []
    source.free = True
    runner.result("test.second")
    runner.result("test.third")
    runner.result("test.after")
    assert source.spare == ["test.third"]


def test_what_another_engine_alone_is_asked_is_no_prerequisite() -> None:
    """A check waits only for those that its platform's engine is asked."""
    import attrs

    source = _Answers(base=_blames("hook"))
    base = attrs.evolve(_check("base"), engines=("native",))
    needing = _check("one", needs=("base",))
    checks = {one.id: one for one in (base, needing)}
    for engine, wanted in (("vllm", Outcome.PASS), ("native", Outcome.NOT_RUN)):
        runner = Runner(checks, source, Opening(status="ready", module="m", engine=engine))
        assert runner.result("test.one").outcome is wanted


def test_a_long_chain_of_needs_is_looked_up_in_no_time() -> None:
    """Checks that need all earlier ones, as the steps of one component do, do not multiply."""
    source = _Answers()
    names = [f"step{number}" for number in range(40)]
    checks = [_check(name, needs=tuple(names[:number])) for number, name in enumerate(names)]
    runner = _runner(source, *checks)
    runner.begin([one.id for one in checks])
    assert runner.result("test.step39").outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("plugins", "expected", "outcome"),
    [
        (Outcome.FAIL, False, Outcome.NOT_RUN),
        (Outcome.FAIL, True, Outcome.PASS),
        (Outcome.SKIPPED, False, Outcome.PASS),
        (Outcome.UNSUPPORTED, False, Outcome.PASS),
    ],
)
def test_what_comes_after_general_plugins_waits_for_them(
    monkeypatch: pytest.MonkeyPatch, plugins: Outcome, expected: bool, outcome: Outcome
) -> None:
    """A broken plugin is one failure; one that its vendor knows, or that lacks a library here, holds nothing back."""
    monkeypatch.setattr("conformance.runner.PLUGINS", "test.plugins")
    checks = [_check("plugins"), _check("late", after_plugins=True), _check("early")]
    finding = Finding("a", "b", "c", "d", "e")
    findings = (finding,) if plugins is Outcome.FAIL else ()
    source = _Answers(plugins=Answer(plugins, findings, reason="why"), late=Answer(Outcome.PASS))
    source.answers["test.early"] = Answer(Outcome.PASS)
    known = {"test.plugins": ExpectedFailure("known")} if expected else {}
    runner = Runner({one.id: one for one in checks}, source, Opening("ready"), known)
    assert runner.result("test.late").outcome is outcome
    assert runner.result("test.early").outcome is Outcome.PASS
