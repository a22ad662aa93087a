"""Facts about the command line: results on stdout, all else on stderr, one line for what is wrong."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from platform_abc.hooks import trace
from platform_abc.hooks.watch import EngineFailed
from platform_abc.timeline import TIMELINE
from platform_abc.timeline_trace import Seen, violations
from reference_engine import cli, cli_table, cli_text

Use = Callable[..., Any]


@pytest.fixture(autouse=True)
def _kernels_again() -> Iterator[None]:
    """Let each engine of this process import its custom ops, as the first one of a process does."""
    sys.modules.pop("reference_model.custom_ops", None)
    yield


def test_tokens_go_to_stdout_and_progress_to_stderr(
    use_platform: Use, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each prompt, in their order; texts first."""
    use_platform()
    argv = [
        "generate",
        "--dtype",
        "float32",
        "--max-tokens",
        "3",
        "--prompt-ids",
        "1,2,3",
        "--prompt-ids",
        "4",
    ]
    assert cli.main(argv) == 0
    out, err = capsys.readouterr()
    lines = [line.split(",") for line in out.splitlines()]
    assert [len(line) for line in lines] == [3, 3]
    assert all(token.isdecimal() for line in lines for token in line)
    assert "2 of 2 prompts done: 3 tokens" in err
    assert cli.main([*argv[:-2], "--json", "--prompt", "hi", *argv[-2:]]) == 0
    first, text, last = json.loads(capsys.readouterr().out)
    assert last["token_ids"] == list(map(int, lines[1]))
    assert text["prompt"] == "hi"
    assert text["prompt_ids"] == [104, 105]
    assert isinstance(text["text"], str)
    assert first == {"prompt_ids": [1, 2, 3], "token_ids": list(map(int, lines[0])), "error": None}


def test_the_table_shows_each_process_and_what_hooks_changed(
    use_platform: Use, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, so that results can go on through a pipe."""
    pytest.importorskip("rich")
    use_platform()
    assert cli.main(["generate", "--prompt-ids", "1", "--max-tokens", "1", "--trace-hooks"]) == 0
    out, err = capsys.readouterr()
    assert out.strip().isdecimal()
    assert "front end" in err
    assert "update_block_size_for_backend" in err
    assert "parallel_config.worker_cls" in err


@pytest.mark.parametrize("option", ["--trace-hooks", "--trace"])
def test_the_trace_begins_with_the_first_hook(
    use_platform: Use, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """The hook that gets the parser is in it, and the whole is the documented timeline; then it ends."""
    pytest.importorskip("rich")
    platform = use_platform()
    plain, seen = type(platform), list[Seen]()
    monkeypatch.setattr(cli_table, "print_trace", lambda moments: seen.extend(trace.as_seen(moments)))
    assert cli.main(["generate", "--prompt-ids", "1", "--max-tokens", "1", option]) == 0
    assert violations(seen, "one-process") == []
    names = [one.name for one in seen]
    hooks = [name for name in names if name in {row.name for row in TIMELINE if row.kind == "hook"}]
    assert hooks[0] == "pre_register_and_update"
    assert names.count("pre_register_and_update") == 2
    assert names.index("making of the platform object") < names.index("general plugins")
    assert names.index("general plugins") < names.index("pre_register_and_update")
    assert (type(platform), trace.active) == (plain, None)


def test_a_failing_command_line_ends_the_trace_too(
    use_platform: Use, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the hook for the parser raises; its error is one line."""

    def fails(_cls: type, parser: argparse.ArgumentParser | None = None) -> None:
        raise ValueError("no option today")

    use_platform(pre_register_and_update=fails)
    assert cli.main(["generate", "--prompt-ids", "1", "--trace-hooks"]) == 1
    assert "error: no option today" in capsys.readouterr().err
    assert trace.active is None


@pytest.mark.parametrize(
    ("argv", "status", "text"),
    [
        ([], 2, "required: COMMAND"),
        (["generate"], 1, "expected at least one --prompt or --prompt-ids"),
        (["generate", "--prompt-ids", "1,,2"], 2, "expected token numbers such as 1,2,3, got '1,,2'"),
        (["generate", "--prompt-ids", "1", "--max-tokens", "0"], 2, "at least 1"),
        (["generate", "--prompt-ids", "9" * 5000], 2, "expected token numbers such as 1,2,3, got '999"),
        (["generate", "--prompt-ids", "1", "--max-tokens", "9" * 5000], 2, "at least 1 and below 2**31"),
        (["generate", "--prompt-ids", "1", "--block-size", "9" * 20], 2, "at least 1 and below 2**31"),
        (["generate", "--prompt-ids", "1", "--hook-timeout", "nan"], 2, "seconds above 0"),
        (["generate", "--prompt-ids", "1", "--executor", "thread"], 2, "invalid choice"),
        (["generate", "--prompt-ids", "1", "--attention-backend", "FLASH_ATTN"], 1, "FLASH_ATTN"),
        (["generate", "--prompt-ids", "1", "--quantization", "none_such"], 1, "none_such"),
        (["generate", "--prompt-ids", "99999"], 1, "token 99999 is beyond the vocabulary"),
        (["generate", "--prompt-ids", "1", "--lora-id", "3"], 1, "adapter 3"),
        (
            ["generate", "--prompt", "x", "--model", "/no/such"],
            1,
            "'/no/such': expected 'toy' or the folder of a model, and there is no such folder",
        ),
        (["generate", "--prompt-ids", "1", "--model", ""], 1, "there is no such folder"),
        (
            ["generate", "--prompt", "x", "--model", str(Path(__file__).parent)],
            1,
            "tokenizer.json, which does",
        ),
        (
            ["generate", "--prompt-ids", "1", "--lora-modules", "x"],
            1,
            "lora_modules = ['x']: expected enable_lora beside it",
        ),
        (
            ["generate", "--prompt-ids", "1", "--model", "/no/such", "--num-layers", "3"],
            1,
            "num_layers = 3: expected no size beside model = '/no/such'",
        ),
        (
            ["generate", "--prompt-ids", "1", "--tensor-parallel-size", "2"],
            1,
            "expected 1 with the in-process",
        ),
        (["no-such"], 2, "invalid choice"),
    ],
)
def test_bad_input_is_one_line_and_a_status(
    use_platform: Use, capsys: pytest.CaptureFixture[str], argv: list[str], status: int, text: str
) -> None:
    """2 where argparse refuses it, 1 where the engine does; never a traceback."""
    use_platform()
    try:
        ended = cli.main(argv)
    except SystemExit as error:
        ended = error.code
    out, err = capsys.readouterr()
    assert (ended, out) == (status, "")
    assert text in err
    assert "Traceback" not in err
    assert len(err.splitlines()) < 5
    if status == 1:
        assert len([line for line in err.splitlines() if "error: " in line]) == 1


def test_an_option_of_the_platform_reaches_its_config_hook(
    use_platform: Use, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is in `additional_config`; one that was not set is not."""
    from platforms.cpu import CpuPlatform

    seen: list[Any] = []

    def add(_cls: type, parser: argparse.ArgumentParser | None = None) -> None:
        if parser is not None:
            parser.add_argument("--chip-speed", type=int)
            parser.add_argument("--chip-name")

    def check(_cls: type, config: Any) -> None:
        seen.append(config.additional_config)
        CpuPlatform.check_and_update_config(config)

    use_platform(pre_register_and_update=add, check_and_update_config=check)
    assert cli.main(["generate", "--prompt-ids", "1", "--max-tokens", "1", "--chip-speed", "3"]) == 0
    assert seen == [{"chip_speed": 3}]
    assert capsys.readouterr().out


def test_devices_are_shown_as_lines_and_as_json(
    use_platform: Use, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the platform does not say is said to be unknown, and one fault hides nothing else."""

    def fails(_cls: type, device_id: int = 0) -> str:
        raise OSError("the driver is gone")

    use_platform(get_device_name=fails)
    assert cli.main(["devices", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["platform"]["kind"] == "CPU"
    assert found["machine"]["PCI bus ids"] == "not known"
    assert found["devices"][0]["name"] == "raises OSError: the driver is gone"
    assert found["devices"][0]["memory, bytes"] > 0
    assert cli.main(["devices"]) == 0
    assert "  static graphs: " in capsys.readouterr().out


def test_the_text_of_a_failure_is_one_line() -> None:
    """A traceback from another process, a stack and notes are cut or joined; an odd exception keeps its kind."""
    far = EngineFailed(
        "the worker process failed in 'start': KeyError: 'x'\nTraceback (most recent call last)\n  a"
    )
    assert cli.one_line(far) == "the worker process failed in 'start': KeyError: 'x'"
    hung = EngineFailed("the worker process hangs: hook a of B did not return; it was here:\n  File")
    assert cli.one_line(hung) == "the worker process hangs: hook a of B did not return"
    noted = KeyError("x")
    noted.add_note("raised in hook a")
    assert cli.one_line(noted) == "KeyError: 'x' (raised in hook a)"
    assert cli.one_line(AssertionError()) == "AssertionError"


def test_a_folder_with_a_tokenizer_has_its_own_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by the library where it is there; a missing library and a broken file are told."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    text = cli_text.text_of(str(tmp_path))
    assert text.encode("b a b") == [1, 0, 1]
    assert text.decode([1, 0]) == "b a"
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer\.json is no tokenizer"):
        cli_text.text_of(str(tmp_path))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(RuntimeError, match="pip install tokenizers"):
        cli_text.text_of(str(tmp_path))


def command(*argv: str) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-m", "reference_engine", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PLATFORM_ABC_TARGET_DEVICE": "cpu", "PYTHONPATH": path},
    )


def test_help_asks_no_platform() -> None:
    """It is there at once, and true."""
    process = command("--help")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "generate" in out
    assert "devices" in out


@pytest.mark.deep
@pytest.mark.parametrize("at", ["start", "step"])
def test_ctrl_c_ends_all_processes(at: str) -> None:
    """Status 130, a word, no traceback, and nothing runs on: while it starts, and while it generates."""
    process = command(
        *(
            "generate",
            "--executor",
            "processes",
            "--dtype",
            "float32",
            "--prompt-ids",
            "1",
            "--max-tokens",
            "900",
        ),
        *("--max-model-len", "1000"),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if ("starting" if at == "start" else "started in") in line:
            break
    time.sleep(0.5 if at == "step" else 4)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.strip().endswith("reference_engine: interrupted")
    assert "Traceback" not in err
    assert _running(process.pid) == []


def _running(group: int) -> list[str]:
    """Return the commands of a group's processes, once the interpreter's own helper had its moment to end."""
    until = time.monotonic() + 3
    while True:
        listed = subprocess.run(
            ["ps", "-ww", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True
        )
        rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
        left = [row[-1] for row in rows if row[0] == str(group) and not row[1].startswith("Z")]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.1)


def test_an_error_whose_text_cannot_be_read_has_a_line() -> None:
    """A plugin's exception may raise when it is printed; its type is still told."""
    from reference_engine.cli import one_line

    class Mute(RuntimeError):
        def __str__(self) -> str:
            raise KeyError("no text")

    assert one_line(Mute()) == "Mute: (its text cannot be read)"
