"""Graph wrappers of the zoo: one that keeps memory as a device's graphs do, which is right, and one for each mistake."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import torch

from platform_abc.components.graph import StaticGraphWrapper, current_graph_step


class Passes(StaticGraphWrapper):
    """Runs the callable as it is."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run what is wrapped."""
        return self.runnable(*args, **kwargs)


class Replays(StaticGraphWrapper):
    """Computes in memory that it keeps for each shape, as a captured graph does; other arguments it does not follow."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kept: dict[Hashable, dict[str, Any]] = {}
        self.answers: dict[Hashable, torch.Tensor] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Copy the inputs to where they are kept, and compute there."""
        if not self.is_on():
            return self.runnable(*args, **kwargs)
        named = inspect.signature(self.runnable).bind(*args, **kwargs).arguments
        if not all(isinstance(one, torch.Tensor) for one in named.values()):
            return self.runnable(*args, **kwargs)
        key = self.key(named)
        if key not in self.kept:
            self.kept[key] = {name: self.first(name, one) for name, one in named.items()}
        else:
            for name, one in named.items():
                self.refresh(name, self.kept[key][name], one)
        return self.hand_out(key, self.compute(key))

    def is_on(self) -> bool:
        """Say whether this step is one of graphs."""
        step = current_graph_step()
        return step is not None and step.mode is self.runtime_mode

    def stays(self, name: str) -> bool:
        """Say whether the tensors of a parameter stay where they are."""
        return name in self.options.get("persistent", ())

    def key(self, named: dict[str, torch.Tensor]) -> Hashable:
        """Return what a graph is found by."""
        return current_graph_step(), *(
            one.data_ptr() if self.stays(name) else (tuple(one.shape), one.dtype)
            for name, one in named.items()
        )

    def first(self, name: str, one: torch.Tensor) -> torch.Tensor:
        """Return what the graph reads."""
        return one if self.stays(name) else one.clone()

    def refresh(self, name: str, kept: torch.Tensor, one: torch.Tensor) -> None:
        """Bring an input to where the graph reads it."""
        if not self.stays(name):
            kept.copy_(one)

    def compute(self, key: Hashable) -> torch.Tensor:
        """Do what the graph does."""
        runnable: Callable[..., torch.Tensor] = self.runnable
        bound = inspect.signature(runnable).bind_partial()
        bound.arguments.update(self.kept[key])
        return runnable(*bound.args, **bound.kwargs)

    def hand_out(self, key: Hashable, answer: torch.Tensor) -> torch.Tensor:
        """Return the answer."""
        return answer.clone()


class StaleInput(Replays):
    """A replay reads the inputs of the capture."""

    def refresh(self, name: str, kept: torch.Tensor, one: torch.Tensor) -> None:
        """Bring an input to where the graph reads it."""


class KeywordsStale(Replays):
    """A replay reads the keywords of the capture."""

    def refresh(self, name: str, kept: torch.Tensor, one: torch.Tensor) -> None:
        """Bring an input to where the graph reads it."""
        if name != "shift":
            super().refresh(name, kept, one)


class CapturesOnly(Replays):
    """The step that captures returns memory that nothing was computed in."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Copy the inputs to where they are kept, and compute there."""
        known = len(self.kept)
        answer = super().__call__(*args, **kwargs)
        return torch.zeros_like(answer) if len(self.kept) > known else answer


class OneShape(Replays):
    """It finds a graph by the number of inputs, and cuts them to the shape of the first."""

    def key(self, named: dict[str, torch.Tensor]) -> Hashable:
        """Return what a graph is found by."""
        return len(named)

    def refresh(self, name: str, kept: torch.Tensor, one: torch.Tensor) -> None:
        """Bring an input to where the graph reads it."""
        rows = min(len(kept), len(one))
        kept[:rows].copy_(one[:rows])


class SharedAnswer(Replays):
    """All steps of a shape return the same memory."""

    def hand_out(self, key: Hashable, answer: torch.Tensor) -> torch.Tensor:
        """Return the answer."""
        return self.answers.setdefault(key, answer.clone()).copy_(answer)


class AnyMode(Replays):
    """It replays in every step, whatever its mode."""

    def is_on(self) -> bool:
        """Say whether this step is one of graphs."""
        return True

    def compute(self, key: Hashable) -> torch.Tensor:
        """Do what the graph does, without the callable once it is captured."""
        if key in self.answers:
            step: Any = self.runnable
            eager = getattr(step, "eager", None)
            return eager(*self.kept[key].values()) if eager else super().compute(key)  # type: ignore[no-any-return]
        self.answers[key] = answer = super().compute(key)
        return answer


class CopiesCaches(Replays):
    """It copies what is named as persistent, once."""

    def first(self, name: str, one: torch.Tensor) -> torch.Tensor:
        """Return what the graph reads."""
        return one.clone()


class FirstCacheOnly(Replays):
    """It does not look whether it is given another cache than at the capture."""

    def key(self, named: dict[str, torch.Tensor]) -> Hashable:
        """Return what a graph is found by."""
        return current_graph_step(), *((tuple(one.shape), one.dtype) for one in named.values())


class WrapsAgain(Passes):
    """It gives another callable back than it was made with."""

    def unwrap(self) -> Callable[..., Any]:
        """Return the wrapped callable."""
        return lambda *args, **kwargs: self.runnable(*args, **kwargs)


class ListsStale(Replays):
    """A replay reads the tensors within lists and mappings that the capture had."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run with the first of each argument that is more than a tensor or a number."""
        if not self.is_on():
            return self.runnable(*args, **kwargs)
        bound = inspect.signature(self.runnable).bind(*args, **kwargs)
        for name, one in bound.arguments.items():
            if not isinstance(one, torch.Tensor | float | str):
                bound.arguments[name] = self.kept.setdefault(name, one)
        return self.runnable(*bound.args, **bound.kwargs)


class NumbersBaked(Replays):
    """A replay computes with the numbers of the capture."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run with the first of each number."""
        if not self.is_on():
            return self.runnable(*args, **kwargs)
        bound = inspect.signature(self.runnable).bind(*args, **kwargs)
        bound.apply_defaults()
        for name, one in bound.arguments.items():
            if isinstance(one, float):
                bound.arguments[name] = self.kept.setdefault(name, {"first": one})["first"]
        return self.runnable(*bound.args, **bound.kwargs)


class SharesGraphs(Replays):
    """All wrappers find their graphs in one table."""

    table: ClassVar[dict[Hashable, Callable[..., Any]]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run what was wrapped when such a step was captured."""
        step: Any = self.runnable
        if not self.is_on() or self.options.get("persistent") or hasattr(step, "eager"):
            return self.runnable(*args, **kwargs)
        named = inspect.signature(self.runnable).bind(*args, **kwargs).arguments
        key = (inspect.signature(self.runnable), tuple(named))
        return self.table.setdefault(str(key), self.runnable)(*args, **kwargs)


class Swallows(Replays):
    """It logs what the callable raises, and returns nothing."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Copy the inputs to where they are kept, and compute there."""
        try:
            return super().__call__(*args, **kwargs)
        except RuntimeError:
            logging.getLogger(__name__).exception("a step failed")


class KeepsBroken(Replays):
    """It keeps a graph whose capture has failed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.broken: dict[Hashable, torch.Tensor] = {}

    def compute(self, key: Hashable) -> torch.Tensor:
        """Do what the graph does."""
        if key in self.broken:
            return self.broken[key]
        try:
            return super().compute(key)
        except RuntimeError:
            self.broken[key] = torch.zeros_like(next(iter(self.kept[key].values())))
            raise
