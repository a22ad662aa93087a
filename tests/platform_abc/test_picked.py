"""Facts about what a picker names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from platform_abc.components.compile import DefaultPassManager, PassManager
from platform_abc.errors import MissingModule, MissingName
from platform_abc.picked import resolve_picked

Use = Callable[..., Any]
WHO = "get_pass_manager_cls of ChangedPlatform"


def test_a_class_of_the_right_base_is_returned(use_platform: Use) -> None:
    """The base itself may be abstract."""
    platform = use_platform()
    name = "platform_abc.components.compile.DefaultPassManager"
    assert resolve_picked("get_pass_manager_cls", name, PassManager, platform) is DefaultPassManager


@pytest.mark.parametrize("answer", ["", None, 3, DefaultPassManager])
def test_an_answer_that_is_no_name_is_told_with_the_picker(use_platform: Use, answer: object) -> None:
    """Nothing, a number or the class itself."""
    platform = use_platform()
    with pytest.raises(ValueError, match=f"{WHO} returned .*, expected the dotted name of a class"):
        resolve_picked("get_pass_manager_cls", answer, PassManager, platform)


@pytest.mark.parametrize("name", ["builtins.dict", "builtins.len"])
def test_a_name_of_something_else_is_told_with_the_picker_and_the_base(use_platform: Use, name: str) -> None:
    """A class of another base, or no class."""
    platform = use_platform()
    with pytest.raises(ValueError, match=f"{name}, from {WHO}, does not derive from .*compile.PassManager"):
        resolve_picked("get_pass_manager_cls", name, PassManager, platform)


@pytest.mark.parametrize(
    ("name", "error"), [("no_such_package_here.A", MissingModule), ("builtins.Nope", MissingName)]
)
def test_a_name_that_cannot_be_imported_keeps_its_error_and_notes_the_picker(
    use_platform: Use, name: str, error: type[ImportError]
) -> None:
    """The step that failed is in the error, who named it in a note."""
    platform = use_platform()
    with pytest.raises(error) as caught:
        resolve_picked("get_pass_manager_cls", name, PassManager, platform)
    assert caught.value.__notes__ == [f"named by {WHO}"]
