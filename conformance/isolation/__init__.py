"""Child processes: the host that imports the platform, its forks, and fresh interpreters.

The process that asks (pytest, the command line) never imports a platform, torch or an engine.
"""

from __future__ import annotations

from conformance.isolation.client import Host, Opening, Template
from conformance.isolation.died import ChildDied
from conformance.isolation.fresh import Starter

__all__ = ["ChildDied", "Host", "Opening", "Starter", "Template"]
