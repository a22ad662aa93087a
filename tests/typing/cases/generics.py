"""The engine's types as parameters: bare, in quotes, and what follows from leaving them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import assert_type

from platform_abc import Platform, PlatformEnum, PlatformLike

if TYPE_CHECKING:

    class EngineConfig:
        """Known to checkers only, like an engine that a vendor must not import."""

        worker_cls: str


class Bare(Platform):
    """Without parameters the hooks take anything, also through super()."""

    _enum = PlatformEnum.OOT
    device_name = "dummy"
    device_type = "privateuseone"

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        super().apply_config_platform_defaults(vllm_config)
        vllm_config.worker_cls = "dummy.worker.Worker"

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: str | None, attn_selector_config: object, num_heads: int | None = None
    ) -> str:
        return "dummy.attention.Backend"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return "Dummy"


class Quoted(Platform["EngineConfig"]):
    """In quotes the engine is not imported, and the types are checked."""

    _enum = PlatformEnum.OOT
    device_name = "dummy"
    device_type = "privateuseone"

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        vllm_config.worker_clss = "dummy.worker.Worker"  # E: mp

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: int) -> None:  # E: mp
        """Take something else."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: str | None, attn_selector_config: object, num_heads: int | None = None
    ) -> str:
        return "dummy.attention.Backend"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return "Dummy"


def engine(platform: PlatformLike[EngineConfig]) -> None: ...
def other_engine(platform: PlatformLike[int]) -> None: ...


engine(Bare())
other_engine(Bare())  # E: mp


def bare_abc(platform: Platform, config: EngineConfig) -> None:
    """A bare ABC is lenient."""
    platform.check_and_update_config(config)
    platform.check_and_update_config(1)
    assert_type(platform.get_supported_vit_attn_backends(), list[Any])
    platform.device_name.nothing  # E: mp


def bare_protocol(platform: PlatformLike, config: EngineConfig) -> None:
    """A bare Protocol is strict: nothing goes in, and what comes out is an object."""
    platform.check_and_update_config(config)  # E: mp
    platform.get_supported_vit_attn_backends()[0].value  # E: mp
    assert_type(platform.is_cpu(), bool)


def too_many(platform: Platform[int, int, int, int, int, int, int, int, int, int, int]) -> None: ...  # E: mp
