"""Find in an engine's source how it makes and calls what the pickers name: backends, communicators, workers.

The calls of an engine are the truth about a component's signatures; a base class may accept more.
Files of a whole engine are long, so only the text of each call is parsed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from conformance.engines.base import PickedCall

CONSTRUCTOR: Final = "__init__"
_LONGEST: Final = 4000
"""Characters of a call that is still looked at."""


@attrs.frozen
class Place:
    """Where an engine uses one kind of component.

    Args:
        part: the component's short name, `communicator`.
        files: globs below the package's folder.
        makers: patterns of what is called to make one: variables that hold the class, or functions that
            pass their arguments on to it.
        receivers: a pattern of the last name before the dot of a method call; empty for none.
    """

    part: str
    files: tuple[str, ...]
    makers: str = ""
    receivers: str = ""


def scan(root: Path, places: Sequence[Place]) -> tuple[PickedCall, ...]:
    """Return every call of a component in the package at `root`; unreadable files have none."""
    found: dict[PickedCall, None] = {}
    for place in places:
        for path in sorted({one for glob in place.files for one in root.glob(glob)}):
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            site = f"{root.name}/{path.relative_to(root).as_posix()}"
            found.update(dict.fromkeys(_calls(text, place, site)))
    return tuple(found)


def _calls(text: str, place: Place, site: str) -> Iterator[PickedCall]:
    starts: list[tuple[str, str]] = []
    if place.makers:
        starts.append((rf"(?<!def )(?<!class )\b(?:{place.makers})(?=\()", CONSTRUCTOR))
    if place.receivers:
        starts.append((rf"\b(?:{place.receivers})\.(\w+)(?=\()", ""))
    for pattern, member in starts:
        for match in re.finditer(pattern, text):
            shape = _shape(text, match.end())
            name = member or match.group(1)
            if shape is None or (shape[2] and name != CONSTRUCTOR) or (not any(shape) and member):
                continue
            line = text.count("\n", 0, match.start()) + 1
            yield PickedCall(place.part, name, shape[0], shape[1], f"{site}:{line}")


def _shape(text: str, opening: int) -> tuple[int, tuple[str, ...], bool] | None:
    """Arguments by position, names by keyword, and whether `**` adds to them; None where it cannot be told."""
    depth = 0
    for index in range(opening, min(opening + _LONGEST, len(text))):
        depth += (text[index] in "([{") - (text[index] in ")]}")
        if depth == 0:
            break
    else:
        return None
    try:
        call = ast.parse(f"f{text[opening : index + 1]}", mode="eval").body
    except SyntaxError:
        return None  # a bracket in a string or a comment
    if not isinstance(call, ast.Call) or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    keywords = tuple(one.arg for one in call.keywords if one.arg)
    return len(call.args), keywords, len(keywords) != len(call.keywords)
