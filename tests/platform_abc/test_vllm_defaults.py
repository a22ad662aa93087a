"""The members of a real vLLM's base class exist here, and the defaults answer the same, but for listed reasons."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from platform_abc import MEMBERS

ROOT: Final = Path(__file__).resolve().parents[2]

# Found, not imported: an import would choose vLLM's platform in this process.
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None, reason="needs a real vLLM: pip install vllm"
    ),
]

FUNCTIONS_HERE: Final = {
    "_find_non_ssm_backends",
    "_preferred_block_size_for_backends",
    "_check_aligned_block_size",
    "_align_heterogeneous_kv_block_size",
    "_align_hybrid_block_size",
}
"""Private helpers of vLLM's base class that are functions of `platform_abc.block_size`."""


class Difference(NamedTuple):
    """Questions that the two answer differently on purpose.

    Args:
        question: a regular expression that such a question matches in full.
        ours: the answer here.
        reason: why it is another one.
    """

    question: str
    ours: str
    reason: str


DIFFERENCES: Final = (
    Difference(
        "device_control_env_var", "'PLATFORM_ABC_.*'", "the placeholder carries each project's prefix"
    ),
    Difference(
        "get_pass_manager_cls", "'platform_abc.components.*'", "each names a class of its own package"
    ),
    Difference("get_device_communicator_cls", "'platforms.components.*'", "each names a class of its own"),
    Difference("get_attn_backend_cls", "'dummy.attention.Backend'", "mandatory here; vLLM's answer is empty"),
    Difference("get_device_name", "'Dummy'", "mandatory here; vLLM's raises"),
    Difference("get_mla_prefill_backend_cls", "not supported", "vLLM tries its own CUDA backends"),
    Difference("get_static_graph_wrapper_cls", "not supported", "vLLM names an abstract class"),
    Difference("get_global_graph_pool", "not supported", "vLLM calls the None that the fallback gave"),
    Difference(
        r".*_device_id\(-1\)",
        "ValueError raised",
        "a negative id is no id; vLLM counts from the end of the list",
    ),
    Difference(
        r".*='2,0,' logical.*\([01]\)", "[01]", "a trailing comma is allowed; vLLM takes it for an empty id"
    ),
    Difference(r".*='GPU-5f2c,1' logical_.*\(1\)", "1", "an entry that nobody asks about cannot be at fault"),
    Difference(
        r".*='(0,0|,|-1|0,,1)' .*\([013]\)",
        "ValueError raised",
        "a malformed list is refused whichever device is asked for",
    ),
    Difference(
        r".*assigned.* logical_.*\(0\)",
        "ValueError raised",
        "the variable is at fault; vLLM's is a RuntimeError",
    ),
)


class Result(NamedTuple):
    """What the other process printed: the kinds of vLLM's members, and both packages' answers."""

    kinds: dict[str, str]
    theirs: dict[str, str]
    ours: dict[str, str]


@pytest.fixture(scope="module")
def result() -> Result:
    """Ask both, in one process of their own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.platform_abc.vllm_defaults"],
        cwd=ROOT,
        env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr
    return Result(**json.loads(lines[-1].removeprefix("RESULT ")))


def test_every_member_exists_here_and_is_of_the_same_kind(result: Result) -> None:
    """Same names; nothing else in the frozen Protocols; the private helpers are functions."""
    first = {name: spec.kind for name, spec in MEMBERS.items() if spec.version == 1}
    later = {name: MEMBERS[name].kind for name in result.kinds.keys() & (MEMBERS.keys() - first.keys())}
    assert {name: kind for name, kind in result.kinds.items() if name not in FUNCTIONS_HERE} == first | later
    assert FUNCTIONS_HERE - result.kinds.keys() == set()


def test_both_were_asked_the_same(result: Result) -> None:
    """Every member with a default, all predicates of all kinds, capabilities and ids."""
    assert result.theirs.keys() == result.ours.keys()
    asked = set(result.ours)
    assert {name for name, spec in MEMBERS.items() if spec.version == 1} - asked == {
        "__getattr__",
        "import_ir_kernels",
        "import_kernels",
        "make_synced_weight_loader",
    }


def test_the_answers_are_the_same_but_for_the_listed_differences(result: Result) -> None:
    """A difference without a listed reason is a fault of the defaults here."""
    unexplained = [
        f"{question}: vLLM {theirs}, here {result.ours[question]}"
        for question, theirs in result.theirs.items()
        if theirs != result.ours[question]
        and not any(_explains(one, question, result) for one in DIFFERENCES)
    ]
    assert unexplained == []


@pytest.mark.parametrize("one", DIFFERENCES, ids=lambda one: one.question)
def test_each_listed_difference_is_one(result: Result, one: Difference) -> None:
    """A reason is no longer needed where the answers are the same."""
    assert any(
        theirs != result.ours[question] and _explains(one, question, result)
        for question, theirs in result.theirs.items()
    )


def _explains(one: Difference, question: str, result: Result) -> bool:
    return bool(re.fullmatch(one.question, question) and re.fullmatch(one.ours, result.ours[question]))
