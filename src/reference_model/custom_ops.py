"""The engine's custom ops. Importing this module imports the platform's compiled kernels.

So it is imported late, by the worker, never by another module of the engine at import time.
"""

from __future__ import annotations

from platform_abc.hooks.calls import named
from platforms import current_platform
from reference_model.opaque_ops import all_reduce, attention, register_ops

__all__ = ["all_reduce", "attention"]

with named("import_kernels", current_platform):
    current_platform.import_kernels()
register_ops(current_platform.dispatch_key)
