"""Text and tokens: by the model folder's own tokenizer, or bytes for the toy model."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reference_model.model_config import TOY, folder_of


class Bytes:
    """One token a byte of UTF-8, for models that have no vocabulary of their own."""

    def encode(self, text: str) -> list[int]:
        """Return the bytes of a text."""
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of bytes; what is no text is marked as such."""
        return bytes(token for token in tokens if token < 256).decode(errors="replace")


class Tokenizer:
    """The tokenizer of a model folder.

    Args:
        file: its `tokenizer.json`.

    Raises:
        ValueError: the file is no tokenizer.
        RuntimeError: the library that reads it is missing.
    """

    def __init__(self, file: Path) -> None:
        try:
            # Its own annotations are known only where it is installed.
            tokenizers: Any = importlib.import_module("tokenizers")
        except ImportError as error:
            raise RuntimeError(
                f"--prompt needs the package tokenizers to read {file}: pip install tokenizers, or give token "
                "numbers with --prompt-ids"
            ) from error
        try:
            self._inner: Any = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{file} is no tokenizer: {error}") from error

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, with those that the model wants around it."""
        tokens: list[int] = self._inner.encode(text).ids
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        text: str = self._inner.decode(list(tokens))
        return text


Text = Bytes | Tokenizer
"""Turns texts into tokens and back."""


def text_of(model: str) -> Text:
    """Return what reads and writes the texts of a model.

    Args:
        model: folder of the model, or `toy`.

    Raises:
        ValueError: there is no such folder, or it has no tokenizer.
        RuntimeError: the library that reads it is missing.
    """
    if model == TOY:
        return Bytes()
    file = folder_of(model) / "tokenizer.json"
    if not file.is_file():
        raise ValueError(f"--prompt needs {file}, which does not exist: give token numbers with --prompt-ids")
    return Tokenizer(file)
