"""The defaults of the Pickers group, and its later version."""

from __future__ import annotations

import pytest

from platform_abc import NotSupported
from platform_abc.config import AttentionBackendEnum
from platform_abc.pickers import has_pickers_v2
from platform_abc.qualname import resolve_obj_by_qualname
from tests.platform_abc.contract_platforms import Complete

NAMED = ("get_pass_manager_cls", "get_device_communicator_cls")


def test_the_compile_backend_follows_the_attribute() -> None:
    """A platform that sets only the attribute changes both."""

    class Compiled(Complete):
        simple_compile_backend = "eager"

    assert Compiled.get_compile_backend() == "eager"


def test_values_that_are_the_same_for_all() -> None:
    """The key for compiler passes, and attention that torch.compile traces into."""
    assert Complete().pass_key == "post_grad_custom_post_pass"
    assert Complete.opaque_attention_op() is False


@pytest.mark.torch
@pytest.mark.parametrize("picker", NAMED)
def test_default_names_can_be_imported(picker: str) -> None:
    """A default names a class that is there."""
    assert isinstance(resolve_obj_by_qualname(getattr(Complete, picker)()), type)


@pytest.mark.torch
def test_the_default_kv_cache_builder_can_be_imported() -> None:
    """The picker of the second version has a default too."""
    assert isinstance(resolve_obj_by_qualname(Complete.get_kv_cache_config_builder_cls(object())), type)


@pytest.mark.parametrize(
    ("picker", "arguments"),
    [
        ("get_punica_wrapper", ()),
        ("get_static_graph_wrapper_cls", ()),
        ("get_mla_prefill_backend_cls", (object(),)),
    ],
)
def test_components_that_do_not_exist_are_not_supported(picker: str, arguments: tuple[object, ...]) -> None:
    """A picker without a component says so, instead of naming an empty class."""
    with pytest.raises(NotSupported, match=f"Complete does not support {picker}"):
        getattr(Complete, picker)(*arguments)


class TestVisionEncoders:
    """The attention backend for vision encoders."""

    def test_the_default_is_the_first_that_is_supported(self) -> None:
        """Without a wish it is torch's SDPA, which runs everywhere."""
        assert Complete.get_vit_attn_backend(64, object()) is AttentionBackendEnum.TORCH_SDPA

    def test_a_supported_wish_is_granted(self) -> None:
        """A platform that supports more needs to say no more than that."""

        class Flash(Complete):
            @classmethod
            def get_supported_vit_attn_backends(cls) -> list[AttentionBackendEnum]:
                return [AttentionBackendEnum.FLASH_ATTN, AttentionBackendEnum.TORCH_SDPA]

        wish = AttentionBackendEnum.TORCH_SDPA
        assert Flash.get_vit_attn_backend(64, object()) is AttentionBackendEnum.FLASH_ATTN
        assert Flash.get_vit_attn_backend(64, object(), backend=wish) is wish

    def test_another_wish_is_refused(self) -> None:
        """Never another backend without a word; the error names what there is."""
        with pytest.raises(
            ValueError, match="FLASHINFER is not supported .* on dummy; supported: TORCH_SDPA"
        ):
            Complete.get_vit_attn_backend(64, object(), backend=AttentionBackendEnum.FLASHINFER)

    def test_a_platform_without_any_says_so(self) -> None:
        """An empty list makes the question unanswerable, which is not the caller's fault."""

        class Blind(Complete):
            @classmethod
            def get_supported_vit_attn_backends(cls) -> list[AttentionBackendEnum]:
                return []

        with pytest.raises(NotSupported, match="get_vit_attn_backend"):
            Blind.get_vit_attn_backend(64, object())
        with pytest.raises(ValueError, match="supported: none"):
            Blind.get_vit_attn_backend(64, object(), backend=AttentionBackendEnum.TORCH_SDPA)


def test_version_two_is_asked_of_the_type() -> None:
    """The instance would answer any name; only a class that defines the hook has it."""

    class Old:
        def __getattr__(self, name: str) -> object:
            return lambda config: name

    assert has_pickers_v2(Complete())
    assert not has_pickers_v2(Old())  # type: ignore[arg-type]
