"""What tests of the model share."""

from __future__ import annotations

import importlib.util

import pytest

# A model computes with torch, so without it there is nothing here to test.
collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture(autouse=True)
def _ctrl_c(ctrl_c_is_pythons_own: None) -> None:
    """Engines interrupt hooks as Ctrl-C does."""
