"""Facts about the attention selector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from platform_abc.config import (
    AttentionBackendEnum,
    AttentionConfig,
    AttentionSelectorConfig,
    CacheConfig,
    EngineConfig,
    use_config,
)
from platform_abc.errors import NotSupported, QualnameError
from platforms.components.attention import TorchSdpaBackend
from reference_model.selector import get_attn_backend
from tests.reference_engine.components import OtherBackend

Use = Callable[..., Any]
COMPONENTS = "tests.reference_engine.components"
SDPA = "platforms.components.attention.TorchSdpaBackend"


def select(config: EngineConfig | None = None, **facts: Any) -> Any:
    with use_config(config or EngineConfig()):
        num_heads = facts.pop("num_heads", None)
        return get_attn_backend(facts_of(**facts), num_heads)


def facts_of(**facts: Any) -> AttentionSelectorConfig:
    return AttentionSelectorConfig(64, torch.float32, "auto", None, **facts)


def names(name: object) -> Callable[..., object]:
    def picker(
        _cls: type, selected: object, attn_selector_config: object, num_heads: int | None = None
    ) -> object:
        return name

    return picker


def test_the_platform_is_asked_once_for_each_combination(use_platform: Use) -> None:
    """Facts, heads, the user's wish and the run-wide cache dtype make the key; nothing else does."""
    asked: list[tuple[Any, ...]] = []

    def picker(_cls: type, selected: Any, attn_selector_config: Any, num_heads: int | None = None) -> str:
        asked.append((selected, attn_selector_config, num_heads))
        return SDPA

    use_platform(get_attn_backend_cls=picker)
    assert select() is TorchSdpaBackend
    select()
    select(EngineConfig())
    assert len(asked) == 1
    select(num_heads=4)
    select(has_sliding_window=True)
    select(EngineConfig(cache_config=CacheConfig(cache_dtype="bfloat16")))
    select(EngineConfig(attention_config=AttentionConfig(backend=AttentionBackendEnum.TORCH_SDPA)))
    assert len(asked) == 5
    assert asked[0][1].kv_cache_dtype == asked[3][1].kv_cache_dtype == "auto"
    assert asked[4][0] is AttentionBackendEnum.TORCH_SDPA


def test_another_platform_is_asked_anew(use_platform: Use) -> None:
    """The cache does not outlive the platform that answered."""
    use_platform(get_attn_backend_cls=names(SDPA))
    assert select() is TorchSdpaBackend
    import platforms

    vars(platforms)["current_platform"] = type(
        "Next",
        (type(platforms.current_platform),),
        {"get_attn_backend_cls": classmethod(names(f"{COMPONENTS}.OtherBackend"))},
    )()
    assert select() is OtherBackend


@pytest.mark.parametrize("answer", ["", None])
def test_a_falsy_name_is_an_error_that_names_the_device(use_platform: Use, answer: object) -> None:
    """No name means no attention."""
    use_platform(get_attn_backend_cls=names(answer))
    with pytest.raises(ValueError, match="invalid attention backend for cpu"):
        select()


@pytest.mark.parametrize("answer", [f"{COMPONENTS}.NOT_A_CLASS", "collections.OrderedDict"])
def test_what_is_no_backend_is_an_error(use_platform: Use, answer: str) -> None:
    """The named object must derive from the ABC."""
    use_platform(get_attn_backend_cls=names(answer))
    with pytest.raises(ValueError, match="AttentionBackend"):
        select()


def test_a_name_that_cannot_be_imported_is_an_import_error(use_platform: Use) -> None:
    """The name is told, as by every resolution of a dotted name."""
    use_platform(get_attn_backend_cls=names("no_such_package.Backend"))
    with pytest.raises(QualnameError, match="no_such_package"):
        select()


def test_a_backend_that_the_user_asked_for_is_never_replaced(use_platform: Use) -> None:
    """Another one in its place is an error, as is the platform's own refusal."""
    wanted = EngineConfig(attention_config=AttentionConfig(backend=AttentionBackendEnum.FLASH_ATTN))
    use_platform(get_attn_backend_cls=names(SDPA))
    with pytest.raises(ValueError, match="FLASH_ATTN was asked for, but cpu chose TORCH_SDPA"):
        select(wanted)
    use_platform()
    with pytest.raises(ValueError, match="FLASH_ATTN"):
        select(wanted)
    custom = EngineConfig(attention_config=AttentionConfig(backend=AttentionBackendEnum.CUSTOM))
    use_platform(get_attn_backend_cls=names(f"{COMPONENTS}.OtherBackend"))
    assert select(custom) is OtherBackend


def test_a_backend_that_cannot_serve_the_layer_is_an_error_with_reasons(use_platform: Use) -> None:
    """A platform that names a backend for what it does not support is found out."""
    use_platform(get_attn_backend_cls=names(f"{COMPONENTS}.OnlyHalf"))
    with pytest.raises(ValueError, match="dtype torch.float32 is not supported"):
        select()


def test_declining_attention_altogether_is_an_error(use_platform: Use) -> None:
    """The attention picker is the one that may not decline."""

    def declines(_cls: type, *args: Any, **kwargs: Any) -> str:
        raise NotSupported("get_attn_backend_cls", "P", "buy a device")

    use_platform(get_attn_backend_cls=declines)
    with pytest.raises(ValueError, match="cpu has no attention backend"):
        select()


def test_selecting_without_a_current_config_is_an_error(use_platform: Use) -> None:
    """The run-wide dtype is part of the key, so there must be a run."""
    use_platform()
    with pytest.raises(ValueError, match="no current config"):
        get_attn_backend(facts_of())
