"""The platform; it needs the vendor's library."""

from __future__ import annotations

import claims_driver

from tests.mutants.good import Good


class Claims(Good):
    """The platform that the detector names."""

    device_name = f"chip-{claims_driver.count()}"
