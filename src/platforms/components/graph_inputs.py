"""The arguments of a call, taken apart into tensors, which a captured graph reads, and a key of the rest.

Tensors may lie in mappings, sequences and attrs objects, nested at will. An object that is met twice is taken
apart once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar, cast

import attrs
import torch

from platform_abc.components.attention import AttentionMetadata

T = TypeVar("T")


class NotReplayable(Exception):
    """A graph cannot follow an argument from step to step; the text says which and why."""


@attrs.define(eq=False)
class Inputs:
    """What was found in the arguments of a call.

    Args:
        tensors: each tensor once, in the order in which they were met.
        key: everything else, and the shapes; two calls with equal keys differ in the tensors' values only.
    """

    tensors: list[torch.Tensor] = attrs.field(factory=list[torch.Tensor])
    key: list[Hashable] = attrs.field(factory=list[Hashable])
    _places: dict[int, int] = attrs.field(factory=dict[int, int])

    def add(self, value: object, where: str) -> None:
        """Take an argument apart.

        Args:
            value: the argument, or a part of it.
            where: its name, for errors.

        Raises:
            NotReplayable: there is something in it that a graph cannot follow.
        """
        if value is None or isinstance(value, bool | int | float | str | bytes | torch.dtype | torch.device):
            self.key.append((type(value), value))
            return
        known = self._places.get(id(value))
        if known is not None:
            self.key.append(("again", known))
            return
        self._places[id(value)] = len(self._places)
        if isinstance(value, torch.Tensor):
            self.key.append((tuple(value.shape), value.dtype, value.device))
            self.tensors.append(value)
            return
        parts = parts_of(value, where)
        self.key.append((type(value), tuple(parts)))
        for name, part in parts.items():
            self.add(part, f"{where}.{name}")

    def add_persistent(self, value: object, where: str) -> None:
        """Take an argument apart whose tensors stay where they are; their place becomes part of the key.

        Args:
            value: the argument, or a part of it.
            where: its name, for errors.

        Raises:
            NotReplayable: there is something in it that a graph cannot follow.
        """
        if isinstance(value, torch.Tensor):
            self.key.append((value.data_ptr(), tuple(value.shape), value.stride(), value.dtype, value.device))
        elif value is None or isinstance(value, bool | int | float | str):
            self.key.append((type(value), value))
        else:
            parts = parts_of(value, where)
            self.key.append((type(value), tuple(parts)))
            for name, part in parts.items():
                self.add_persistent(part, f"{where}.{name}")


def parts_of(value: object, where: str) -> dict[Hashable, object]:
    """Return what an object consists of, by name.

    Args:
        value: a mapping, a sequence or an attrs object.
        where: its name, for errors.

    Raises:
        NotReplayable: it is none of these, or metadata that keeps its numbers on the host.
    """
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Hashable, object]", value))
    if isinstance(value, list | tuple):
        return dict(enumerate(cast("Sequence[object]", value)))
    if isinstance(value, AttentionMetadata) and not value.replayable:
        raise NotReplayable(f"{where} is {type(value).__name__}, which is not replayable")
    if attrs.has(type(value)):
        return {field.name: getattr(value, field.name) for field in _fields(value)}
    raise NotReplayable(f"{where} is {type(value).__name__}, which no graph can follow")


def _fields(value: object) -> tuple[attrs.Attribute[object], ...]:
    return cast(
        "tuple[attrs.Attribute[object], ...]", attrs.fields(cast("type[attrs.AttrsInstance]", type(value)))
    )


def rebuilt(value: T, tensors: Mapping[int, torch.Tensor], made: dict[int, object]) -> T:
    """Return a copy of an argument with other tensors in the places of its own.

    Args:
        value: the argument, or a part of it.
        tensors: `id` of a tensor -> what stands in its place; others stay.
        made: what was copied already, by `id`.
    """
    return cast("T", _rebuilt(value, tensors, made))


def _rebuilt(value: object, tensors: Mapping[int, torch.Tensor], made: dict[int, object]) -> object:
    if isinstance(value, torch.Tensor):
        return tensors.get(id(value), value)
    known = id(value)
    if known in made:
        return made[known]
    result = value
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Hashable, object]", value)
        result = {name: _rebuilt(part, tensors, made) for name, part in mapping.items()}
    elif isinstance(value, list | tuple):
        sequence = cast("Sequence[object]", value)
        parts = [_rebuilt(part, tensors, made) for part in sequence]
        # A named tuple takes its parts one by one.
        maker = cast("Callable[[list[object]], object]", getattr(type(sequence), "_make", type(sequence)))
        result = maker(parts)
    elif attrs.has(type(value)):
        changes: dict[str, object] = {}
        for field in _fields(value):
            if field.init:
                changes[field.alias or field.name] = _rebuilt(getattr(value, field.name), tensors, made)
        result = cast("Callable[..., object]", type(value))(**changes)
    made[known] = result
    return result
