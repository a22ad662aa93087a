"""The plain layer: the usual size of an attention layer in the kit's questions and models, or one that is served.

A vendor's kernels may take few head sizes and dtypes, and its picker or its config hook refuses the others. That is its
right, so what asks for nothing special has a size and a dtype that the platform does not refuse.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    import torch

_HEAD_SIZES: Final = (32, 64, 128, 96, 80, 256)
REFUSALS: Final = (ValueError, NotImplementedError)
"""How a platform says that it does not serve something."""


@attrs.frozen
class PlainLayer:
    """An attention layer.

    Args:
        head_size: elements of a head.
        dtype: by torch's name.
    """

    head_size: int = 32
    dtype: str = "float32"

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype itself."""
        found: torch.dtype = getattr(importlib.import_module("torch"), self.dtype)
        return found


USUAL: Final = PlainLayer()
"""What most platforms serve."""


def served_layer(platform: Any, *, by_backend: bool = False) -> PlainLayer:
    """Find the plainest layer that a platform serves; the usual one where it serves none, or says nonsense.

    Args:
        platform: that an engine would ask.
        by_backend: ask the backend that is picked as well, whose module is imported for it.
    """
    for layer in usual_layers(platform):
        if _is_served(platform, layer, by_backend):
            return layer
    return USUAL


def usual_layers(platform: Any) -> Iterator[PlainLayer]:
    """Give layers of usual sizes, in the dtypes that a platform lists, the usual one first."""
    import torch

    try:
        listed = [one for one in platform.supported_dtypes if isinstance(one, torch.dtype)]
    except Exception:
        listed = []  # device.dtypes tells
    names = [str(one).removeprefix("torch.") for one in listed if one.is_floating_point]
    if USUAL.dtype in names or not names:
        names.insert(0, USUAL.dtype)
    for size in _HEAD_SIZES:
        yield from (PlainLayer(size, name) for name in dict.fromkeys(names))


def _is_served(platform: Any, layer: PlainLayer, by_backend: bool) -> bool:
    """Say whether nobody refuses a layer; another failure is for the checks to tell, and no refusal."""
    from platform_abc.config import AttentionSelectorConfig
    from platform_abc.qualname import resolve_obj_by_qualname

    question = AttentionSelectorConfig(
        head_size=layer.head_size, dtype=layer.torch_dtype, kv_cache_dtype="auto", block_size=None
    )
    try:
        name = platform.get_attn_backend_cls(None, attn_selector_config=question, num_heads=2)
        if not by_backend:
            return True
        backend: Any = resolve_obj_by_qualname(name)
        return not backend.validate_configuration(question)
    except REFUSALS:
        return False
    except Exception:
        return True
