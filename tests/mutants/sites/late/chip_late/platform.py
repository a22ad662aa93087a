"""The platform; its import depends on what was imported before."""

from __future__ import annotations

import sys

from tests.mutants.good import Good

if "torch" not in sys.modules:
    raise ImportError("import torch before chip_late")


class Late(Good):
    """The platform that the detector names."""
