"""Classes from the ABCs of components, for tests that are not about what a vendor has to write."""

from __future__ import annotations

from typing import Any


def concrete(base: type) -> Any:
    """A subclass of an ABC whose open methods do nothing."""
    return type("Concrete", (base,), dict.fromkeys(base.__abstractmethods__, lambda *_a, **_k: None))  # type: ignore[attr-defined]
