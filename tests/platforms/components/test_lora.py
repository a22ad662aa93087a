"""Facts of the LoRA wrapper in plain torch, and of what both wrappers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from platform_abc.components.lora import LoRAMapping
from platforms.components.lora_torch import TorchPunicaWrapper
from tests.platforms.components.kernel_cases import LORA_BODIES

HOST = torch.device("cpu")


@pytest.mark.parametrize("name", LORA_BODIES)
def test_adapters_equal_dense_products(name: str) -> None:
    """The same cases as the kernels have, against products in float64, token by token."""
    LORA_BODIES[name](HOST, kind=TorchPunicaWrapper)


class Drifting(TorchPunicaWrapper):
    """Adds a little to whatever it was asked for."""

    def add_shrink(self, y: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        return super().add_shrink(y, *args, **options).add_(0.01)

    def add_expand(self, y: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        return super().add_expand(y, *args, **options).add_(0.01)

    def add_lora_linear(self, y: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        return super().add_lora_linear(y, *args, **options).add_(0.05)

    def add_lora_embedding(self, y: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        return super().add_lora_embedding(y, *args, **options).add_(0.01)

    def add_lora_logits(self, y: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        return super().add_lora_logits(y, *args, **options).add_(0.01)


@pytest.mark.parametrize("name", [name for name in LORA_BODIES if name != "linear no token"])
def test_a_wrapper_that_is_a_little_off_is_told_by_every_case(name: str) -> None:
    """Each of them can fail; only that of no token has nothing to be off in."""
    with pytest.raises(AssertionError):
        LORA_BODIES[name](HOST, kind=Drifting)


def wrapper(mapping: list[int], *, inplace: bool | None = True, ids: Any = (7, 9)) -> TorchPunicaWrapper:
    made = TorchPunicaWrapper(4, 2, HOST, max_loras=2, can_update_inplace=inplace, later=1)
    made.update_metadata(LoRAMapping(index_mapping=mapping, prompt_mapping=mapping[:2]), ids, 2, 32)
    return made


def weights(slots: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(slots, 2, 3), torch.ones(slots, 4, 2)


@pytest.mark.parametrize("inplace", [True, False])
def test_a_platform_without_updates_in_place_gets_a_new_tensor(inplace: bool) -> None:
    """There `y` keeps its values, for every method; elsewhere the answer is `y` itself."""
    a, b = weights()
    made, x = wrapper([7, 0], inplace=inplace), torch.ones(2, 3)
    low = torch.zeros(1, 2, 2)
    calls: list[tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]] = [
        (low, lambda y: made.add_shrink(y, x, (a,), 1.0)),
        (torch.zeros(2, 4), lambda y: made.add_expand(y, torch.ones(1, 2, 2), (b,), (4,))),
        (torch.zeros(2, 4), lambda y: made.add_lora_embedding(y, torch.ones(2, 2), b)),
        (torch.zeros(2, 4), lambda y: made.add_lora_linear(y, x, (a,), (b,), 1.0, (4,))),
        (torch.zeros(2, 4), lambda y: made.add_lora_logits(y, x, a, b, 1.0)),
    ]
    for y, call in calls:
        answer = call(y)
        assert (answer is y) is inplace
        assert bool(y.any()) is inplace
        assert answer.view(-1, answer.shape[-1])[0].all()
        assert not answer.view(-1, answer.shape[-1])[1].any()


def test_the_platform_says_whether_tensors_change_in_place() -> None:
    """Where the constructor is not told, the current platform is asked; the CPU says yes."""
    assert wrapper([7], inplace=None).inplace is True


def test_rows_beyond_the_mapping_use_the_base_model() -> None:
    """As do those of a later step that mixes other adapters: nothing is left of the last one."""
    a, b = weights()
    made = wrapper([7, 9, 7, 7])
    made.update_metadata(LoRAMapping(index_mapping=[0, 9], prompt_mapping=[]), (7, 9), 2, 32)
    y = made.add_lora_linear(torch.zeros(4, 4), torch.ones(4, 3), (a,), (b,), 1.0, (4,))
    assert y.any(1).tolist() == [False, True, False, False]
    assert made.tensor(4).tolist() == [-1, 1, -1, -1]
    assert made.tensor(2, logits=True).tolist() == [-1, -1]


def test_rows_in_several_dimensions_count_one_by_one() -> None:
    """Also where they do not lie as the rows of one matrix."""
    a, b = weights()
    made = wrapper([7, 0, 9, 0])
    wide = torch.zeros(2, 2, 4).transpose(0, 1)
    y = made.add_lora_linear(wide, torch.ones(2, 2, 3), (a,), (b,), 1.0, (4,))
    assert y is wide
    assert y.any(-1).tolist() == [[True, False], [True, False]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, a, b: m.tensor(5), "5 rows in a step, but the wrapper was made for 4"),
        (lambda m, a, b: m.groups(9), "9 rows"),
        (lambda m, a, b: wrapper([8]), r"adapters \[8\] are in no slot"),
        (lambda m, a, b: wrapper([7] * 5), "5 tokens in a step"),
        (
            lambda m, a, b: m.update_metadata(
                LoRAMapping(index_mapping=[], prompt_mapping=[7] * 5), (7,), 2, 1
            ),
            "5 rows of logits",
        ),
        (
            lambda m, a, b: m.add_lora_linear(torch.ones(2, 4), torch.ones(2, 3), (a,), (b,), 1.0, (3,)),
            r"slices of \[4\] outputs, .* got \[3\]",
        ),
        (
            lambda m, a, b: m.add_expand(torch.ones(2, 4), torch.ones(1, 2, 2), (b,), (4,), offset_start=1),
            "from column 1 on do not fit 4",
        ),
        (
            lambda m, a, b: m.add_lora_logits(torch.ones(2, 4), torch.ones(2, 3), a[:1], b, 1.0),
            "uses slot 1, but the weights have 1",
        ),
        (
            lambda m, a, b: m.add_lora_linear(
                torch.ones(2, 4), torch.ones(2, 3), (a,), (b,), 1.0, (4,), buffer=torch.ones(1, 2, 3)
            ),
            r"shape \(1, 2, 2\), got \(1, 2, 3\)",
        ),
        (
            lambda m, a, b: m.add_lora_linear(torch.ones(2, 4), torch.ones(2, 5), (a,), (b,), 1.0, (4,)),
            r"weights \[S, R, inputs\] .* got \(2, 5\)",
        ),
        (
            lambda m, a, b: m.add_lora_linear(torch.ones(3, 4), torch.ones(2, 3), (a,), (b,), 1.0, (4,)),
            "for outputs of 3 rows",
        ),
        (lambda m, a, b: m.add_shrink(torch.ones(1, 2, 3), torch.ones(2, 3), (a,), 1.0), r"and \(1, 2, 3\)"),
        (
            lambda m, a, b: m.add_expand(torch.ones(2, 4), torch.ones(1, 3, 2), (b,), (4,)),
            r"1 products \[T, R\] .* got \(1, 3, 2\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    call: Callable[[TorchPunicaWrapper, torch.Tensor, torch.Tensor], object], message: str
) -> None:
    """The error names the numbers, before any memory is touched."""
    with pytest.raises(ValueError, match=message):
        call(wrapper([7, 9]), *weights())
