"""The command line: generates for prompts, and shows which hook ran where and when."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from platform_abc.foreign import describe

if TYPE_CHECKING:
    from reference_engine.cli_text import Text
    from reference_engine.scheduler import Result

logger = logging.getLogger(__name__)

PROG = "python -m reference_engine"
FAILED, INTERRUPTED = 1, 130
"""Exit statuses, beside argparse's 2 for what it refuses itself."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: without the program's name; None takes the process's own.

    Returns:
        The exit status.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        with contextlib.ExitStack() as until_the_end:
            namespace = _parser(given, until_the_end).parse_args(given)
            status: int = namespace.run(namespace)
            sys.stdout.flush()
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough; nothing is to be written when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        logger.debug("the command failed", exc_info=True)
        _say(f"error: {one_line(error)}")
        return FAILED
    return status


def _parser(given: Sequence[str], until_the_end: contextlib.ExitStack) -> argparse.ArgumentParser:
    """Make the parser; the platform and the plugins are asked for the command that needs them only.

    Args:
        given: the command line.
        until_the_end: gets the trace, if one is wanted: the platform's hook for the parser belongs to it.
    """
    parser = argparse.ArgumentParser(prog=PROG, description="A small engine over any platform.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    generate = commands.add_parser(
        "generate",
        help="generate tokens for prompts",
        description="Generate greedily for one or more prompts. Results go to stdout, in their order; progress to "
        "stderr.",
        usage=f"{PROG} generate [OPTION]... --prompt TEXT",  # the whole list would hide what was wrong
    )
    devices = commands.add_parser(
        "devices",
        help="show the platform and its devices",
        description="Show what the platform says of itself, of its devices and of this machine.",
    )
    command = next((word for word in given if not word.startswith("-")), "")
    if command == "generate":
        if _wants_trace(given):
            import platforms
            from platform_abc.hooks import trace

            until_the_end.enter_context(
                trace.front_end(platforms.current_platform, platforms.resolution_report())
            )
        _add_generate(generate)
    devices.set_defaults(run=_devices)
    devices.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _wants_trace(given: Sequence[str]) -> bool:
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--trace-hooks", action="store_true")
    with contextlib.suppress(argparse.ArgumentError):  # which the whole parser tells
        return bool(parser.parse_known_args(given)[0].trace_hooks)
    return False


def _add_generate(parser: argparse.ArgumentParser) -> None:
    from reference_engine.args import add_cli_args, positive

    add = parser.add_argument
    add("--prompt", dest="prompts", action="append", metavar="TEXT", help="a text; may be repeated")
    add(
        "--prompt-ids", dest="prompts", action="append", type=_ids, metavar="1,2,3", help="tokens of a prompt"
    )
    add("--max-tokens", type=positive, default=16, help="tokens to generate for each prompt")
    add("--lora-id", type=int, default=0, help="number of the adapter for all prompts; 0 for none")
    add("--trace-hooks", action="store_true", help="show which hook ran when, in which process")
    add("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_generate)
    add_cli_args(parser)


def _ids(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and part.isascii() and len(part) < 20 for part in parts):
        raise argparse.ArgumentTypeError(f"expected token numbers such as 1,2,3, got {text!r:.80}")
    return [int(part) for part in parts]


def one_line(error: BaseException) -> str:
    """Return what an exception says, without traceback and line breaks; its kind where it says nothing."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - a plugin's exception, whose text cannot be read
        return describe(error)
    text = said.partition("\nTraceback (most recent call last)")[0].partition("; it was here:")[0]
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    text = " ".join(" ".join([text, *(f"({note})" for note in notes)]).split())
    plain = isinstance(error, (ValueError, OSError, RuntimeError, ImportError))
    return text if text and plain else f"{type(error).__name__}: {text}".removesuffix(": ")


def _out(text: str) -> None:
    sys.stdout.write(text + "\n")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"reference_engine: {text}\n")
        sys.stderr.flush()


def _generate(namespace: argparse.Namespace) -> int:
    from platform_abc.requests import SamplingParams
    from reference_engine.args import EngineArgs
    from reference_engine.cli_table import print_trace, require_rich
    from reference_engine.cli_text import Bytes, text_of
    from reference_engine.engine import Engine

    args = EngineArgs.from_cli_args(namespace)
    given: Sequence[str | list[int]] = namespace.prompts or ()
    if not given:
        raise ValueError("expected at least one --prompt or --prompt-ids")
    if namespace.trace_hooks:
        require_rich()
    text = text_of(args.model) if any(isinstance(one, str) for one in given) else Bytes()
    prompts = [text.encode(one) if isinstance(one, str) else one for one in given]
    done = itertools.count(1)

    def progress(result: Result) -> None:
        what = f"error: {result.error}" if result.error else f"{len(result.tokens)} tokens"
        _say(f"{next(done)} of {len(prompts)} prompts done: {what}")

    start = time.perf_counter()
    _say(f"starting: executor {args.executor}, {args.tensor_parallel_size} worker(s)")
    with Engine(args, traced=namespace.trace_hooks) as engine:
        started = time.perf_counter()
        _say(f"started in {started - start:.1f} s")
        results = engine.generate(
            prompts,
            SamplingParams(max_tokens=namespace.max_tokens, temperature=0.0),
            lora_ids=[namespace.lora_id] * len(prompts),
            progress=progress,
        )
        seconds = time.perf_counter() - started
        tokens = sum(len(one.tokens) for one in results)
        _say(f"{tokens} tokens in {seconds:.2f} s, {tokens / seconds:.1f} tokens/s")
        _print_results(namespace, prompts, results, text)
        if namespace.trace_hooks:
            print_trace(engine.moments())
    return FAILED if any(one.error for one in results) else 0


def _print_results(
    namespace: argparse.Namespace,
    prompts: Sequence[Sequence[int]],
    results: Sequence[Result],
    text: Text,
) -> None:
    entries: list[dict[str, Any]] = []
    for said, prompt, result in zip(namespace.prompts, prompts, results, strict=True):
        entry: dict[str, Any] = {"prompt_ids": list(prompt), "token_ids": list(result.tokens)}
        if isinstance(said, str):
            entry |= {"prompt": said, "text": text.decode(result.tokens)}
        entries.append(entry | {"error": result.error or None})
    if namespace.json:
        _out(json.dumps(entries))
        return
    for entry in entries:
        if entry["error"] is None:
            _out(entry.get("text", ",".join(map(str, entry["token_ids"]))))


def _devices(namespace: argparse.Namespace) -> int:
    from platforms.device_facts import facts, lines

    found = facts()
    _out(json.dumps(found) if namespace.json else "\n".join(lines(found)))
    return 0
