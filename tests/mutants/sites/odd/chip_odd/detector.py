"""The detector: a callable object, and beside it a static method of a class."""

from __future__ import annotations

import logging
import warnings


class _Detector:
    """Says that the chip is here."""

    def __call__(self) -> str:
        logging.getLogger("chip_odd").warning("looking for the chip")
        warnings.warn("this chip is old", stacklevel=2)
        return "chip_odd.platform.Odd"


class Detectors:
    """The detectors of this package."""

    one = _Detector()

    @staticmethod
    def no() -> None:
        """Say that no second chip is here."""
        return None
