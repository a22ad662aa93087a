"""Kernel hooks: importing kernel libraries, replacing Triton kernels, and what wraps the forward pass."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from platform_abc._typevars import Config, Config_contra

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

P = ParamSpec("P")
R = TypeVar("R")


class KernelHooksLike(Protocol[Config_contra]):
    """What an engine requires of a platform's kernel hooks; frozen within a major version."""

    def import_ir_kernels(self) -> None:
        """Import the modules that register implementations of IR ops."""
        ...

    def import_kernels(self) -> None:
        """Import the compiled kernel libraries."""
        ...

    def register_triton_kernel_overrides(self) -> None:
        """Replace Triton kernels of the engine with the platform's own."""
        ...

    def use_sync_weight_loader(self) -> bool:
        """Say whether loaded weights must be synchronised one by one."""
        ...

    def make_synced_weight_loader(
        self, original_weight_loader: Callable[Concatenate[torch.Tensor, P], R], /
    ) -> Callable[Concatenate[torch.Tensor, P], R]:
        """Wrap a weight loader so that each weight is on the device when it returns."""
        ...

    def set_additional_forward_context(
        self,
        *,
        attn_metadata: Any,
        vllm_config: Config_contra,
        dp_metadata: Any,
        num_tokens: int | None,
        num_tokens_across_dp: torch.Tensor | None,
        cudagraph_runtime_mode: Any,
        batch_descriptor: Any,
        ubatch_slices: Any,
    ) -> Mapping[str, object]:
        """Return what the platform adds to the context of one forward pass."""
        ...


class KernelHooks(Generic[Config], metaclass=ABCMeta):
    """The kernel hooks of a platform, with defaults."""

    @classmethod
    def import_ir_kernels(cls) -> None:
        """Import the modules that register implementations of IR ops.

        Called once in every process that reads the kernel config, before the priorities are resolved.
        The default imports nothing: the native implementations are part of the engine.
        """

    @classmethod
    def import_kernels(cls) -> None:
        """Import the compiled kernel libraries.

        Called when the engine's module of custom ops is imported, in every process, so also where there is
        no device. A library that is missing must not raise; the ops that need it do. The default imports
        nothing: this package ships no compiled kernels.
        """

    @classmethod
    def register_triton_kernel_overrides(cls) -> None:
        """Replace Triton kernels of the engine with the platform's own; nothing by default.

        Called in the worker right after the general plugins, before the worker class is made.
        """

    @classmethod
    def use_sync_weight_loader(cls) -> bool:
        """Say whether loaded weights must be synchronised one by one; no by default.

        Called in the worker for every parameter while weights are loaded. Devices whose copies are lazy
        need it, else memory fills with pending copies.
        """
        return False

    @classmethod
    def make_synced_weight_loader(
        cls, original_weight_loader: Callable[Concatenate[torch.Tensor, P], R]
    ) -> Callable[Concatenate[torch.Tensor, P], R]:
        """Wrap a weight loader so that each weight is on the device when it returns.

        Args:
            original_weight_loader: called with the parameter and whatever the model passes.

        Returns:
            The loader itself if `use_sync_weight_loader` says no.
        """
        if not cls.use_sync_weight_loader():
            return original_weight_loader

        def synced_weight_loader(param: torch.Tensor, *args: P.args, **kwargs: P.kwargs) -> R:
            import torch

            loaded = original_weight_loader(param, *args, **kwargs)
            if param.device.type != "cpu":
                # The one call that waits for a single tensor; torch gives it no public name.
                sync: Callable[[torch.Tensor], None] = getattr(torch, "_sync")  # noqa: B009
                sync(param)
            return loaded

        # A checker wants the first parameter to have no name; but engines may pass `param=…`.
        return cast("Callable[Concatenate[torch.Tensor, P], R]", synced_weight_loader)

    @classmethod
    def set_additional_forward_context(
        cls,
        *,
        attn_metadata: Any,
        vllm_config: Config,
        dp_metadata: Any,
        num_tokens: int | None,
        num_tokens_across_dp: torch.Tensor | None,
        cudagraph_runtime_mode: Any,
        batch_descriptor: Any,
        ubatch_slices: Any,
    ) -> dict[str, Any]:
        """Return what the platform adds to the context of one forward pass; nothing by default.

        Called in the worker for every step, so it must be cheap. An override may take `**kwargs`.

        Args:
            attn_metadata: metadata of attention, by layer, or None in a profiling run.
            vllm_config: the engine's config.
            dp_metadata: token counts of the data-parallel ranks, or None.
            num_tokens: tokens of this step, padding included; None if not known.
            num_tokens_across_dp: int32 tensor of shape `(data_parallel_size,)`, or None.
            cudagraph_runtime_mode: whether and how a device graph is replayed.
            batch_descriptor: the key of the graph to replay, or None.
            ubatch_slices: micro-batches of this step, or None.

        Returns:
            Names and values to set on the context.
        """
        return {}
