"""Broken vLLM platforms whose fault only a running engine shows, each beside a correct twin."""

from __future__ import annotations

import multiprocessing
from typing import Any

from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import PlatformEnum


def _in_child(name: str) -> bool:
    """Say whether this is one of the engine's own processes, of that name."""
    return name in multiprocessing.current_process().name


class LongPromptRefused(CpuPlatform):
    """Looks in a real request for a text that token prompts do not have."""

    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        if len(processed_inputs["prompt_token_ids"]) > 30 and len(processed_inputs["prompt"]) > 1000:
            raise ValueError("the prompt is too long")


class LongPromptTwin(CpuPlatform):
    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        if len(processed_inputs["prompt_token_ids"]) > 1000:
            raise ValueError("the prompt is too long")


class KindOutOfTree(CpuPlatform):
    """Has a kind that the worker which it inherits does not let through."""

    _enum = PlatformEnum.OOT


class CoreGrows(CpuPlatform):
    """Makes room for one more sequence in the engine core."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        if _in_child("EngineCore"):
            vllm_config.scheduler_config.max_num_seqs += 1


class CoreRefuses(CpuPlatform):
    """Refuses the config in the engine core; the front end then waits for ever."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        if _in_child("EngineCore"):
            raise ValueError("no driver in this process")
        super().check_and_update_config(vllm_config)


class WorkerNeedsFront(CpuPlatform):
    """Keeps a block size in the front end that its hook then misses in the worker."""

    _sizes: dict[str, int] = {}

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        cls._sizes["block"] = 128

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        if _in_child("Worker"):
            vllm_config.cache_config.block_size = cls._sizes["block"]


class ClassStateRead(CpuPlatform):
    """Keeps the config on the class, and reads it there where a worker has none."""

    _config: Any = None

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        cls._config = vllm_config

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        super().update_block_size_for_backend(cls._config or vllm_config)
        if cls._config.parallel_config.world_size > 1:
            vllm_config.cache_config.block_size = 64


class ClassStateReadTwin(CpuPlatform):
    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        super().update_block_size_for_backend(vllm_config)
        if vllm_config.parallel_config.world_size > 1:
            vllm_config.cache_config.block_size = 64
