"""Facts about the plain Llama that engines are compared with."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from conformance.numeric.llama import first_wrong, weights, write_folder  # noqa: E402

pytestmark = pytest.mark.torch


def test_the_folder_holds_the_weights(tmp_path: Path) -> None:
    """The file of safetensors has every tensor where its header says."""
    write_folder(tmp_path)
    data = (tmp_path / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    name = "model.layers.1.mlp.down_proj.weight"
    begin, end = header[name]["data_offsets"]
    read = torch.frombuffer(bytearray(data[8 + size + begin : 8 + size + end]), dtype=torch.float32)
    assert torch.equal(read.view(header[name]["shape"]), weights()[name])


@pytest.mark.slow
def test_it_agrees_with_transformers(tmp_path: Path) -> None:
    """Greedy tokens of transformers on the same folder are likely tokens, and others are not."""
    transformers = pytest.importorskip("transformers")
    write_folder(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    prompt = [5, 6, 7, 8, 9]
    made = model.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False, eos_token_id=None)
    tokens = made[0, len(prompt) :].tolist()
    assert first_wrong(prompt, tokens, near=1e-3) is None
    wrong = first_wrong(prompt, [*tokens[:3], (tokens[3] + 1) % 256], near=1e-3)
    assert wrong is not None
    assert (wrong.place, wrong.best) == (3, tokens[3])
