"""A mutant whose import appends to the base's default list; alone in its module, for the list stays changed."""

from __future__ import annotations

from tests.mutants.good import Good


class SharesList(Good):
    """Appends to the inherited list instead of assigning one of its own."""


SharesList.additional_env_vars.append("CHIP_FAST")
