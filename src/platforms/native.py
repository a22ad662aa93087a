"""`NativePlatform`: the contract's `Platform` bound to this package's own engine types.

Our platforms derive from it, so that checkers see real types in their hooks; at run time it is the
contract's class itself, and no config module is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_abc.platform import Platform

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import TypeAlias

    from platform_abc.config import (
        AttentionBackendEnum,
        AttentionSelectorConfig,
        EngineConfig,
        IrOpPriorityConfig,
        MLAPrefillSelectorConfig,
    )
    from platform_abc.requests import EngineInput, PoolingParams, SamplingParams

    NativePlatform: TypeAlias = Platform[
        EngineConfig,
        AttentionSelectorConfig,
        AttentionBackendEnum | None,
        AttentionBackendEnum,
        ArgumentParser,
        MLAPrefillSelectorConfig,
        object,
        EngineInput,
        SamplingParams | PoolingParams,
        IrOpPriorityConfig,
    ]
else:
    NativePlatform = Platform
