"""Capabilities: yes-or-no abilities of a platform, and the few tables that go with them.

A capability that says no makes the engine take another way; it is never an error.
"""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Final, Protocol

from typing_extensions import TypeIs

from platform_abc.types import PlatformEnum

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

_SLEEP_MODE_KINDS: Final = frozenset({PlatformEnum.CUDA, PlatformEnum.ROCM, PlatformEnum.XPU})


class CapabilitiesLike(Protocol):
    """What an engine requires of a platform's capabilities; frozen within a major version."""

    def is_sleep_mode_available(self) -> bool:
        """Say whether device memory can be released while the engine sleeps."""
        ...

    def is_cumem_allocator_available(self) -> bool:
        """Say whether the allocator that sleep mode uses on CUDA is there."""
        ...

    def can_update_inplace(self) -> bool:
        """Say whether tensors on the device can be updated in place."""
        ...

    def enable_multi_stream_overlap(
        self, aux_stream_list: list[torch.cuda.Stream] | None, attn_metadata: object, /
    ) -> bool:
        """Say whether to overlap work on the auxiliary streams in this step."""
        ...

    def supports_mx(self) -> bool:
        """Say whether the device computes in MX types."""
        ...

    def supports_fp8(self) -> bool:
        """Say whether the device computes in FP8."""
        ...

    def is_fp8_fnuz(self) -> bool:
        """Say whether the preferred FP8 type is the FNUZ one."""
        ...

    def use_all_gather(self) -> bool:
        """Say whether logits are gathered on all ranks, rather than on one."""
        ...

    def use_custom_allreduce(self) -> bool:
        """Say whether the engine's own all-reduce kernels run here."""
        ...

    def support_hybrid_kv_cache(self) -> bool:
        """Say whether layers may have KV caches of different kinds."""
        ...

    def support_static_graph_mode(self) -> bool:
        """Say whether device graphs can be captured and replayed."""
        ...

    def support_deep_gemm(self) -> bool:
        """Say whether DeepGEMM's kernels run here."""
        ...

    def use_custom_op_collectives(self) -> bool:
        """Say whether collectives go through custom ops, which `torch.compile` does not trace."""
        ...

    def get_nixl_supported_devices(self) -> Mapping[str, tuple[str, ...]]:
        """Return which KV buffer devices NIXL serves, by device type."""
        ...

    def get_nixl_memory_type(self) -> str | None:
        """Return NIXL's name for the device's memory."""
        ...

    def is_arch_support_pdl(self) -> bool:
        """Say whether a kernel can start before the one it depends on has ended."""
        ...


class CapabilitiesV2Like(CapabilitiesLike, Protocol):
    """`CapabilitiesLike` and what came after it. Narrow to it with `has_capabilities_v2`."""

    def is_on_gfx9(self) -> bool:
        """Say whether the device is of AMD's GFX9 family."""
        ...


def has_capabilities_v2(platform: CapabilitiesLike, /) -> TypeIs[CapabilitiesV2Like]:
    """Say whether the platform has the capabilities that version 2 added; it asks the type."""
    return callable(getattr(type(platform), "is_on_gfx9", None))


class Capabilities(ABC):  # noqa: B024  every capability has a default
    """The capabilities of a platform; by default it has none that needs a kernel or a driver of its own."""

    if TYPE_CHECKING:
        _enum: PlatformEnum

    def is_sleep_mode_available(self) -> bool:
        """Say whether device memory can be released while the engine sleeps: on CUDA, ROCm and XPU.

        Called in the front end when the user asks for sleep mode.
        """
        return self._enum in _SLEEP_MODE_KINDS

    def is_cumem_allocator_available(self) -> bool:
        """Say whether the allocator that sleep mode uses on CUDA is there.

        Called in the front end when the user asks for sleep mode. No by default: this package has no
        such allocator.
        """
        return False

    @classmethod
    def can_update_inplace(cls) -> bool:
        """Say whether tensors on the device can be updated in place; yes by default.

        Called in the worker by LoRA layers.
        """
        return True

    @classmethod
    def enable_multi_stream_overlap(
        cls, aux_stream_list: list[torch.cuda.Stream] | None, attn_metadata: object
    ) -> bool:
        """Say whether to overlap work on the auxiliary streams in this step; no by default.

        Called in the worker during the forward pass.

        Args:
            aux_stream_list: the streams besides the current one, or None.
            attn_metadata: metadata of attention for this step.
        """
        return False

    @classmethod
    def supports_mx(cls) -> bool:
        """Say whether the device computes in MX types; no by default."""
        return False

    @classmethod
    def supports_fp8(cls) -> bool:
        """Say whether the device computes in FP8; no by default."""
        return False

    @classmethod
    def is_fp8_fnuz(cls) -> bool:
        """Say whether the preferred FP8 type is the FNUZ one, as on AMD's MI300; no by default.

        `fp8_dtype` must name the same type.
        """
        return False

    @classmethod
    def use_all_gather(cls) -> bool:
        """Say whether logits are gathered on all ranks, rather than on one; yes by default.

        Called in the worker when the logits processor is made.
        """
        return True

    @classmethod
    def use_custom_allreduce(cls) -> bool:
        """Say whether the engine's own all-reduce kernels run here; no by default.

        Called in the front end when the parallel config is built.
        """
        return False

    @classmethod
    def support_hybrid_kv_cache(cls) -> bool:
        """Say whether layers may have KV caches of different kinds; no by default.

        Called in the front end when the config is built.
        """
        return False

    @classmethod
    def support_static_graph_mode(cls) -> bool:
        """Say whether device graphs can be captured and replayed; no by default.

        Called in the front end when the config is built. With yes, `get_static_graph_wrapper_cls` must
        answer.
        """
        return False

    @classmethod
    def support_deep_gemm(cls) -> bool:
        """Say whether DeepGEMM's kernels run here; no by default."""
        return False

    @classmethod
    def use_custom_op_collectives(cls) -> bool:
        """Say whether collectives go through custom ops, which `torch.compile` does not trace; no by default."""
        return False

    @classmethod
    def get_nixl_supported_devices(cls) -> dict[str, tuple[str, ...]]:
        """Return which KV buffer devices NIXL serves, by device type; none by default.

        Called when the KV-transfer connector is made, in the front end and in workers.
        """
        return {}

    @classmethod
    def get_nixl_memory_type(cls) -> str | None:
        """Return NIXL's name for the device's memory, such as `"VRAM"`; None by default."""
        return None

    @classmethod
    def is_arch_support_pdl(cls) -> bool:
        """Say whether a kernel can start before the one it depends on has ended; no by default."""
        return False

    @classmethod
    def is_on_gfx9(cls) -> bool:
        """Say whether the device is of AMD's GFX9 family; no by default."""
        return False
