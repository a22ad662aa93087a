"""The manager of the compile passes over the model's graph, as `get_pass_manager_cls` names it."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig


class CompilePass(abc.ABC):
    """One change of a graph of the model."""

    @abc.abstractmethod
    def __call__(self, graph: Any) -> None:
        """Change the graph in place.

        Args:
            graph: a `torch.fx.Graph`.
        """

    def uuid(self) -> str:
        """Return what tells this pass from others in the compile cache; by default its class."""
        return f"{type(self).__module__}.{type(self).__qualname__}"


_registered: dict[str, Callable[[EngineConfig], CompilePass | None]] = {}


def register_pass(name: str, make: Callable[[EngineConfig], CompilePass | None]) -> None:
    """Offer a pass to `DefaultPassManager`; a name that is there keeps its place and gets the new maker.

    Args:
        name: name of the pass.
        make: takes the configuration and returns the pass, or None where it is not wanted.
    """
    _registered[name] = make


class PassManager(abc.ABC):
    """Runs the passes of a compilation, in order."""

    def __init__(self) -> None:
        self.passes: list[CompilePass] = []

    @abc.abstractmethod
    def configure(self, config: EngineConfig) -> None:
        """Choose the passes.

        Args:
            config: the engine's configuration; `compilation_config.pass_config` says which fusions.
        """

    def add(self, pass_: CompilePass) -> None:
        """Append one pass."""
        self.passes.append(pass_)

    def __call__(self, graph: Any) -> None:
        """Run all passes over a graph, in the order in which they were added."""
        for pass_ in self.passes:
            pass_(graph)

    def uuid(self) -> str:
        """Return what tells this list of passes from others in the compile cache."""
        return hashlib.sha256("\n".join(pass_.uuid() for pass_ in self.passes).encode()).hexdigest()


class DefaultPassManager(PassManager):
    """Runs the registered passes that the configuration wants, in the order of their registration."""

    def configure(self, config: EngineConfig) -> None:
        """Choose the passes; see the base class."""
        made = [make(config) for make in _registered.values()]
        self.passes = []
        for pass_ in made:
            if pass_ is not None:
                self.add(pass_)
