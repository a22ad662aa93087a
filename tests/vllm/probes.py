"""What the tests of the vLLM adapter look at; each runs in a fork of a process that has vLLM prepared."""

from __future__ import annotations

import sys
import threading
from typing import Any

from conformance.engines.base import Adapter
from conformance.model import NotRun, Skip


def _cpu() -> Any:
    from vllm.platforms.cpu import CpuPlatform

    return CpuPlatform()


def cases(engine: Adapter) -> dict[str, Any]:
    """By case: the worker class of the config, or why it cannot be built."""
    built: dict[str, Any] = {}
    for case in engine.config_cases():
        try:
            built[case] = engine.worker_cls_field(engine.config(case))
        except Skip as skip:
            built[case] = f"skip: {skip}"
    return built


def facts_of_cases(engine: Adapter) -> dict[str, Any]:
    config = engine.config
    return {
        "model-none": config("model-none").model_config is None,
        "tensor-parallel": config("tensor-parallel").parallel_config.tensor_parallel_size,
        "lora": config("lora").lora_config is not None,
        "quantized": config("quantized").quant_config is not None,
        "user-block-size": [
            config("user-block-size").cache_config.block_size,
            config("user-block-size").cache_config.user_specified_block_size,
        ],
        "mla": config("mla").model_config.use_mla,
        "hybrid": config("hybrid").model_config.is_hybrid,
        "head size": config("plain").model_config.get_head_size(),
    }


def current(engine: Adapter) -> dict[str, Any]:
    """Who the current platform is in vLLM's modules: before, while another is active, and after."""
    import vllm.engine.arg_utils as holder
    import vllm.platforms

    platform = _cpu()

    def seen() -> list[str]:
        return [
            type(vllm.platforms.current_platform).__name__,
            type(holder.current_platform).__name__,
        ]

    before = seen()
    with engine.active(platform):
        import vllm.model_executor.models.opt as late  # first imported while the other is active

        inside = seen()
        late_inside = [type(v).__name__ for v in vars(late).values() if v is platform]
    late_after = [name for name, value in vars(late).items() if value is platform]
    return {"before": before, "inside": inside, "after": seen(), "late": late_inside, "left": late_after}


def selector_cache(engine: Adapter) -> list[str]:
    """What vLLM's cached selector picks for the neutral platform, then for one that picks something else."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.platforms.cpu import CpuPlatform
    from vllm.v1.attention.selector import get_attn_backend

    class Other(CpuPlatform):
        @classmethod
        def get_attn_backend_cls(cls, *args: Any, **kwargs: Any) -> str:
            return "vllm.v1.attention.backends.mla.cpu_mla.CPUMLABackend"

    def picked() -> str:
        with set_current_vllm_config(engine.config("plain")):
            return get_attn_backend(32, torch.float32, "auto").__name__

    first = picked()
    with engine.active(Other()):
        second = picked()
    return [first, second, picked()]


def hook_changes(engine: Adapter) -> dict[str, Any]:
    """What vLLM's CPU platform changes in a plain config, as snapshots show it."""
    config, platform = engine.config("plain"), _cpu()
    engine.give_device(platform, config)
    before = dict(engine.snapshot(config))
    with engine.active(platform):
        platform.check_and_update_config(config)
    after = dict(engine.snapshot(config))
    return {name: [before.get(name), after[name]] for name in after if before.get(name) != after[name]}


def snapshots(engine: Adapter) -> dict[str, Any]:
    """Whether snapshots of two configs of one case are equal, and see what is added anywhere."""
    import pickle

    one, other = engine.config("plain"), engine.config("plain")
    first = dict(engine.snapshot(one))
    engine_equal = first == dict(engine.snapshot(other))
    pickled = first == dict(engine.snapshot(pickle.loads(pickle.dumps(one))))
    one.parallel_config.surprise = threading.Lock
    one.additional_config["list"] = [1, {"deep": (2, 3)}]
    _ = one.model_config.architectures
    after = dict(engine.snapshot(one))
    return {
        "equal": engine_equal,
        "pickled": pickled,
        "new": sorted(name for name in after if after[name] != first.get(name, ...)),
        "list": after["additional_config"],
    }


def validation(engine: Adapter) -> dict[str, str]:
    """What validation says of each untouched case, and of two wrong values."""
    said: dict[str, str] = {}
    for case in engine.config_cases():
        try:
            engine.validate_config(engine.config(case))
        except (ValueError, Skip) as error:
            said[case] = str(error)
    for path, value in (("cache_config.block_size", "large"), ("scheduler_config.max_num_seqs", -1)):
        config = engine.config("plain")
        part, name = path.split(".")
        setattr(getattr(config, part), name, value)
        try:
            engine.validate_config(config)
        except ValueError as error:
            said[path] = str(error)
        assert getattr(getattr(config, part), name) == value, "validation must not convert"
    return said


def device_part(engine: Adapter) -> dict[str, str]:
    """The device part for a platform of another device type, and for one that torch does not know."""
    from vllm.platforms.cpu import CpuPlatform

    said: dict[str, str] = {}
    for device_type in ("cuda", "myd"):
        platform = type("Chip", (CpuPlatform,), {"device_type": device_type})()
        config = engine.config("plain")
        try:
            engine.give_device(platform, config)
            said[device_type] = config.device_config.device_type
        except NotRun as reason:
            said[device_type] = str(reason)
    return said


def members(engine: Adapter) -> dict[str, list[Any]]:
    return {
        name: [one.kind, one.group, one.unset, one.abstract, one.raises]
        for name, one in engine.members().items()
    }


def calls(engine: Adapter) -> dict[str, list[list[Any]]]:
    """The common uses of a few members: positional count, keywords, guarded, read."""
    wanted = (
        "get_attn_backend_cls",
        "get_device_communicator_cls",
        "get_device_name",
        "manual_seed_all",
        "device_type",
    )
    return {
        name: [
            [one.positional, list(one.keywords), one.guarded, one.is_read, one.site.rpartition(":")[0]]
            for one in engine.engine_calls()
            if one.member == name and one.common
        ]
        for name in wanted
    }


def selector(engine: Adapter) -> list[list[Any]]:
    return [[one.case, len(one.args), sorted(one.kwargs), one.must_answer] for one in engine.selector_calls()]


def harmless(engine: Adapter) -> dict[str, str]:
    """What vLLM's CPU platform raises where the adapter calls its arguments harmless."""
    platform = _cpu()
    raised: dict[str, str] = {}
    for name, member in engine.members().items():
        if member.kind not in ("method", "classmethod"):
            continue
        for call in engine.arguments(name):
            try:
                with engine.active(platform):
                    getattr(platform, name)(*call.args, **call.kwargs)
            except NotImplementedError:
                continue
            except Exception as error:
                raised[name] = f"{type(error).__name__}: {error}"
    return raised


def components(engine: Adapter) -> dict[str, list[Any]]:
    """By picker: the base's name, and whether what vLLM's CPU platform picks derives from it."""
    platform = _cpu()
    plain = engine.selector_calls()[0]
    found: dict[str, list[Any]] = {}
    for one in engine.picked():
        base = one.base.__name__ if one.base else None
        if one.picker == "worker_cls":
            answer = "vllm.v1.worker.cpu_worker.CPUWorker"
        elif one.picker == "get_attn_backend_cls":
            answer = platform.get_attn_backend_cls(*plain.args, **plain.kwargs)
        else:
            answer = getattr(platform, one.picker)()
        cls = engine.resolve(answer)
        missing = [name for name in one.required if not hasattr(cls, name)]
        found[one.picker] = [base, one.base is None or issubclass(cls, one.base), missing]
    return found


def process(engine: Adapter) -> dict[str, Any]:
    """That the prepared process may be forked, and has not imported what costs much."""
    return {
        "threads": threading.active_count(),
        "llm": "vllm.entrypoints.llm" in sys.modules,
        "calls": len(engine.engine_calls()),
    }
