"""Facts about the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest

from reference_engine.args import EngineArgs, add_cli_args

Use = Callable[..., Any]


def parse_args(argv: Sequence[str]) -> EngineArgs:
    """Read a command line."""
    return EngineArgs.from_cli_args(add_cli_args(argparse.ArgumentParser()).parse_args(argv))


def test_defaults_of_the_parser_are_those_of_the_arguments(use_platform: Use) -> None:
    """An empty command line says nothing that the dataclass does not say."""
    use_platform()
    assert parse_args([]) == EngineArgs()


def test_options_reach_their_arguments(use_platform: Use) -> None:
    """Names, numbers, flags and JSON."""
    use_platform()
    args = parse_args(
        [
            "--block-size",
            "32",
            "--enable-lora",
            "--additional-config",
            '{"probe": {"deep": 1}}',
            "--executor",
            "mp",
        ]
    )
    assert args.block_size == 32
    assert args.enable_lora
    assert args.additional_config == {"probe": {"deep": 1}}
    assert args.executor == "mp"


@pytest.mark.parametrize(
    "argv",
    [
        ["--block-size", "0"],
        ["--block-size", "-16"],
        ["--block-size", "x"],
        ["--attention-backend", "NO_SUCH"],
        ["--kv-cache-dtype", "float3"],
        ["--additional-config", "[1]"],
        ["--additional-config", "{"],
        ["--no-such"],
    ],
)
def test_wrong_options_end_with_status_2_and_a_line(
    use_platform: Use, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    """argparse's own way: usage, one line, status 2."""
    use_platform()
    with pytest.raises(SystemExit) as caught:
        parse_args(argv)
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_platform_gets_the_finished_parser_and_may_extend_it(use_platform: Use) -> None:
    """It can add an option and change a default."""

    def extend(_cls: type, parser: argparse.ArgumentParser | None = None) -> None:
        if parser is not None:
            assert any("--block-size" in action.option_strings for action in parser._actions)
            parser.add_argument("--vendor-flag", type=int, default=3)
            parser.set_defaults(seed=42)

    use_platform(pre_register_and_update=extend)
    namespace = add_cli_args(argparse.ArgumentParser()).parse_args(["--vendor-flag", "4"])
    assert namespace.vendor_flag == 4
    assert EngineArgs.from_cli_args(namespace).seed == 42
    assert "vendor_flag" not in {field.name for field in attrs.fields(EngineArgs)}


def test_a_hook_that_fails_on_the_parser_is_named(use_platform: Use) -> None:
    """The exception keeps its type and gets a note."""

    def fails(_cls: type, parser: object = None) -> None:
        raise RuntimeError("seeded")

    use_platform(pre_register_and_update=fails)
    with pytest.raises(RuntimeError, match="seeded") as caught:
        add_cli_args(argparse.ArgumentParser())
    assert "pre_register_and_update of ChangedPlatform" in caught.value.__notes__[0]
