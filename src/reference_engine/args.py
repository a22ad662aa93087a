"""The command line: options, and the plugins and the hook that may add to them."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import attrs

from platform_abc.config import CACHE_DTYPES, AttentionBackendEnum, CUDAGraphMode
from platform_abc.config_values import MODEL_DTYPES
from platform_abc.hooks import trace
from platform_abc.hooks.calls import named
from platform_abc.hooks.watch import HookWatch
from platform_abc.timeline import Process
from reference_engine.processes.child_start import HOOK_SECONDS

T = TypeVar("T")

EXECUTORS: Final[Mapping[str, str]] = {
    "in-process": "uni",
    "processes": "mp",
    "ray": "ray",
    "uni": "uni",
    "mp": "mp",
}
"""Spelling of an executor -> `parallel_config.distributed_executor_backend`."""

_ADDED: Final = "options_of_plugins"


def _json_object(text: str) -> dict[str, Any]:
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a JSON object such as '{{\"a\": 1}}': {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r}")
    return cast("dict[str, Any]", value)


def positive(text: str) -> int:
    """Read a whole number of at least 1, and of a size that torch can count, for argparse.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and 1 <= int(text) < 1 << 31):
        raise argparse.ArgumentTypeError(
            f"expected a whole number of at least 1 and below 2**31, got {text!r:.80}"
        )
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


def _option(default: T, **how: Any) -> T:
    """Return a field that is an option of the command line too.

    Args:
        default: its value where the user says nothing.
        **how: what argparse is told of it.
    """
    return attrs.field(default=default, metadata=how)


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

    model: str = _option("toy", help="folder or name of the model")
    dtype: str = _option("auto", choices=MODEL_DTYPES, help="dtype of weights and activations")
    seed: int = _option(0, type=int, help="seed of weights and draws")
    max_model_len: int | None = _option(None, type=positive, help="longest sequence, in tokens")
    hidden_size: int = _option(64, type=positive)
    num_layers: int = _option(2, type=positive)
    num_attention_heads: int = _option(4, type=positive)
    num_kv_heads: int = _option(2, type=positive)
    vocab_size: int = _option(128, type=positive)
    sliding_window: int | None = None
    layer_kinds: list[str] = attrs.field(factory=list[str])
    load_format: str = _option("auto", help="auto, or dummy for seeded weights")
    block_size: int | None = _option(None, type=positive, help="tokens of a KV-cache block")
    kv_cache_dtype: str = _option("auto", choices=CACHE_DTYPES)
    gpu_memory_utilization: float = _option(0.9, type=float)
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = _option(64, type=positive)
    num_cpu_blocks: int | None = _option(
        None, type=positive, help="blocks on the host for requests that wait"
    )
    max_num_seqs: int = _option(8, type=positive)
    max_num_batched_tokens: int | None = _option(None, type=positive, help="tokens of one step")
    enable_chunked_prefill: bool = True
    tensor_parallel_size: int = _option(1, type=positive)
    executor: str = _option("in-process", choices=EXECUTORS, metavar="{in-process,processes,ray}")
    hook_timeout: float = _option(HOOK_SECONDS, type=_seconds, help="seconds that a hook may take")
    worker_cls: str = _option("auto", help="dotted name; auto lets the platform choose")
    device_ids: list[str] | None = attrs.field(
        default=None,
        metadata={"type": _entries, "metavar": "0,1", "help": "the device of each worker"},
    )
    attention_backend: str | None = _option(None, choices=list(AttentionBackendEnum.__members__))
    quantization: str | None = _option(None, help="name of a registered quantization method")
    enable_lora: bool = _option(False, action="store_true")
    max_loras: int = _option(1, type=positive, help="different adapters in one step")
    max_lora_rank: int = _option(8, type=positive)
    lora_modules: list[str] = attrs.field(
        factory=list[str],
        metadata={"action": "extend", "nargs": "+", "metavar": "DIR", "help": "adapters; 1 is the first"},
    )
    cudagraph_mode: str = _option("NONE", choices=list(CUDAGraphMode.__members__))
    compilation_mode: str = "NONE"
    custom_ops: list[str] = attrs.field(factory=list[str])
    additional_config: dict[str, Any] | None = attrs.field(
        factory=dict[str, Any],
        metadata={"type": _json_object, "help": "JSON object for the platform alone"},
    )
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


def add_cli_args(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the engine's options to a parser, load the general plugins, and let the platform change it.

    Args:
        parser: the parser; changed and returned.

    Raises:
        ResolutionError: no platform can be chosen.
    """
    import platforms

    plain = EngineArgs()
    for field in attrs.fields(EngineArgs):
        if field.metadata:
            name = "--" + field.name.replace("_", "-")
            parser.add_argument(name, default=getattr(plain, field.name), **field.metadata)
    ours = {action.dest for action in parser._actions}
    platforms.load_general_plugins()
    trace.step("general plugins")
    from platforms import current_platform

    watch = HookWatch(
        Process.FRONT_END.value,
        HOOK_SECONDS,
        platforms.resolved_platform,
        lambda text: None,
        interrupts=True,
    )
    try:
        with watch.watching(), watch.naming(), named("pre_register_and_update", current_platform):
            current_platform.pre_register_and_update(parser)
    finally:
        watch.close()
    added = [action.dest for action in parser._actions if action.dest not in ours]
    parser.set_defaults(**{_ADDED: added})
    return parser
