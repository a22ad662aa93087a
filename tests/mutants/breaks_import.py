"""A mutant whose module does not import."""

from __future__ import annotations

from tests.mutants.good import Good

raise ImportError("libchip.so.2: cannot open shared object file")


class NeverThere(Good):
    """Is never reached."""
