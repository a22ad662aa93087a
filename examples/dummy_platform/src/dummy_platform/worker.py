"""The worker that `check_and_update_config` names: platform-abc's own, on the simulated device."""

from __future__ import annotations

import torch

from platforms.components.worker import DeviceWorker


class DummyWorker(DeviceWorker):
    """Starts the device, loads the model, fills the cache and runs steps, as any worker does.

    A real vendor's worker does no more than this one if torch can allocate on the device; this device is
    simulated, so its tensors lie in host memory.
    """

    def init_device(self) -> None:
        """Start the device, then put tensors where its memory is."""
        super().init_device()
        self.device = torch.device("cpu")
