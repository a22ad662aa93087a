"""Where fork is unsafe, checks run in the host itself, which is restarted when one ends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.isolation import Host
from conformance.model import Outcome
from conformance.target import parse

CHECKS = """
import logging, os, time

sham("identity.good")
sham("identity.exits", lambda ctx: os._exit(0))
sham("identity.hangs", lambda ctx: time.sleep(1000))


def changes(ctx):
    print("heard")
    os.environ["ACME_LEAK"] = "1"
    os.chdir("/")
    ctx.platform_cls.leak = 1
    ctx.platform_cls.device_name = "changed"
    logging.root.setLevel(1)


def is_whole(ctx):
    assert "ACME_LEAK" not in os.environ and os.getcwd() != "/"
    assert not hasattr(ctx.platform_cls, "leak") and ctx.platform_cls.device_name == "acme"
    assert logging.root.level != 1


def fresh(ctx):
    assert ctx.fresh("os.path:basename", "a/b") == "b"


sham("identity.changes", changes)
sham("identity.is-whole", is_whole)
sham("identity.fresh", fresh)
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host that runs its checks itself."""
    from tests.conformance.conftest import Vendor

    folder: Path = tmp_path_factory.mktemp("inline")
    vendor = Vendor(folder)
    vendor.platform()
    vendor.checks(CHECKS)
    sys.path.insert(0, str(folder))
    made = Host(
        parse("acme:AcmePlatform"), limit=8.0, open_limit=100.0, checks_from="shams", inline=True, light=True
    )
    try:
        opening = made.open()
        assert opening.status == "ready", opening
        yield made
    finally:
        made.close()
        sys.path.remove(str(folder))


@pytest.mark.parametrize(
    ("name", "told"),
    [("exits", "exited with status 0 without an answer"), ("hangs", "did not answer within 8 s")],
)
def test_a_check_that_ends_the_host_is_blamed_and_the_host_comes_back(
    host: Host, name: str, told: str
) -> None:
    """A death of the host is the death of the check that it ran."""
    assert str(host.run(f"identity.{name}").died) == told
    answer = host.run("identity.good").answer
    assert answer is not None
    assert answer.outcome is Outcome.PASS


def test_what_a_check_changes_is_put_back(host: Host) -> None:
    """Environment, working directory, class and logging are as before for the next check."""
    for name in ("changes", "is-whole", "fresh"):
        answer = host.run(f"identity.{name}").answer
        assert answer is not None
        assert answer.outcome is Outcome.PASS, answer
    assert "ACME_LEAK" not in os.environ
