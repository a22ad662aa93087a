"""An adapter as PEFT's folders hold it: `adapter_config.json` beside `adapter_model.safetensors`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from platform_abc.errors import ConfigError
from reference_model.model_config import read_json
from reference_model.weights import open_safetensors

if TYPE_CHECKING:
    import torch

_PREFIX: Final = "base_model.model."
_ENDS: Final = {
    ".lora_A.weight": 0,
    ".lora_B.weight": 1,
    ".lora_embedding_A": 0,
    ".lora_embedding_B": 1,
}
_UNUSED: Final = ".base_layer.weight"
"""The base model's own weight, which such a folder may repeat."""

_PLAIN: Final[Mapping[str, tuple[Any, ...]]] = {
    "peft_type": ("LORA",),
    "bias": (None, "none"),
    "use_dora": (None, False),
    "modules_to_save": (None, []),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
    "fan_in_fan_out": (None, False),
    "layer_replication": (None, []),
    "alora_invocation_tokens": (None, []),
}
"""Keys of the configuration, and the values with which an adapter is two products and nothing else."""


@attrs.frozen
class Adapter:
    """What is added to some projections of a model.

    Args:
        name: for messages.
        pairs: `(lora_a, lora_b)` by the projection's name in the model's folder, such as
            `model.layers.0.self_attn.q_proj`; `[rank, inputs]`, and `[outputs, rank]` with the scale in it.
    """

    name: str
    pairs: Mapping[str, tuple[torch.Tensor, torch.Tensor]]


def read_adapter(folder: Path) -> Adapter:
    """Read an adapter.

    Args:
        folder: holds `adapter_config.json` and `adapter_model.safetensors`.

    Raises:
        ConfigError: a file is missing, or asks for what this engine does not compute.
    """
    path = folder / "adapter_config.json"
    config = read_json(path)
    for key, plain in _PLAIN.items():
        if config.get(key) not in plain:
            raise ConfigError(f"{path}: {key} = {config.get(key)!r}: expected {plain[-1]!r}")
    alpha = config.get("lora_alpha")
    if not isinstance(alpha, int | float) or isinstance(alpha, bool):
        raise ConfigError(f"{path}: lora_alpha = {alpha!r}: expected a number")
    halves = _read_halves(folder / "adapter_model.safetensors")
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for name, found in halves.items():
        if len(found) != 2:
            raise ConfigError(f"{folder}: {name} has only one of its two matrices")
        rank = found[0].shape[0]
        if not rank:
            raise ConfigError(f"{folder}: {name} has matrices of rank 0, expected at least 1")
        scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
        pairs[name] = (found[0], found[1] * scale)
    return Adapter(str(folder), pairs)


def _read_halves(path: Path) -> Mapping[str, Mapping[int, torch.Tensor]]:
    file = open_safetensors(path)
    halves: dict[str, dict[int, torch.Tensor]] = {}
    for key in file.keys():  # noqa: SIM118  the file is no mapping
        if key.endswith(_UNUSED):
            continue
        end = next((end for end in _ENDS if key.endswith(end)), None)
        if end is None or not key.startswith(_PREFIX):
            raise ConfigError(
                f"{path}: tensor {key!r}: expected the two matrices of a projection, and no other"
            )
        tensor: torch.Tensor = file.get_tensor(key)
        if tensor.dim() != 2:
            raise ConfigError(f"{path}: tensor {key!r} has shape {list(tensor.shape)}, expected a matrix")
        halves.setdefault(key[len(_PREFIX) : -len(end)], {})[_ENDS[end]] = tensor
    return halves
