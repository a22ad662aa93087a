"""What the platforms of this package share: config rules, dtypes, device arguments, and names they pick.

Plain functions over the engine's config and torch's device arguments. Nothing here imports torch before
it must.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from platform_abc import device_ids
from platform_abc.errors import ConfigError
from platforms.attention_choice import SDPA_CACHE_DTYPES, check_name

if TYPE_CHECKING:
    import torch

    from platform_abc.config import EngineConfig

_logger = logging.getLogger(__name__)

WORKER: Final = "platforms.components.worker.DeviceWorker"
COMMUNICATOR: Final = "platforms.components.communicator.TorchDistributedCommunicator"
TORCH_LORA: Final = "platforms.components.lora_torch.TorchPunicaWrapper"
TRITON_LORA: Final = "platforms.components.lora_triton.TritonPunicaWrapper"
EAGER_GRAPHS: Final = "platforms.components.eager_graph.EagerGraphWrapper"
CUDA_GRAPHS: Final = "platforms.components.cuda_graph.CudaGraphWrapper"
KV_CACHE_BUILDER: Final = "platform_abc.components.kv_cache.DefaultKVCacheConfigBuilder"


# --- config


def check_config(device_name: str, config: EngineConfig, backends: Mapping[str, str]) -> None:
    """Set the worker class, and refuse what the platform cannot run.

    Args:
        device_name: the platform, for messages.
        config: changed in place: `parallel_config.worker_cls` if it is `auto`.
        backends: its attention backends, by the names under which a user asks for them.

    Raises:
        ConfigError: a setting that does not work here, by its field.
    """
    set_worker_class(config)
    check_parallelism(device_name, config)
    check_cache_dtype(device_name, config)
    check_name(device_name, backends, config.attention_config.backend)


def forbid_chunked_images(config: EngineConfig) -> None:
    """Keep images whole where the model attends within them in both directions, with a warning.

    Args:
        config: changed in place: `scheduler_config.disable_chunked_mm_input`.
    """
    model, scheduler = config.model_config, config.scheduler_config
    if model is None or not model.is_mm_prefix_lm or not scheduler.is_multimodal_model:
        return
    if not scheduler.disable_chunked_mm_input:
        _logger.warning(
            "scheduler_config.disable_chunked_mm_input is set to True: this model attends within an image "
            "in both directions, so an image must not be split over two steps"
        )
        scheduler.disable_chunked_mm_input = True


def set_worker_class(config: EngineConfig) -> None:
    """Put this package's worker where the config says `auto`; a user's own class stays.

    Args:
        config: changed in place.
    """
    if config.parallel_config.worker_cls == "auto":
        config.parallel_config.worker_cls = WORKER


def check_parallelism(device_name: str, config: EngineConfig) -> None:
    """Refuse ways to divide a model that this package's worker does not know; another worker may.

    Args:
        device_name: the platform, for the message.
        config: only read, after the worker class is set.

    Raises:
        ConfigError: naming the field.
    """
    parallel = config.parallel_config
    if parallel.worker_cls != WORKER:
        return
    for field in (
        "pipeline_parallel_size",
        "prefill_context_parallel_size",
        "decode_context_parallel_size",
    ):
        size: int = getattr(parallel, field)
        if size != 1:
            raise ConfigError(
                f"parallel_config.{field} = {size}: expected 1 on {device_name}, whose worker divides a "
                "model by tensor_parallel_size only; set that one, or name a worker of yours in "
                "parallel_config.worker_cls"
            )


def refuse_static_graphs(device_name: str, config: EngineConfig) -> None:
    """Refuse a wish for captured graphs, where there is no wrapper that captures them.

    Args:
        device_name: the platform, for the message.
        config: only read.

    Raises:
        ConfigError: `compilation_config.cudagraph_mode` is not NONE.
    """
    mode = config.compilation_config.cudagraph_mode
    if mode.name != "NONE":
        raise ConfigError(
            f"compilation_config.cudagraph_mode = {mode.name}: expected NONE on {device_name}, where this "
            "package has no wrapper that captures graphs; leave it out"
        )


def check_model_dtype(device_name: str, config: EngineConfig, supported: Sequence[str]) -> None:
    """Refuse a model dtype that the device cannot compute in.

    Args:
        device_name: the platform, for the message.
        config: only read; without a model, or with a dtype that is not decided yet, nothing is checked.
        supported: names of torch dtypes.

    Raises:
        ConfigError: naming the field and the dtypes that work.
    """
    model = config.model_config
    if model is not None and model.dtype != "auto":
        spelling = _SPELLINGS.get(str(model.dtype), model.dtype)
        check_dtype(device_name, spelling, supported, field="model_config.dtype")


def check_dtype(device_name: str, dtype: object, supported: Sequence[str], *, field: str = "dtype") -> None:
    """Refuse a dtype that is not in a list.

    Args:
        device_name: the device, for the message.
        dtype: a torch dtype, or its name.
        supported: names of torch dtypes.
        field: where the value stands, for the message.

    Raises:
        ConfigError: naming the field and the dtypes that work.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in supported:
        raise ConfigError(
            f"{field} = {name}: {device_name} computes in {', '.join(supported)}; "
            f"pass one of them to --dtype, for example --dtype={supported[0]}"
        )


def check_cache_dtype(device_name: str, config: EngineConfig) -> None:
    """Refuse a KV cache dtype that no attention backend of this package stores.

    Args:
        device_name: the platform, for the message.
        config: only read.

    Raises:
        ConfigError: naming the field and the dtypes that work.
    """
    asked = config.cache_config.cache_dtype
    if asked not in SDPA_CACHE_DTYPES:
        raise ConfigError(
            f"cache_config.cache_dtype = {asked}: expected one of {', '.join(SDPA_CACHE_DTYPES)} on "
            f"{device_name}; auto keeps the model's own dtype"
        )


def torch_dtypes(names: Sequence[str]) -> list[torch.dtype]:
    """Return torch's dtypes for their names, in order."""
    import torch

    known = {
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
        "float32": torch.float32,
    }
    return [known[name] for name in names]


_SPELLINGS: Final = {"half": "float16", "float": "float32"}
"""Short spellings of a model's dtype, and what they mean."""


# --- devices


def visible_entries(variable: str) -> list[str]:
    """Return the entries of a device variable, without blanks; empty if it is unset or empty.

    Args:
        variable: its name.

    Raises:
        ValueError: it is no list of distinct devices; with its value.
    """
    return list(device_ids.visible_entries(variable) or ())


def shown_variable(variable: str) -> str:
    """Return `NAME=value` as the environment has it, for messages."""
    return f"{variable}={os.environ.get(variable, '')}"


def device_index(device: torch.types.Device, kind: str) -> int | None:
    """Return the visible index that a device argument of torch stands for.

    Args:
        device: a `torch.device`, a text such as `"cuda:1"`, a number, or None.
        kind: the type that the device must be of.

    Returns:
        The index; None where the argument names none, which means the current device.

    Raises:
        ValueError: the text is none that torch takes, or the device is of another type.
    """
    if device is None or isinstance(device, int):
        return device
    if isinstance(device, str):
        import torch

        try:
            device = torch.device(device)
        except RuntimeError as error:
            raise ValueError(f"expected a device such as 'cpu' or 'cuda:1', got {device!r}") from error
    require_device_type(device, kind)
    # The stubs of torch leave out that a device may have no index.
    index: int | None = device.index
    return index


def require_id(device_id: int) -> None:
    """Refuse a negative device id.

    Raises:
        IndexError: it is negative.
    """
    if device_id < 0:
        raise IndexError(f"expected a device id of at least 0, got {device_id}")


def require_device_type(device: torch.device, kind: str) -> None:
    """Refuse a device of another type.

    Args:
        device: the device.
        kind: the type that is expected.

    Raises:
        ValueError: naming both.
    """
    if device.type != kind:
        raise ValueError(f"expected a device of the type {kind!r}, got {device}")


def is_installed(package: str) -> bool:
    """Say whether a package can be imported, without importing it.

    Args:
        package: its import name, without dots.
    """
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:
        # It is loaded already, by something that gave it no spec.
        return sys.modules.get(package) is not None


def on_macos() -> bool:
    """Say whether this is macOS."""
    return sys.platform == "darwin"
