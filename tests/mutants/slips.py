"""Mutants that answer with the right kind of thing and still mean the wrong one, and their right twins."""

from __future__ import annotations

import logging
from typing import Any

from tests.mutants.good import Good


class RecordsGradients(Good):
    """Runs the model in a context that records gradients."""

    @classmethod
    def inference_mode(cls) -> Any:
        """Return it."""
        import torch

        return torch.enable_grad()


class RecordsNothing(Good):
    """Runs the model in the older kind of context, which records no gradient either."""

    @classmethod
    def inference_mode(cls) -> Any:
        """Return it."""
        import torch

        return torch.no_grad()


class SeedOfItsOwn(Good):
    """Seeds the device with a number of its own."""

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seed it."""
        import torch

        torch.manual_seed(0)


class NameWithCount(Good):
    """Puts a number into the device's name that grows with each question."""

    _asked = 0

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return it."""
        cls._asked += 1
        return f"CHIP-9 ({cls._asked})"


class NameKept(Good):
    """Asks for the device's name once and keeps it."""

    _name = ""

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return it."""
        cls._name = cls._name or "CHIP-9"
        return cls._name


class LongerThanTheModel(Good):
    """Allows sequences of twice the length that the model has."""

    @classmethod
    def check_max_model_len(cls, max_model_len: int) -> int:
        """Return twice the length."""
        return max_model_len * 2


class ShorterThanTheModel(Good):
    """Allows only short sequences."""

    @classmethod
    def check_max_model_len(cls, max_model_len: int) -> int:
        """Return the length, or the device's limit."""
        return min(max_model_len, 64)


class ShortensRequests(Good):
    """Writes a limit of its own into each request."""

    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        """Write it."""
        if getattr(params, "max_tokens", None) is not None:
            params.max_tokens = 1


class RefusesLongRequests(Good):
    """Refuses requests for very many tokens."""

    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        """Refuse it."""
        if (getattr(params, "max_tokens", None) or 0) > 1 << 20:
            raise ValueError("max_tokens: the chip generates at most 1048576 tokens")


class RefusesByFalse(Good):
    """Answers False to a dtype that it does not compute in, instead of raising."""

    @classmethod
    def check_if_supports_dtype(cls, dtype: Any) -> Any:
        """Answer."""
        return False


class LogsEverything(Good):
    """Turns on every logger's debug output before it logs its warning."""

    @classmethod
    def log_warnings(cls) -> None:
        """Log it."""
        logging.getLogger().setLevel(logging.DEBUG)
        logging.getLogger(__name__).debug("the chip is new")


class LogsItsOwn(Good):
    """Logs its warning to its own logger."""

    @classmethod
    def log_warnings(cls) -> None:
        """Log it."""
        logging.getLogger(__name__).debug("the chip is new")
