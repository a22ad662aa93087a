"""Pickers: everything that names the class of a component.

A picker returns a dotted name, `package.module.Class`, and the engine imports it where it builds that
component. So a picker must not import what it names. One that has no such component raises
`NotSupported`; only the attention picker must answer.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast

from typing_extensions import TypeIs

from platform_abc._typevars import (
    BackendIn,
    BackendIn_contra,
    BackendOut,
    BackendOut_co,
    Config,
    Config_contra,
    MlaBackend,
    MlaBackend_co,
    MlaSelector,
    MlaSelector_contra,
    Selector,
    Selector_contra,
)
from platform_abc.errors import NotSupported

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch


class PickersLike(
    Protocol[Selector_contra, BackendIn_contra, BackendOut_co, MlaSelector_contra, MlaBackend_co]
):
    """What an engine requires of a platform's pickers; frozen within a major version."""

    @property
    def pass_key(self) -> str:
        """The key of the compiler's config under which the pass manager is registered."""
        ...

    def get_pass_manager_cls(self) -> str:
        """Return the dotted name of the compiler's pass manager."""
        ...

    def get_compile_backend(self) -> str:
        """Return the `torch.compile` backend for the model: a registered or a dotted name."""
        ...

    def get_attn_backend_cls(
        self,
        selected_backend: BackendIn_contra,
        /,
        *,
        attn_selector_config: Selector_contra,
        num_heads: int | None,
    ) -> str:
        """Return the dotted name of the attention backend."""
        ...

    def get_supported_vit_attn_backends(self) -> Sequence[BackendOut_co]:
        """Return the attention backends that vision encoders can use, best first."""
        ...

    def get_vit_attn_backend(
        self, head_size: int, dtype: torch.dtype, /, *, backend: BackendIn_contra | None
    ) -> BackendOut_co:
        """Return the attention backend for a vision encoder."""
        ...

    def get_mla_prefill_backend_cls(self, mla_selector_config: MlaSelector_contra, /) -> type[MlaBackend_co]:
        """Return the class that computes prefill for multi-head latent attention."""
        ...

    def get_punica_wrapper(self) -> str:
        """Return the dotted name of the LoRA kernel wrapper."""
        ...

    def get_device_communicator_cls(self) -> str:
        """Return the dotted name of the communicator between devices."""
        ...

    def get_static_graph_wrapper_cls(self) -> str:
        """Return the dotted name of the wrapper that captures and replays device graphs."""
        ...

    def opaque_attention_op(self) -> bool:
        """Say whether attention is registered as one opaque custom op for `torch.compile`."""
        ...


class PickersV2Like(
    PickersLike[Selector_contra, BackendIn_contra, BackendOut_co, MlaSelector_contra, MlaBackend_co],
    Protocol[
        Selector_contra, BackendIn_contra, BackendOut_co, MlaSelector_contra, MlaBackend_co, Config_contra
    ],
):
    """`PickersLike` and what came after it. Narrow to it with `has_pickers_v2`."""

    def get_kv_cache_config_builder_cls(self, vllm_config: Config_contra, /) -> str:
        """Return the dotted name of the class that lays the KV cache out in memory."""
        ...


def has_pickers_v2(
    platform: PickersLike[Selector, BackendIn, BackendOut, MlaSelector, MlaBackend], /
) -> TypeIs[PickersV2Like[Selector, BackendIn, BackendOut, MlaSelector, MlaBackend, Any]]:
    """Say whether the platform has the pickers that version 2 added.

    It asks the type: the instance would answer every name, by the torch fallback.
    """
    return callable(getattr(type(platform), "get_kv_cache_config_builder_cls", None))


class Pickers(Generic[Selector, BackendIn, BackendOut, MlaSelector, MlaBackend, Config], metaclass=ABCMeta):
    """The pickers of a platform, with defaults; `get_attn_backend_cls` is mandatory."""

    if TYPE_CHECKING:
        device_name: str
        simple_compile_backend: str

    @property
    def pass_key(self) -> str:
        """The key of the compiler's config under which the pass manager is registered.

        Read in the worker when the model is compiled.
        """
        return "post_grad_custom_post_pass"

    @classmethod
    def get_pass_manager_cls(cls) -> str:
        """Return the dotted name of the compiler's pass manager; one that runs the registered passes by default.

        Called in the worker when the model is compiled; the engine registers it under `pass_key`.
        """
        return "platform_abc.components.compile.DefaultPassManager"

    @classmethod
    def get_compile_backend(cls) -> str:
        """Return the `torch.compile` backend for the model; `simple_compile_backend` by default.

        Called in the front end for the compilation config and in the worker.

        Returns:
            A name registered with torch, or a dotted name.
        """
        return cls.simple_compile_backend

    @classmethod
    @abstractmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: BackendIn,
        attn_selector_config: Selector,
        num_heads: int | None = None,
    ) -> str:
        """Return the dotted name of the attention backend. Mandatory.

        Called in the worker while the layers are built; the engine keeps the answer for each
        combination of arguments. It must answer with a name for the plain configuration.

        Args:
            selected_backend: what the user asked for; None if nothing.
            attn_selector_config: head size, dtypes, block size and the kind of attention.
            num_heads: query heads of this rank; None if not known.

        Raises:
            ValueError: the backend that the user asked for cannot run here. Another one in its place,
                without a word, is not allowed.
            NotSupported: no backend can compute this configuration.
        """

    @classmethod
    def get_supported_vit_attn_backends(cls) -> list[BackendOut]:
        """Return the attention backends that vision encoders can use, best first; torch's SDPA by default.

        An empty list says that there is none; `get_vit_attn_backend` then raises `NotSupported`.
        """
        from platform_abc.config import AttentionBackendEnum

        return [cast("BackendOut", AttentionBackendEnum.TORCH_SDPA)]

    @classmethod
    def get_vit_attn_backend(
        cls, head_size: int, dtype: torch.dtype, backend: BackendIn | None = None
    ) -> BackendOut:
        """Return the attention backend for a vision encoder.

        Called in the worker while the encoder's layers are built.

        Args:
            head_size: elements of one head.
            dtype: what the encoder computes in.
            backend: what the user asked for; None if nothing.

        Returns:
            The one asked for, else the first of `get_supported_vit_attn_backends`.

        Raises:
            ValueError: the one asked for is not supported.
            NotSupported: none is supported.
        """
        supported = cls.get_supported_vit_attn_backends()
        if backend is None:
            if not supported:
                raise NotSupported(
                    "get_vit_attn_backend", cls.__name__, "name a backend in get_supported_vit_attn_backends"
                )
            return supported[0]
        asked: object = backend
        for candidate in supported:
            if candidate == asked:
                return candidate
        names = ", ".join(getattr(one, "name", str(one)) for one in supported) or "none"
        raise ValueError(
            f"attention backend {getattr(backend, 'name', backend)} is not supported for vision encoders "
            f"on {cls.device_name}; supported: {names}"
        )

    @classmethod
    def get_mla_prefill_backend_cls(cls, mla_selector_config: MlaSelector) -> type[MlaBackend]:
        """Return the class that computes prefill for multi-head latent attention.

        Called in the worker while the layers of such a model are built. This picker returns the class
        itself, not its name.

        Args:
            mla_selector_config: head dimensions and dtypes.

        Raises:
            ValueError: no backend is valid for the configuration; the text gives each one's reason.
            NotSupported: by default: this package has no such backend.
        """
        raise NotSupported(
            "get_mla_prefill_backend_cls",
            cls.__name__,
            "override it with the class that computes prefill for multi-head latent attention",
        )

    @classmethod
    def get_punica_wrapper(cls) -> str:
        """Return the dotted name of the LoRA kernel wrapper.

        Called in the worker when LoRA is enabled.

        Raises:
            NotSupported: by default.
        """
        raise NotSupported(
            "get_punica_wrapper",
            cls.__name__,
            "override it with the dotted name of a LoRA kernel wrapper, or run without LoRA",
        )

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Return the dotted name of the communicator between devices; one on `torch.distributed` by default.

        Called in each worker when the process groups are made, also for a group of one.
        """
        return "platforms.components.communicator.TorchDistributedCommunicator"

    @classmethod
    def get_static_graph_wrapper_cls(cls) -> str:
        """Return the dotted name of the wrapper that captures and replays device graphs.

        Called in the worker when the model is compiled, only if `support_static_graph_mode` says yes.

        Raises:
            NotSupported: by default.
        """
        raise NotSupported(
            "get_static_graph_wrapper_cls",
            cls.__name__,
            "override it with the dotted name of a graph wrapper and let support_static_graph_mode say yes",
        )

    @classmethod
    def opaque_attention_op(cls) -> bool:
        """Say whether attention is registered as one opaque custom op; no by default.

        Called in the worker while the layers are built. With no, the layer calls the backend directly and
        `torch.compile` traces into it.
        """
        return False

    @classmethod
    def get_kv_cache_config_builder_cls(cls, vllm_config: Config) -> str:
        """Return the dotted name of the class that lays the KV cache out in memory; the common one by default.

        Called in the engine core before the KV cache is made.

        Args:
            vllm_config: the engine's config.
        """
        return "platform_abc.components.kv_cache.DefaultKVCacheConfigBuilder"
