"""Broken vLLM platforms that touch the device or the engine too early, each beside a correct twin."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from vllm.platforms.cpu import CpuPlatform


class FloatByConfig(CpuPlatform):
    """Answers what the engine asks while it is being imported with a part that is not there yet."""

    @classmethod
    def fp8_dtype(cls) -> torch.dtype:
        from vllm.config import CompilationConfig

        return torch.float8_e4m3fn if CompilationConfig is not None else torch.float8_e5m2


class FloatPlainlyTwin(CpuPlatform):
    @classmethod
    def fp8_dtype(cls) -> torch.dtype:
        return torch.float8_e4m3fn


class HookAsksRuntime(CpuPlatform):
    """Asks the device's runtime for its current device in a config hook."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        with contextlib.suppress(Exception):
            torch.cuda.current_device()


class HookCountsTwin(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        if torch.cuda.is_available() and torch.cuda.device_count() > 8:
            raise ValueError("more than 8 chips")


class NameByRuntime(CpuPlatform):
    """Asks the device's runtime for the name, which the front end wants to know."""

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        try:
            return torch.cuda.get_device_name(device_id)
        except Exception:
            return "chip"


class NamePlainlyTwin(CpuPlatform):
    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return "chip"
