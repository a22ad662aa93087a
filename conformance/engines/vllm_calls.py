"""How the installed vLLM calls its platform, and harmless calls in exactly those shapes."""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from conformance.engines.arguments import plain
from conformance.engines.base import Arguments, EngineCall
from conformance.engines.source_scan import scan
from conformance.engines.vllm_configs import PLAIN, build
from conformance.engines.vllm_environment import package_folder
from conformance.engines.vllm_places import ASKED, is_common
from conformance.engines.vllm_platform import BASE, base_class
from conformance.isolation.forked import leave

_found: list[tuple[EngineCall, ...]] = []


def engine_calls() -> tuple[EngineCall, ...]:
    """Return every use of the platform in the installed vLLM's source; read once per process."""
    if not _found:
        _found.append(_scan())
    return _found[0]


def _scan() -> tuple[EngineCall, ...]:
    module, name = BASE
    base_file = "/".join(module.split(".")[1:]) + ".py"
    found = scan(package_folder(), common=is_common, skip=("platforms/",), base_classes={base_file: (name,)})
    return tuple(
        attrs.evolve(call, common=False) if call.common and call.member not in ASKED else call
        for call in found
    )


def start_scan() -> Callable[[], None]:
    """Read the source in a child process meanwhile; the returned function takes the result over.

    Importing the engine keeps one processor busy for seconds, so another one can read its source.
    """
    if _found or not hasattr(os, "fork") or sys.platform == "darwin":
        return lambda: None
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        try:
            with os.fdopen(send, "wb") as stream:
                pickle.dump(_scan(), stream)
        finally:
            leave(0)
    os.close(send)

    def take() -> None:
        with os.fdopen(receive, "rb") as stream:
            written = stream.read()
        os.waitpid(child, 0)
        if written and not _found:
            _found.append(pickle.loads(written))

    return take


# --------------------------------------------------------------------------------------- shapes


def shaped(member: str, values: Mapping[str, Any], case: str = "") -> Arguments:
    """Return a call of a member in the shape of the engine's own call.

    Args:
        member: the member's name.
        values: arguments by parameter name; a parameter without a value gets None.
        case: passed on.
    """
    names = parameters(member)
    calls = [call for call in engine_calls() if call.member == member and not call.is_read and call.exact]
    if not calls:
        required = [name for name in names if name in values]
        return Arguments(tuple(values[name] for name in required), {}, case)
    call = min(calls, key=lambda one: (not _takes(member, one), not one.common, "platforms/" in one.site))
    return Arguments(
        tuple(values.get(name) for name in names[: call.positional]),
        {name: values.get(name) for name in call.keywords},
        case,
    )


def _takes(member: str, call: EngineCall) -> bool:
    """Say whether the base itself takes a call; an engine may have another one for older overrides."""
    return _fits(member, Arguments((None,) * call.positional, dict.fromkeys(call.keywords)))


def parameters(member: str) -> list[str]:
    """Return the positional parameters of the installed base's member, without the bound one."""
    function = getattr(base_class(), member, None)
    if not callable(function):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [one.name for one in inspect.signature(function).parameters.values() if one.kind in kinds]
    return [name for name in names if name != "self"]


def arguments(member: str) -> Sequence[Arguments]:
    """Return harmless calls of a member; empty where none is known, or this version lacks the member."""
    if not hasattr(base_class(), member):
        return []
    make = _OWN.get(member)
    if make is not None:
        return make()
    return [one for one in plain(member) if _fits(member, one)]


def _fits(member: str, call: Arguments) -> bool:
    """Say whether the installed base takes a call; a version with other parameters gets none."""
    function = inspect.getattr_static(base_class(), member, None)
    function = getattr(function, "__func__", function)
    if not inspect.isfunction(function):
        return not call.args
    try:
        inspect.signature(function).bind("bound", *call.args, **call.kwargs)
    except TypeError:
        return False
    return True


def _config_call(member: str) -> Callable[[], list[Arguments]]:
    return lambda: [shaped(member, {"vllm_config": build(PLAIN)})]


def _with_and_without_parser() -> list[Arguments]:
    module = importlib.import_module("vllm.engine.arg_utils")
    parser = module.EngineArgs.add_cli_args(module.FlexibleArgumentParser())
    return [Arguments(), Arguments((parser,), case="with a parser")]


def _requests() -> list[Arguments]:
    """One request for text and one for an embedding, as the input processor hands them over."""
    vllm = importlib.import_module("vllm")
    inputs = {"type": "token", "prompt_token_ids": [1, 2, 3]}
    kinds = {
        "sampling": vllm.SamplingParams(max_tokens=8),
        "pooling": vllm.PoolingParams(),
    }
    return [
        shaped(
            "validate_request",
            {"processed_inputs": inputs, "prompt": inputs, "params": params},
            f"{kind} request",
        )
        for kind, params in kinds.items()
    ]


def _forward_context() -> list[Arguments]:
    modes = importlib.import_module("vllm.config").CUDAGraphMode
    return [
        shaped(
            "set_additional_forward_context",
            {"vllm_config": build(PLAIN), "num_tokens": 4, "cudagraph_runtime_mode": modes.NONE},
        )
    ]


def _latent_prefill() -> list[Arguments]:
    """The question for a model with latent attention; none where this version has no such question."""
    import torch

    try:
        module = importlib.import_module("vllm.v1.attention.backends.mla.prefill.selector")
        sizes = module.MLADimensions(qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128)
        question = module.MLAPrefillSelectorConfig(dtype=torch.bfloat16, mla_dimensions=sizes)
    except (ImportError, AttributeError, TypeError):
        return []
    return [Arguments((question,))]


def _no_streams() -> list[Arguments]:
    return [Arguments((None, None))]


def _nothing() -> list[Arguments]:
    return []


_OWN: Final[Mapping[str, Callable[[], list[Arguments]]]] = {
    "apply_config_platform_defaults": _config_call("apply_config_platform_defaults"),
    "check_and_update_config": _config_call("check_and_update_config"),
    "get_default_ir_op_priority": _config_call("get_default_ir_op_priority"),
    "get_kv_cache_config_builder_cls": _config_call("get_kv_cache_config_builder_cls"),
    "register_custom_kv_cache_specs": _config_call("register_custom_kv_cache_specs"),
    "update_block_size_for_backend": _config_call("update_block_size_for_backend"),
    "pre_register_and_update": _with_and_without_parser,
    "set_additional_forward_context": _forward_context,
    "validate_request": _requests,
    "get_mla_prefill_backend_cls": _latent_prefill,
    "enable_multi_stream_overlap": _no_streams,
    "get_attn_backend_cls": _nothing,  # its questions are the selector's
    "get_global_graph_pool": _nothing,  # it asks the device's runtime for a pool
    "set_device": _nothing,  # it initialises the device, which belongs to a worker
}
