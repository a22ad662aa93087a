"""Facts about weights: which files are read, which part of a tensor, and what is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from platform_abc.config import EngineConfig, LoadConfig
from platform_abc.errors import ConfigError
from reference_model.weights import INDEX, Cut, Weights, drawn, weight_files
from tests.reference_engine import ranks

Use = Callable[..., Any]
CPU = torch.device("cpu")
FIRST = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def folder(tmp_path: Path, use_platform: Use) -> Iterator[Path]:
    """A model of two weight files with an index, made without transformers."""
    use_platform()
    from safetensors.torch import save_file

    path = Path(ranks.write_config(tmp_path / "model", num_hidden_layers=1))
    names = tensors()
    halves = [dict(list(names.items())[:5]), dict(list(names.items())[5:])]
    files = {}
    for number, half in enumerate(halves):
        save_file(half, str(path / f"part-{number}.safetensors"))
        files.update(dict.fromkeys(half, f"part-{number}.safetensors"))
    (path / INDEX).write_text(json.dumps({"weight_map": files}), encoding="utf-8")
    yield path


def tensors() -> dict[str, torch.Tensor]:
    make = torch.Generator().manual_seed(0)
    width, inner, vocabulary = 48, 112, 96
    attention, mlp = "model.layers.0.self_attn", "model.layers.0.mlp"
    shapes = {
        "model.embed_tokens.weight": (vocabulary, width),
        "lm_head.weight": (vocabulary, width),
        "model.norm.weight": (width,),
        "model.layers.0.input_layernorm.weight": (width,),
        "model.layers.0.post_attention_layernorm.weight": (width,),
        FIRST: (width, width),
        f"{attention}.k_proj.weight": (16, width),
        f"{attention}.v_proj.weight": (16, width),
        f"{attention}.o_proj.weight": (width, width),
        f"{mlp}.gate_proj.weight": (inner, width),
        f"{mlp}.up_proj.weight": (inner, width),
        f"{mlp}.down_proj.weight": (width, inner),
    }
    return {name: torch.randn(shape, generator=make) for name, shape in shapes.items()}


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Write all tensors to one file, some of them changed."""
    from safetensors.torch import save_file

    found = tensors()
    change(found)
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    save_file(found, str(folder / "model.safetensors"))


def start(folder: Path, **args: Any) -> Any:
    return ranks.start({"model": str(folder), "dtype": "float32", **args})


def test_one_file_or_several_hold_the_same_model(folder: Path) -> None:
    """And older files may hold what follows from the configuration."""
    several = ranks.generate(start(folder), [[1, 2]], 6)
    rewrite(
        folder, lambda found: found.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)})
    )
    assert ranks.generate(start(folder), [[1, 2]], 6) == several
    assert ranks.generate(start(folder, load_format="dummy"), [[1, 2]], 6) != several


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda found: found.pop(FIRST), f"no tensor '{FIRST}' of shape \\[48, 48\\]"),
        (
            lambda found: found.update({FIRST: torch.ones(48, 47)}),
            "has shape \\[48, 47\\], expected \\[48, 48\\]",
        ),
        (
            lambda found: found.update({FIRST: torch.ones(48, 48, dtype=torch.int8)}),
            "is torch.int8, expected",
        ),
        (
            lambda found: found.update({"model.layers.7.x": torch.ones(1)}),
            "hold model.layers.7.x, which the model",
        ),
    ],
    ids=["missing", "shape", "quantized", "extra"],
)
def test_a_tensor_that_does_not_fit_is_named(folder: Path, change: Any, text: str) -> None:
    """With its file, its shape and what was expected, in one line."""
    rewrite(folder, change)
    with pytest.raises(ConfigError, match=text) as caught:
        start(folder)
    assert "\n" not in str(caught.value)


def _without_shard(folder: Path) -> None:
    (folder / "part-1.safetensors").unlink()


def _broken_shard(folder: Path) -> None:
    (folder / "part-1.safetensors").write_bytes(b"no")


def _broken_index(folder: Path) -> None:
    (folder / INDEX).write_text("{", encoding="utf-8")


def _leading_out(folder: Path) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": {FIRST: "../x.safetensors"}}), encoding="utf-8")


def _swapped(folder: Path) -> None:
    files = json.loads((folder / INDEX).read_text())["weight_map"]
    files[FIRST] = "part-0.safetensors"
    (folder / INDEX).write_text(json.dumps({"weight_map": files}), encoding="utf-8")


def _other_format(folder: Path) -> None:
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_without_shard, "part-1.safetensors: no such file, although model.safetensors.index.json names it"),
        (_broken_shard, "part-1.safetensors: expected a safetensors file"),
        (_broken_index, "index.json: expected a JSON object"),
        (_leading_out, "expected a weight_map of tensor names to files"),
        (_swapped, f"part-0.safetensors: no tensor '{FIRST}', although"),
        (_other_format, "there are only pytorch_model.bin"),
    ],
)
def test_files_that_are_missing_or_broken_are_named(
    folder: Path, change: Callable[[Path], None], text: str
) -> None:
    """In one line, before anything runs."""
    change(folder)
    with pytest.raises(ConfigError, match=text) as caught:
        start(folder)
    assert "\n" not in str(caught.value)


def test_only_the_part_of_a_rank_is_read(folder: Path) -> None:
    """Rows or columns."""
    weights = Weights(weight_files(EngineConfig(), str(folder)), 0, CPU, torch.float32)
    whole = tensors()[FIRST]
    assert torch.equal(weights.take(FIRST, (48, 48), Cut(0, 24, 24)), whole[24:])
    assert torch.equal(weights.take(FIRST, (48, 48), Cut(1, 24, 24)), whole[:, 24:])


def test_seeded_weights_follow_from_seed_and_name(use_platform: Use) -> None:
    """A share is a part of the whole; norms are about one."""
    use_platform()
    whole = drawn(3, "a.weight", (6, 4))
    taken = Weights({}, 3, CPU, torch.float32).take("a.weight", (6, 4), Cut(0, 2, 2))
    assert torch.equal(taken, whole[2:4])
    assert not torch.equal(drawn(3, "b.weight", (6, 4)), whole)
    assert not torch.equal(drawn(4, "a.weight", (6, 4)), whole)
    assert abs(float(drawn(3, "x.norm.weight", (1000,)).mean()) - 1) < 0.02


def test_an_unknown_way_to_load_and_none_are_told_apart(tmp_path: Path) -> None:
    """A folder without weights is seeded, unless files were asked for."""
    config = EngineConfig(load_config=LoadConfig(load_format="gguf"))
    with pytest.raises(ConfigError, match="load_format = 'gguf': expected auto, safetensors or dummy"):
        weight_files(config, str(tmp_path))
    assert weight_files(EngineConfig(), str(tmp_path)) == {}
    with pytest.raises(ConfigError, match=r"expected weights in \*.safetensors files, and there are none"):
        weight_files(EngineConfig(load_config=LoadConfig(load_format="safetensors")), str(tmp_path))


def test_every_weight_passes_the_platforms_loader(use_platform: Use) -> None:
    """Where the platform wants it, each one is loaded by what it made of the engine's loader."""
    seen: list[tuple[int, ...]] = []

    def make(_cls: type, load: Callable[..., None]) -> Callable[..., None]:
        def synced(weight: torch.Tensor, loaded: torch.Tensor) -> None:
            seen.append(tuple(weight.shape))
            load(weight, loaded)

        return synced

    use_platform(use_sync_weight_loader=lambda _cls: True, make_synced_weight_loader=make)
    weights = Weights({}, 0, CPU, torch.bfloat16)
    taken = weights.take("a.weight", (4, 6), Cut(1, 0, 3))
    assert seen == [(4, 3)]
    assert taken.dtype is torch.bfloat16
    assert torch.equal(taken, drawn(0, "a.weight", (4, 6))[:, :3].bfloat16())
