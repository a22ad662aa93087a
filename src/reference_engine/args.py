"""The command line: options, and the plugins and the hook that may add to them."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import attrs

from platform_abc.config import CACHE_DTYPES, AttentionBackendEnum, CUDAGraphMode
from platform_abc.config_values import MODEL_DTYPES
from platform_abc.timeline import Process
from reference_engine.child import HOOK_SECONDS
from reference_engine.hook_log import named
from reference_engine.hook_watch import HookWatch, naming_hook

EXECUTORS: Final[Mapping[str, str]] = {
    "in-process": "uni",
    "processes": "mp",
    "ray": "ray",
    "uni": "uni",
    "mp": "mp",
}
"""Spelling of an executor -> `parallel_config.distributed_executor_backend`."""

_ADDED: Final = "options_of_plugins"


@attrs.define(kw_only=True)
class EngineArgs:
    """What a user can say, with defaults; `create_engine_config` turns it into a configuration.

    Args:
        model: a Hugging Face folder, or `toy`: a Llama of the sizes given here, with seeded weights.
        max_model_len: longest sequence, in tokens; None takes 256, or what the folder allows up to 2048.
        layer_kinds: what each layer of the toy is, `attention` or `mamba`; empty means attention everywhere.
        load_format: `auto` reads the folder's weights, where there are any; `dummy` makes seeded ones.
        lora_modules: adapter folders; a request names one by its place in this list, from 1.
        block_size: tokens of a KV-cache block; None lets the attention backends choose.
        attention_backend: name of a backend; None lets the platform choose.
        quantization: name of a registered method; None for none.
        additional_config: options for the platform alone.
        num_cpu_blocks: blocks on the host for requests that give their place to others; None computes their
            tokens again.
        executor: `in-process` runs everything in this process, `processes` engine core and workers in their
            own, `ray` the workers as actors of Ray. `uni` and `mp` are other spellings of the first two.
        device_ids: the device of each worker, as entries of the platform's device variable; None takes them in
            their order.
        hook_timeout: seconds that a hook may take before the engine ends with an error that names it.
        hard_fail_environ: refuse unknown variables instead of warning about them.
    """

    model: str = "toy"
    dtype: str = "auto"
    seed: int = 0
    max_model_len: int | None = None
    hidden_size: int = 64
    num_layers: int = 2
    num_attention_heads: int = 4
    num_kv_heads: int = 2
    vocab_size: int = 128
    sliding_window: int | None = None
    layer_kinds: list[str] = attrs.field(factory=list[str])
    load_format: str = "auto"
    block_size: int | None = None
    kv_cache_dtype: str = "auto"
    gpu_memory_utilization: float = 0.9
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = 64
    num_cpu_blocks: int | None = None
    max_num_seqs: int = 8
    max_num_batched_tokens: int | None = None
    enable_chunked_prefill: bool = True
    tensor_parallel_size: int = 1
    executor: str = "in-process"
    hook_timeout: float = HOOK_SECONDS
    worker_cls: str = "auto"
    device_ids: list[str] | None = None
    attention_backend: str | None = None
    quantization: str | None = None
    enable_lora: bool = False
    max_loras: int = 1
    max_lora_rank: int = 8
    lora_modules: list[str] = attrs.field(factory=list[str])
    cudagraph_mode: str = "NONE"
    compilation_mode: str = "NONE"
    custom_ops: list[str] = attrs.field(factory=list[str])
    additional_config: dict[str, Any] | None = attrs.field(factory=dict[str, Any])
    hard_fail_environ: bool = False

    @classmethod
    def from_cli_args(cls, namespace: argparse.Namespace) -> EngineArgs:
        """Make the arguments from what the parser returned.

        Options that plugins or the platform have added are for the platform: those that were set go into
        `additional_config`, under their names.
        """
        values: Mapping[str, Any] = vars(namespace)
        args = cls(**{f.name: values[f.name] for f in attrs.fields(cls) if f.name in values})
        added: Sequence[str] = values.get(_ADDED, ())
        own = {name: values[name] for name in added if values.get(name) is not None}
        if own:
            args.additional_config = {**own, **(args.additional_config or {})}
        return args


def _json_object(text: str) -> dict[str, Any]:
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a JSON object such as '{{\"a\": 1}}': {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r}")
    return cast("dict[str, Any]", value)


def positive(text: str) -> int:
    """Read a whole number of at least 1, for argparse.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _entries(text: str) -> list[str]:
    entries = [entry.strip() for entry in text.split(",")]
    if not all(entries):
        raise argparse.ArgumentTypeError(f"expected devices separated by commas, got {text!r}")
    return entries


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return value


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the engine, with what plugins and the platform add to it.

    Loads the general plugins, then hands the finished parser to the platform.
    """
    parser = argparse.ArgumentParser(prog="reference_engine", description="A small engine over any platform.")
    add_cli_args(parser)
    return parser


def add_cli_args(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the engine's options to a parser, load the general plugins, and let the platform change it.

    Args:
        parser: the parser; changed and returned.

    Raises:
        ResolutionError: no platform can be chosen.
    """
    import platforms

    plain = EngineArgs()
    add = parser.add_argument
    add("--model", default=plain.model, help="folder or name of the model")
    add("--dtype", default=plain.dtype, choices=MODEL_DTYPES, help="dtype of weights and activations")
    add("--seed", type=int, default=plain.seed, help="seed of weights and draws")
    for name in ("max-model-len", "hidden-size", "num-layers", "num-attention-heads", "num-kv-heads"):
        add(f"--{name}", type=positive, default=getattr(plain, name.replace("-", "_")))
    add("--vocab-size", type=positive, default=plain.vocab_size)
    add("--block-size", type=positive, default=None, help="tokens of a KV-cache block")
    add("--kv-cache-dtype", default=plain.kv_cache_dtype, choices=CACHE_DTYPES)
    add("--gpu-memory-utilization", type=float, default=plain.gpu_memory_utilization)
    add("--num-gpu-blocks-override", type=positive, default=plain.num_gpu_blocks_override)
    add("--num-cpu-blocks", type=positive, default=None, help="blocks on the host for requests that wait")
    add("--max-num-seqs", type=positive, default=plain.max_num_seqs)
    add("--max-num-batched-tokens", type=positive, default=None, help="tokens of one step")
    add("--tensor-parallel-size", type=positive, default=plain.tensor_parallel_size)
    add("--executor", default=plain.executor, choices=EXECUTORS, metavar="{in-process,processes,ray}")
    add("--hook-timeout", type=_seconds, default=plain.hook_timeout, help="seconds that a hook may take")
    add("--device-ids", type=_entries, default=None, metavar="0,1", help="the device of each worker")
    add("--worker-cls", default=plain.worker_cls, help="dotted name; auto lets the platform choose")
    add("--attention-backend", default=None, choices=[backend.name for backend in AttentionBackendEnum])
    add("--quantization", default=None, help="name of a registered quantization method")
    add("--enable-lora", action="store_true")
    add(
        "--lora-modules",
        action="extend",
        nargs="+",
        default=[],
        metavar="DIR",
        help="adapters; 1 is the first",
    )
    add("--max-loras", type=positive, default=plain.max_loras, help="different adapters in one step")
    add("--max-lora-rank", type=positive, default=plain.max_lora_rank)
    add("--load-format", default=plain.load_format, help="auto, or dummy for seeded weights")
    add("--cudagraph-mode", default=plain.cudagraph_mode, choices=[mode.name for mode in CUDAGraphMode])
    add("--additional-config", type=_json_object, default={}, help="JSON object for the platform alone")
    ours = {action.dest for action in parser._actions}
    platforms.load_general_plugins()
    _let_platform_extend(parser)
    added = [action.dest for action in parser._actions if action.dest not in ours]
    parser.set_defaults(**{_ADDED: added})
    return parser


def _let_platform_extend(parser: argparse.ArgumentParser) -> None:
    from platforms import current_platform

    watch = HookWatch(Process.FRONT_END.value, HOOK_SECONDS, lambda text: None, interrupts=True)
    try:
        with watch.watching(), naming_hook(), named("pre_register_and_update", current_platform):
            current_platform.pre_register_and_update(parser)
    finally:
        watch.close()


def parse_args(argv: Sequence[str] | None = None) -> EngineArgs:
    """Parse a command line; None takes the process's own."""
    return EngineArgs.from_cli_args(make_parser().parse_args(argv))
