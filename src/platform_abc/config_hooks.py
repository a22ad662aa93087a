"""Config hooks: everything that reads, checks or changes the config, the parser, a request or the environment.

They run while the engine builds its config, before any device is touched, and some of them again in other
processes on a config that was already updated. So they are idempotent, and keep nothing on the class: a
worker never runs them. `platform_abc.timeline` says which runs when and where.
"""

from __future__ import annotations

import sys
from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING, Generic, Protocol, cast

from platform_abc._typevars import (
    Config,
    Config_contra,
    Inputs,
    Inputs_contra,
    IrPriority,
    IrPriority_co,
    Params,
    Params_contra,
    Parser,
    Parser_contra,
)
from platform_abc.errors import NotSupported

if TYPE_CHECKING:
    import torch

    from platform_abc.config import EngineConfig


class ConfigHooksLike(
    Protocol[Config_contra, Parser_contra, Inputs_contra, Params_contra, IrPriority_co],
):
    """What an engine requires of a platform's config hooks; frozen within a major version."""

    def log_warnings(self) -> None:
        """Log what a user should know about this device, once logging is set up."""
        ...

    def get_max_output_tokens(self, prompt_len: int, /) -> int:
        """Return how many tokens the device can generate after a prompt of `prompt_len` tokens."""
        ...

    def pre_register_and_update(self, parser: Parser_contra | None = None, /) -> None:
        """Register or change what must be in place before arguments are parsed and configs are built."""
        ...

    def apply_config_platform_defaults(self, vllm_config: Config_contra, /) -> None:
        """Change defaults of the config in place."""
        ...

    def check_and_update_config(self, vllm_config: Config_contra, /) -> None:
        """Refuse a config that the device cannot run, and fill in what the platform decides."""
        ...

    def update_block_size_for_backend(self, vllm_config: Config_contra, /) -> None:
        """Set a KV-cache block size that every attention backend of the loaded model accepts."""
        ...

    def register_custom_kv_cache_specs(self, vllm_config: Config_contra, /) -> None:
        """Register kinds of KV cache that only this platform has."""
        ...

    def verify_model_arch(self, model_arch: str, /) -> None:
        """Refuse a model architecture, or warn about it."""
        ...

    def verify_quantization(self, quant: str, /) -> None:
        """Refuse a quantization method that the device cannot run."""
        ...

    def validate_request(self, processed_inputs: Inputs_contra, params: Params_contra, /) -> None:
        """Refuse a request that the device cannot serve."""
        ...

    def check_if_supports_dtype(self, dtype: torch.dtype, /) -> None:
        """Refuse a dtype that the device cannot compute in."""
        ...

    def check_runner_kv_caches_multi_layer(self) -> None:
        """Refuse models in which several attention layers have the same layer index."""
        ...

    def check_max_model_len(self, max_model_len: int, /) -> int:
        """Return the longest sequence to allow, at most the one given or more if the device can."""
        ...

    def get_default_ir_op_priority(self, vllm_config: Config_contra, /) -> IrPriority_co:
        """Return which implementation of each IR op to try first."""
        ...

    def validate_environ(self, hard_fail: bool, /) -> None:
        """Warn about unknown environment variables of the engine, or refuse them."""
        ...


class ConfigHooks(Generic[Config, Parser, Inputs, Params, IrPriority], metaclass=ABCMeta):
    """The config hooks of a platform, with defaults; `check_and_update_config` is mandatory."""

    if TYPE_CHECKING:
        device_name: str
        supported_quantization: list[str]

    @classmethod
    def log_warnings(cls) -> None:
        """Log what a user should know about this device; nothing by default.

        Called once in every process, right after logging is set up, so before any config exists.
        """

    def get_max_output_tokens(self, prompt_len: int) -> int:
        """Return how many tokens the device can generate after a prompt; no limit by default.

        Called in the front end for every request.

        Args:
            prompt_len: tokens of the prompt.
        """
        return sys.maxsize

    @classmethod
    def pre_register_and_update(cls, parser: Parser | None = None) -> None:
        """Register or change what must be in place early; nothing by default.

        Called in the front end after the general plugins: once with the parser, when it has all its
        flags, and once more without it as the first thing of config creation. Registering a quantization
        method from another package is the typical use. Both calls may happen, so registering twice must
        not fail.

        Args:
            parser: the engine's argument parser, to add flags to or change defaults of; None the second time.
        """

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Config) -> None:
        """Change defaults of the config in place, such as the list of custom ops; nothing by default.

        Called while the config is built, before `check_and_update_config`, in the front end and again
        in the engine core when workers are processes. A value that the user set must survive.

        Args:
            vllm_config: the engine's config; its optional parts may be None.
        """

    @classmethod
    @abstractmethod
    def check_and_update_config(cls, vllm_config: Config) -> None:
        """Refuse what the device cannot run, and fill in what the platform decides, in place. Mandatory.

        Called late in config construction, in the front end and again in the engine core when workers are
        processes, there on the config that was already updated. The least it must do is to replace
        `parallel_config.worker_cls` when that is `"auto"`, with the dotted name of the worker class.

        Args:
            vllm_config: the engine's config. Its `model_config` and other optional parts may be None.

        Raises:
            ValueError: a setting that the device cannot run; the text names the setting and the choices.
        """

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Config) -> None:
        """Set a KV-cache block size that every attention backend of the loaded model accepts.

        Called after the model is loaded, because the layers know their backends: in each worker with
        worker processes, in the engine core with the in-process executor. A size that the user set is
        kept. Else it is the preferred size of a single backend, else the default where all accept it,
        else the smallest size that all accept. Then it is aligned for models with state-space layers and
        for mixed KV dtypes.

        Args:
            vllm_config: the engine's config; nothing happens while its `model_config` is None.

        Raises:
            ValueError: the backends have no size in common, or alignment left one that a backend refuses.
        """
        from platform_abc.block_size import update_block_size

        # Any engine's config of this shape will do; the function reads nothing else.
        update_block_size(cast("EngineConfig", vllm_config))

    @classmethod
    def register_custom_kv_cache_specs(cls, vllm_config: Config) -> None:
        """Register kinds of KV cache that only this platform has; nothing by default.

        Called in the engine core before the KV-cache manager is made.

        Args:
            vllm_config: the engine's config.
        """

    @classmethod
    def verify_model_arch(cls, model_arch: str) -> None:
        """Refuse a model architecture, or warn about it; all are accepted by default.

        Called in the front end when the model's class is looked up.

        Args:
            model_arch: the architecture's name, such as `"LlamaForCausalLM"`.

        Raises:
            ValueError: the device cannot run it.
        """

    @classmethod
    def verify_quantization(cls, quant: str) -> None:
        """Refuse a quantization method that `supported_quantization` does not list.

        Called in the front end when the model's config is built. An empty list accepts every method.

        Args:
            quant: the method's name, such as `"fp8"`.

        Raises:
            ValueError: the method is not in the list.
        """
        if cls.supported_quantization and quant not in cls.supported_quantization:
            raise ValueError(
                f"quantization {quant!r} is not supported on {cls.device_name}; "
                f"supported: {', '.join(cls.supported_quantization)}"
            )

    @classmethod
    def validate_request(cls, processed_inputs: Inputs, params: Params) -> None:
        """Refuse a request that the device cannot serve; every request is accepted by default.

        Called in the front end for every request, before it is queued.

        Args:
            processed_inputs: the tokenised prompt with its multi-modal parts.
            params: the sampling or pooling parameters.

        Raises:
            ValueError: the request cannot be served; the text goes to the user.
        """

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        """Refuse a dtype that the device cannot compute in; a platform with such a limit overrides it.

        Called in the worker while it initialises the device.

        Args:
            dtype: the model's dtype.

        Raises:
            ValueError: the device cannot compute in it.
            NotSupported: by default.
        """
        raise NotSupported(
            "check_if_supports_dtype",
            cls.__name__,
            "override it: raise ValueError for a dtype that the device cannot compute in, else return",
        )

    @classmethod
    def check_runner_kv_caches_multi_layer(cls) -> None:
        """Refuse models in which several attention layers have one layer index (encoder-decoder models).

        Called in the worker when KV caches are bound to layers, only for such models.

        Raises:
            NotSupported: by default. A platform whose model runner copes overrides it to do nothing.
        """
        raise NotSupported(
            "check_runner_kv_caches_multi_layer",
            cls.__name__,
            "override it to do nothing, once the model runner copes with two attention layers of one index",
        )

    @classmethod
    def check_max_model_len(cls, max_model_len: int) -> int:
        """Return the longest sequence to allow; the one given by default.

        Called in the front end when the model's config is built.

        Args:
            max_model_len: tokens, from the user or from the model.

        Returns:
            Tokens.
        """
        return max_model_len

    @classmethod
    def get_default_ir_op_priority(cls, vllm_config: Config) -> IrPriority:
        """Return which implementation of each IR op to try first; the native one by default.

        Called while the kernel config is built. What the user asked for comes before it.

        Args:
            vllm_config: the engine's config.
        """
        from platform_abc.config import IrOpPriorityConfig

        # The engine's type is a parameter here; the package's own is the value that an unbound one gets.
        return cast("IrPriority", IrOpPriorityConfig.with_default(["native"]))

    @classmethod
    def validate_environ(cls, hard_fail: bool) -> None:
        """Warn about unknown environment variables that begin with `PLATFORM_ABC_`.

        Called in the front end at the start of config creation.

        Args:
            hard_fail: refuse them.

        Raises:
            ValueError: there is one, and `hard_fail` is set.
        """
        from platform_abc.envs import validate_environ

        validate_environ(hard_fail)
