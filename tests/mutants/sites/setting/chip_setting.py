"""A platform package that overwrites its variable where a user has set it."""

from __future__ import annotations

import os

from tests.mutants.good import Good


def detect() -> str | None:
    """Say that the chip is here."""
    os.environ["CHIP_SETTING_MODE"] = "2"
    return "chip_setting.Setting"


class Setting(Good):
    """The platform that the detector names."""
