"""A platform package that configures logging for everybody."""

from __future__ import annotations

import logging.config

from tests.mutants.good import Good

logging.config.dictConfig(
    {
        "version": 1,
        "handlers": {"chip": {"class": "logging.StreamHandler"}},
        "root": {"level": "INFO", "handlers": ["chip"]},
    }
)


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_logging.Logs"


class Logs(Good):
    """The platform that the detector names."""
