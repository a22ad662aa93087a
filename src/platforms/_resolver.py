"""The resolver of this process; its own module, because the import system makes it exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from platform_abc.resolver import Resolver
from platforms.detectors import resolution_spec

RESOLVER: Final = Resolver(resolution_spec, skip=(str(Path(__file__).with_name("__init__.py")),))
