"""Which names are taken for a member's, and where a vendor's own use of a name is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.checks._spellings import meant, used_in
from platform_abc.members import MEMBERS


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("get_atn_backend_cls", "get_attn_backend_cls"),
        ("getAttnBackendCls", "get_attn_backend_cls"),
        ("get_backend_attn_cls", "get_attn_backend_cls"),
        ("get_device_communicator", "get_device_communicator_cls"),
        ("supports_static_graph_mode", "support_static_graph_mode"),
        ("verify_quantisation", "verify_quantization"),
        ("_Chip__get_punica_wrapper", "get_punica_wrapper"),
        ("enum", "_enum"),
    ],
)
def test_a_slip_is_taken_for_the_member(name: str, member: str) -> None:
    """Letters, order, inflection, case and Python's private names do not hide what was meant."""
    assert meant(name, MEMBERS) == member


@pytest.mark.parametrize(
    "name",
    "is_gpu is_npu supports_fp4 supports_mxfp4 get_device_id get_device_count get_device_index chip_version "
    "get_free_memory import_custom_kernels update_block_size is_simulator".split(),
)
def test_a_helper_of_the_vendor_is_taken_for_no_member(name: str) -> None:
    """A name that differs by a word of its own means something else."""
    assert meant(name, MEMBERS) == ""


def test_a_name_is_used_where_it_is_read_not_where_it_is_defined(tmp_path: Path) -> None:
    """A definition alone is no use; an attribute or the name as text is."""
    file = tmp_path / "platform.py"
    file.write_text("def cores(): ...\n", encoding="utf-8")
    assert not used_in(tmp_path, "cores")
    file.write_text("platform.cores()\n", encoding="utf-8")
    assert used_in(tmp_path, "cores")
    file.write_text('getattr(platform, "cores")\n', encoding="utf-8")
    assert used_in(tmp_path, "cores")
