"""The platform; it needs the vendor's library."""

from __future__ import annotations

import looks_driver

from tests.mutants.good import Good


class Looks(Good):
    """The platform that the detector names."""

    device_name = f"chip-{looks_driver.count()}"
