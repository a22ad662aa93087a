"""The graph wrapper of devices without graphs: an honest pass-through."""

from __future__ import annotations

from typing import Any

from platform_abc.components.graph import StaticGraphWrapper


class EagerGraphWrapper(StaticGraphWrapper):
    """Runs the callable in every step.

    A host has no launches of kernels that a graph could save, so there is nothing to capture; a run that asks
    for graphs gets the same results as with them.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the callable on these arguments and return its answer."""
        return self.runnable(*args, **kwargs)
