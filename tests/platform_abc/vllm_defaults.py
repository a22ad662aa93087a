"""Asks the base class of a real vLLM and a platform of this package the same questions; prints both answers.

Run it as a module in a process of its own: importing vLLM chooses a platform for the whole process.
"""

from __future__ import annotations

import enum
import itertools
import json
import os
import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

import torch
from vllm.platforms.interface import DeviceCapability as VllmCapability
from vllm.platforms.interface import Platform as VllmBase
from vllm.platforms.interface import PlatformEnum as VllmEnum
from vllm.platforms.interface import set_assigned_physical_gpu_ids

from platform_abc import MEMBERS, DeviceCapability, PlatformEnum
from platform_abc.device_ids import assign_physical_devices
from tests.platform_abc.contract_platforms import Complete

VARIABLE: Final = "DUMMY_VISIBLE_DEVICES"

KEYWORDS: Final = dict.fromkeys(
    (
        "attn_metadata",
        "vllm_config",
        "dp_metadata",
        "num_tokens",
        "num_tokens_across_dp",
        "cudagraph_runtime_mode",
        "batch_descriptor",
        "ubatch_slices",
    )
)
CALLS: Final[Mapping[str, tuple[tuple[object, ...], Mapping[str, object]]]] = {
    "get_max_output_tokens": ((5,), {}),
    "pre_register_and_update": ((None,), {}),
    "apply_config_platform_defaults": ((None,), {}),
    "check_and_update_config": ((None,), {}),
    "update_block_size_for_backend": ((SimpleNamespace(model_config=None, cache_config=None),), {}),
    "register_custom_kv_cache_specs": ((None,), {}),
    "verify_model_arch": (("LlamaForCausalLM",), {}),
    "verify_quantization": (("fp8",), {}),
    "validate_request": ((object(), object()), {}),
    "check_if_supports_dtype": ((torch.float16,), {}),
    "check_max_model_len": ((77,), {}),
    "get_default_ir_op_priority": ((None,), {}),
    "validate_environ": ((True,), {}),
    "get_attn_backend_cls": ((None,), {"attn_selector_config": None, "num_heads": 4}),
    "get_vit_attn_backend": ((64, torch.float16), {"backend": None}),
    "get_mla_prefill_backend_cls": ((None,), {}),
    "set_additional_forward_context": ((), KEYWORDS),
    "device_control_id_to_physical_device_id": (("3",), {}),
    "device_id_to_physical_device_id": ((3,), {}),
    "logical_device_id_to_visible_device_id": ((3,), {}),
    "visible_device_id_to_physical_device_id": ((3,), {}),
    "has_device_capability": ((80,), {}),
    "is_device_capability": ((80,), {}),
    "is_device_capability_family": ((80,), {"device_id": 0}),
    "set_device": ((torch.device("cpu"),), {}),
    "manual_seed_all": ((0,), {}),
    "get_infinity_values": ((torch.float16,), {}),
    "stateless_init_device_torch_dist_pg": (
        (),
        {"backend": "gloo", "prefix_store": None, "group_rank": 0, "group_size": 1, "timeout": None},
    ),
    "enable_multi_stream_overlap": ((None, object()), {}),
}
# What imports vLLM's own kernels is not run; make_synced_weight_loader has a question of its own.
NOT_CALLED: Final = {"import_ir_kernels", "import_kernels", "make_synced_weight_loader"}


class Theirs(VllmBase):
    """The least that a platform of vLLM must define."""

    _enum = VllmEnum.OOT
    device_name = "dummy"
    device_type = "cpu"


def shown(value: object) -> str:
    """Return a text that is the same for the same answer of either package."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (list, tuple)) and type(value) in {list, tuple}:
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    if type(value).__name__ == "IrOpPriorityConfig":
        return f"every op: {sorted({str(list(order)) for order in vars(value).values()})}"
    if isinstance(value, torch.inference_mode):
        return "inference_mode"
    return repr(value)


def outcome(question: Callable[[], object]) -> str:
    """Return the answer as text, or what kind of error it is."""
    try:
        return shown(question())
    except NotImplementedError:
        return "not supported"
    except Exception as error:
        return f"{type(error).__name__} raised"


def members_of_vllm() -> dict[str, str]:
    """Return the kind of every member that vLLM's base class defines or annotates."""
    kinds = dict.fromkeys(VllmBase.__annotations__, "attribute")
    for name, member in vars(VllmBase).items():
        if name.startswith("__") and name != "__getattr__":
            continue
        if isinstance(member, classmethod):
            kinds[name] = "classmethod"
        elif isinstance(member, property):
            kinds[name] = "property"
        else:
            kinds[name] = "method" if callable(member) else "attribute"
    return kinds


def answers(platform: Any) -> dict[str, str]:
    """Ask for every member of the first version."""
    given: dict[str, str] = {}
    for name, spec in MEMBERS.items():
        if spec.version > 1 or name in NOT_CALLED or name == "__getattr__":
            continue
        if spec.kind in {"attribute", "property"}:
            given[name] = outcome(lambda name=name: getattr(platform, name))
        else:
            args, keywords = CALLS.get(name, ((), {}))
            given[name] = outcome(lambda name=name, a=args, k=keywords: getattr(platform, name)(*a, **k))
    return given


def predicates(base: Any, kinds: Any) -> dict[str, str]:
    """Ask every predicate of the identity of every kind of platform."""
    given: dict[str, str] = {}
    for kind in kinds:
        platform = type("Kind", (base,), {"_enum": kind})()
        for name, spec in MEMBERS.items():
            if spec.kind == "method" and (name.startswith("is_") or name == "uses_host_device_handling"):
                given[f"{kind.name}.{name}"] = outcome(getattr(platform, name))
    return given


def capabilities(base: Any, capability: Any) -> dict[str, str]:
    """Compare several capabilities in both spellings."""
    given: dict[str, str] = {}
    for major, minor in ((7, 5), (8, 0), (8, 9), (9, 0), (10, 3), (12, 1)):
        now = capability(major, minor)
        platform = type(
            "Capable", (base,), {"get_device_capability": classmethod(lambda cls, device_id=0, now=now: now)}
        )
        given[f"{major}.{minor}"] = shown([now.as_version_str(), now.to_int()])
        for asked in ((8, 0), (9, 0), (10, 3), 75, 80, 89, 90, 100, 103):
            whole = capability(*asked) if isinstance(asked, tuple) else asked
            for name in ("has_device_capability", "is_device_capability"):
                given[f"{major}.{minor} {name}({asked})"] = outcome(
                    lambda name=name, whole=whole: getattr(platform, name)(whole)
                )
            if isinstance(asked, int):
                given[f"{major}.{minor} family {asked}"] = shown(platform.is_device_capability_family(asked))
    return given


def ids(base: Any, assign: Callable[[list[int]], None]) -> dict[str, str]:
    """Map ids under several values of the device-control variable, and with assigned devices."""
    platform = type("Ids", (base,), {"device_control_env_var": VARIABLE})()
    given: dict[str, str] = {}
    names = [
        name for name in MEMBERS if name.endswith("_device_id") and not name.startswith("device_control")
    ]
    values = (None, "", "0", "1,0", "3,1,2", " 2, 0", "2,0,", "GPU-5f2c,1", "0,0", ",", "-1", "0,,1")
    for value, device_id, name in itertools.product(values, (0, 1, 3, -1), names):
        os.environ.pop(VARIABLE, None)
        if value is not None:
            os.environ[VARIABLE] = value
        given[f"{VARIABLE}={value!r} {name}({device_id})"] = outcome(
            lambda name=name, device_id=device_id: getattr(platform, name)(device_id)
        )
    assign([5, 3])
    for value, device_id, name in itertools.product((None, "3,1"), (0, 1, 2), names):
        os.environ.pop(VARIABLE, None)
        if value is not None:
            os.environ[VARIABLE] = value
        given[f"assigned [5, 3], {VARIABLE}={value!r} {name}({device_id})"] = outcome(
            lambda name=name, device_id=device_id: getattr(platform, name)(device_id)
        )
    os.environ.pop(VARIABLE, None)
    return given


def more(base: Any) -> dict[str, str]:
    """Ask what needs a platform that was set up for it."""

    def graph_pool_handle(cls: Any) -> tuple[int, int]:
        cls.made = getattr(cls, "made", 0) + 1
        return (0, cls.made)

    def load(param: object, weight: int, *, shard: int = 0) -> object:
        return (weight, shard)

    body: dict[str, object] = {
        "supported_quantization": ["awq"],
        "use_sync_weight_loader": classmethod(lambda cls: True),
        "graph_pool_handle": classmethod(graph_pool_handle),
    }
    platform = type("SetUp", (base,), body)()
    plain = base()
    synced = platform.make_synced_weight_loader(load)
    weight = torch.zeros(1)
    return {
        "verify_quantization of a listed one": outcome(lambda: platform.verify_quantization("awq")),
        "verify_quantization of another": outcome(lambda: platform.verify_quantization("fp8")),
        "a loader that is not wrapped": outcome(lambda: plain.make_synced_weight_loader(load) is load),
        "a loader that is": outcome(lambda: synced(weight, 3, shard=1)),
        "a loader that is, by keyword": outcome(lambda: synced(param=weight, weight=3)),
        "a pool, twice": outcome(lambda: [platform.get_global_graph_pool() for _ in range(2)]),
        "a pool of another instance": outcome(lambda: type(platform)().get_global_graph_pool()),
        "a vision backend": outcome(
            lambda: plain.get_vit_attn_backend(64, torch.float16, plain.get_supported_vit_attn_backends()[0])
        ),
        "a name of torch": outcome(lambda: plain.synchronize is torch.cpu.synchronize),
        "a name of nobody": outcome(lambda: plain.no_such_name),
        "a dunder name": outcome(lambda: getattr(plain, "__fancy__")),
    }


def main() -> None:
    """Print all questions with both answers, as one line of JSON."""
    sides = [
        {
            **answers(base()),
            **predicates(base, kinds),
            **capabilities(base, capability),
            **more(base),
            # Last, because vLLM cannot take an assignment back.
            **ids(base, assign),
        }
        for base, kinds, capability, assign in (
            (Theirs, VllmEnum, VllmCapability, set_assigned_physical_gpu_ids),
            (Complete, PlatformEnum, DeviceCapability, assign_physical_devices),
        )
    ]
    print("\nRESULT", json.dumps({"kinds": members_of_vllm(), "theirs": sides[0], "ours": sides[1]}))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
