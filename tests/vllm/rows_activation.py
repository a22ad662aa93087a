"""Rows of vLLM's zoo about detectors, the order of imports, and what an import leaves behind; its classes are in `zoo_activation.py`."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

ROWS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "zoo_activation:FloatByConfig",
        "import-order.early-questions",
        "zoo_activation:FloatPlainlyTwin",
    ),
    Mutant("zoo_activation:HookAsksRuntime", "device.untouched-by-hooks", "zoo_activation:HookCountsTwin"),
    Mutant("zoo_activation:NameByRuntime", "device.untouched-by-questions", "zoo_activation:NamePlainlyTwin"),
)
