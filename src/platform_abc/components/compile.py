"""The manager of the compile passes over the model's graph, as `get_pass_manager_cls` names it."""

from __future__ import annotations

import abc
import hashlib
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
        """Append one pass.

        Raises:
            TypeError: it is no `CompilePass`.
        """
        if not isinstance(pass_, CompilePass):
            raise TypeError(f"a compile pass derives from CompilePass, got {type(pass_).__name__}")
        self.passes.append(pass_)

    def __call__(self, graph: Any) -> None:
        """Run all passes over a graph, in the order in which they were added."""
        for pass_ in self.passes:
            pass_(graph)

    def uuid(self) -> str:
        """Return what tells this list of passes from others in the compile cache."""
        return hashlib.sha256("\n".join(pass_.uuid() for pass_ in self.passes).encode()).hexdigest()
