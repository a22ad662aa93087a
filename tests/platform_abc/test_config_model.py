"""Facts of what hooks ask a configuration beside its fields."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from platform_abc.config import CUDAGraphMode, KVTransferConfig, ModelConfig, ParallelConfig


def test_one_ranks_share_of_a_model() -> None:
    """Query heads are divided; key heads too, until each rank keeps a copy of one."""
    model = ModelConfig(num_attention_heads=8, num_kv_heads=2, hidden_size=64, num_layers=5)
    shares = [
        (model.get_num_attention_heads(each), model.get_num_kv_heads(each))
        for each in (ParallelConfig(tensor_parallel_size=size) for size in (1, 2, 4))
    ]
    assert shares == [(8, 2), (4, 1), (2, 1)]
    assert (model.get_head_size(), model.get_hidden_size(), model.get_vocab_size()) == (8, 64, 256)
    assert [model.get_num_layers(ParallelConfig(pipeline_parallel_size=n)) for n in (1, 2, 5)] == [5, 3, 1]


def test_latent_attention_has_one_key_head() -> None:
    """However many the model's own description names."""
    assert ModelConfig(num_attention_heads=8, num_kv_heads=4, use_mla=True).get_total_num_kv_heads() == 1


def test_the_kind_of_a_layer_is_attention_where_nothing_is_said() -> None:
    """A hybrid model lists its layers."""
    hybrid = ModelConfig(layer_kinds=["attention", "mamba"], is_hybrid=True)
    assert [hybrid.kind_of_layer(i) for i in (0, 1)] == ["attention", "mamba"]
    assert ModelConfig().kind_of_layer(1) == "attention"


def test_the_text_part_is_the_whole_where_there_is_no_other() -> None:
    """Hooks read a language model's shape there, whether or not it has a vision part."""
    text = SimpleNamespace(model_type="llama")
    both = ModelConfig(hf_config=SimpleNamespace(model_type="llava", text_config=text))
    assert both.hf_text_config is text
    plain = ModelConfig(architecture="LlamaForCausalLM")
    assert plain.hf_text_config is plain.hf_config
    assert plain.architectures == ["LlamaForCausalLM"] == plain.hf_config.architectures


def test_a_connector_is_known_by_its_name() -> None:
    """None is no connector."""
    assert KVTransferConfig(kv_connector="Nixl").has_connector("Nixl")
    assert not KVTransferConfig().has_connector("Nixl")


@pytest.mark.parametrize(
    ("mode", "full", "pieces"),
    [
        (CUDAGraphMode.NONE, False, False),
        (CUDAGraphMode.PIECEWISE, False, True),
        (CUDAGraphMode.FULL, True, False),
        (CUDAGraphMode.FULL_DECODE_ONLY, True, False),
        (CUDAGraphMode.FULL_AND_PIECEWISE, True, True),
    ],
)
def test_which_graphs_a_mode_has(mode: CUDAGraphMode, full: bool, pieces: bool) -> None:
    """Of batches that only decode and of those that also prefill."""
    assert (mode.has_full_cudagraphs(), mode.has_piecewise_cudagraphs()) == (full, pieces)
