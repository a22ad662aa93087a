"""Weights by their name: from the safetensors files of a folder, or drawn from a seed where there are none."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
import torch

from platform_abc.errors import ConfigError
from reference_model.model_config import read_json

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig

logger = logging.getLogger(__name__)

INDEX: Final = "model.safetensors.index.json"
_DERIVED: Final = (".rotary_emb.inv_freq",)
"""Ends of names that older files hold although they follow from the configuration."""


@attrs.frozen
class Cut:
    """The part of a tensor that this rank takes: `length` rows or columns of dimension `dim`, from `start`."""

    dim: int
    start: int
    length: int


class Weights:
    """Puts weights where the model computes, each through the platform's loader.

    Args:
        files: the file of each tensor, of which only what is asked for is read; empty for drawn weights.
        seed: of drawn ones.
        device: where they go.
        dtype: what they become.
    """

    def __init__(
        self, files: Mapping[str, Path], seed: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.files = files
        self.seed = seed
        self.device = device
        self.dtype = dtype
        self.unread = set(files)
        self._opened: dict[Path, Any] = {}

    def take(self, name: str, shape: Sequence[int], cut: Cut | None = None) -> torch.Tensor:
        """Return a tensor, or this rank's part of it.

        Args:
            name: as the folder spells it.
            shape: of the whole.
            cut: the part.

        Raises:
            ConfigError: there is no such tensor, or it has another shape.
        """
        own = list(shape)
        if cut is not None:
            own[cut.dim] = cut.length
        return self.fill(torch.empty(own, dtype=self.dtype, device=self.device), name, shape, cut)

    def fill(
        self, weight: torch.Tensor, name: str, shape: Sequence[int], cut: Cut | None = None
    ) -> torch.Tensor:
        """Fill a tensor, or a view of one, and return it; see `take`.

        Args:
            weight: what is filled, of the shape of the part.
            name: as the folder spells it.
            shape: of the whole.
            cut: the part.
        """
        from platforms import current_platform

        load: Callable[[torch.Tensor, torch.Tensor], None] = _copy_weight
        if current_platform.use_sync_weight_loader():
            load = current_platform.make_synced_weight_loader(load)
        if self.files:
            loaded = self._read(name, shape, cut)
        else:
            # Drawn whole and then cut, so that any number of ranks has the same model.
            loaded = drawn(self.seed, name, shape)
            loaded = loaded if cut is None else loaded.narrow(cut.dim, cut.start, cut.length)
        load(weight, loaded)
        return weight

    def _read(self, name: str, shape: Sequence[int], cut: Cut | None) -> torch.Tensor:
        path = self.files.get(name)
        if path is None:
            folder = next(iter(self.files.values())).parent
            raise ConfigError(f"{folder}: no tensor {name!r} of shape {list(shape)} in the weight files")
        if path not in self._opened:
            self._opened[path] = open_safetensors(path)
        if name not in self._opened[path].keys():  # noqa: SIM118  the file is no mapping
            raise ConfigError(f"{path}: no tensor {name!r}, although {path.with_name(INDEX)} says so")
        stored = self._opened[path].get_slice(name)
        found: list[int] = stored.get_shape()
        if found != list(shape):
            raise ConfigError(f"{path}: tensor {name!r} has shape {found}, expected {list(shape)}")
        index: list[slice] = [slice(None)] * len(shape)
        if cut is not None:
            index[cut.dim] = slice(cut.start, cut.start + cut.length)
        tensor: torch.Tensor = stored[tuple(index)]
        if not tensor.is_floating_point() or tensor.dtype.itemsize < 2:
            raise ConfigError(
                f"{path}: tensor {name!r} is {tensor.dtype}, expected unquantized floating point"
            )
        self.unread.discard(name)
        return tensor

    def check_all_read(self, unused: Sequence[str] = ()) -> None:
        """Refuse tensors that nobody has read: the model would not be the one of the folder.

        Args:
            unused: names that may be there for nothing.

        Raises:
            ConfigError: there are some; it names them.
        """
        extra = sorted(name for name in self.unread - set(unused) if not name.endswith(_DERIVED))
        if extra:
            shown = ", ".join(extra[:3]) + (f" and {len(extra) - 3} more" if len(extra) > 3 else "")
            raise ConfigError(
                f"{self.files[extra[0]].parent}: the weight files hold {shown}, which the model of config.json "
                "does not have"
            )


def _copy_weight(weight: torch.Tensor, loaded: torch.Tensor, /) -> None:
    weight.copy_(loaded)


def drawn(seed: int, name: str, shape: Sequence[int]) -> torch.Tensor:
    """Return about ones for a norm, small numbers for a bias, and for a product what keeps the scale.

    Args:
        seed: the model's.
        name: of the weight; seed and name decide.
        shape: of the whole.
    """
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
    numbers = torch.randn(tuple(shape), generator=generator)
    if len(shape) == 1:
        return 1 + 0.1 * numbers if name.endswith("norm.weight") else 0.1 * numbers
    # Rows of an embedding are looked up, not added up.
    return numbers if "embed" in name else numbers / math.sqrt(shape[-1])


def open_safetensors(path: Path) -> Any:
    """Return an open safetensors file, whose tensors torch reads.

    Raises:
        ConfigError: there is no such file, it is broken, or the package is missing.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ConfigError(
            f"{path}: reading it needs safetensors: pip install 'platform-abc[torch]'"
        ) from error
    try:
        return safe_open(str(path), framework="pt", device="cpu")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file") from error
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{path}: expected a safetensors file: {error}") from error


def weight_files(config: EngineConfig, model: str) -> Mapping[str, Path]:
    """Return the file of each tensor of a model; none where its weights are drawn.

    Args:
        config: its `load_config.load_format` is `auto`, `safetensors` or `dummy`.
        model: the folder; weights are drawn where it is none, or has no weight files.

    Raises:
        ConfigError: the files are not there, are broken, or are none that this engine reads.
    """
    wanted = config.load_config.load_format
    if wanted not in ("auto", "safetensors", "dummy"):
        raise ConfigError(f"load_config.load_format = {wanted!r}: expected auto, safetensors or dummy")
    folder = Path(model)
    if wanted == "dummy":
        return {}
    index = folder / INDEX
    if index.is_file():
        return _indexed(index)
    # Beside the usual one there may be others, with the same weights under other names.
    usual = folder / "model.safetensors"
    found = [usual] if usual.is_file() else sorted(folder.glob("*.safetensors"))
    if found:
        return {name: path for path in found for name in open_safetensors(path).keys()}  # noqa: SIM118
    others = sorted(folder.glob("*.bin")) + sorted(folder.glob("*.pt*"))
    if others or wanted == "safetensors":
        there = f"only {', '.join(path.name for path in others[:3])}" if others else "none"
        raise ConfigError(
            f"model_config.model = {model!r}: expected weights in *.safetensors files, and there are {there}; "
            "load_config.load_format = 'dummy' makes seeded ones"
        )
    if folder.is_dir():
        logger.warning("%s has no weight files: the weights are drawn from the seed", model)
    return {}


def _indexed(index: Path) -> Mapping[str, Path]:
    files: object = read_json(index).get("weight_map")
    pairs = cast("dict[str, object]", files) if isinstance(files, dict) else {}
    # A name with a folder in it would lead out of the model's own.
    wrong = [file for file in pairs.values() if not isinstance(file, str) or Path(file).name != file]
    if not pairs or wrong:
        raise ConfigError(f"{index}: expected a weight_map of tensor names to files, got {files!r:.80}")
    made = {name: index.with_name(str(file)) for name, file in pairs.items()}
    for path in sorted(set(made.values())):
        if not path.is_file():
            raise ConfigError(f"{path}: no such file, although {index.name} names it")
    return made
