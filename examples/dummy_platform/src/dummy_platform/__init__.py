"""The smallest complete platform package: a simulated accelerator on torch's `privateuseone`.

This module has the package's two entry points. An engine loads both in every one of its processes, so it
imports nothing heavy, and above all nothing that reads `current_platform`.
"""

from __future__ import annotations

from dummy_platform.devices import VARIABLE, count
from platform_abc.reasons import explain

PLATFORM = "dummy_platform.platform.DummyPlatform"


def detect() -> str | None:
    """Answer with the platform's dotted name if the device is here, else with None.

    An engine calls it several times, in every process: it looks, cheaply, and starts nothing. A real
    detector looks for a driver or a device file; this device is simulated, so it looks at the variable
    that says how many of them to simulate.
    """
    if count() > 0:
        return PLATFORM
    explain(f"{VARIABLE}=0, so no device is simulated")
    return None


def register_ops() -> None:
    """Register the custom ops and the device's run time; engines call it once in every process."""
    from dummy_platform import ops, runtime

    runtime.register()
    ops.register()
