"""Other processes: the platform pickles, and a worker's platform answers as the front end's does."""

from __future__ import annotations

import base64
import copy
import importlib
import pickle
from collections.abc import Callable, Mapping
from typing import Any, Final

from conformance.checks import _configs
from conformance.context import CheckContext, kind_of, short
from conformance.engines import adapter
from conformance.model import Skip, Violation
from conformance.registry import check

_ATTRIBUTES: Final = (
    "_enum",
    "device_name",
    "device_type",
    "dispatch_key",
    "ray_device_key",
    "device_control_env_var",
    "ray_noset_device_env_vars",
    "simple_compile_backend",
    "dist_backend",
    "supported_quantization",
    "additional_env_vars",
)
_TOO_HEAVY: Final = frozenset(
    {
        "import_kernels",
        "import_ir_kernels",
        "register_triton_kernel_overrides",
        "log_warnings",
        "inference_mode",
        "get_global_graph_pool",
        "get_current_memory_usage",
    }
)
"""Members without parameters that act, or whose answer changes from call to call."""


def _through_pickle(thing: object) -> object:
    return pickle.loads(pickle.dumps(thing))


_COPIES: Final[tuple[tuple[str, Callable[[object], object]], ...]] = (
    ("pickle", _through_pickle),
    ("deepcopy", copy.deepcopy),
)


@check(
    "spawn.instance-pickles",
    group="resolution",
    needs=("platform.instantiable", "fallback.dunder"),
    why="Objects that hold the platform are copied and sent to other processes.",
    hint="Keep no state on the instance, and define no __reduce__ or __getstate__.",
)
def instance_pickles(ctx: CheckContext) -> None:
    """An instance pickles and deep-copies to an instance of the same class."""
    says = "An instance pickles and copies, and comes back as an instance of its class."
    hint = "Remove what the instance holds; a platform is its class."
    for what, make in _COPIES:
        if what == "pickle" and not ctx.importable_by_name:
            continue
        try:
            back = make(ctx.platform)
        except Exception as error:
            raise ctx.raised("__reduce_ex__", error, contract_says=says, hint=hint) from error
        if type(back) is not ctx.platform_cls:
            raise ctx.fail(
                "__reduce_ex__",
                contract_says=says,
                platform_did=f"{what} gave {kind_of(back)}",
                hint="Remove __reduce__, __copy__ and __deepcopy__ from the class.",
            )


def answers_of(platform: Any, members: Mapping[str, Any]) -> dict[str, str]:
    """What a platform says of itself, as text: its attributes, and what asks for no argument and no device."""
    said = {name: short(getattr(platform, name, "(missing)"), 300) for name in _ATTRIBUTES}
    for name, member in members.items():
        if member.group not in ("identity", "capabilities", "pickers") or name in _TOO_HEAVY:
            continue
        if member.kind not in ("method", "classmethod"):
            continue
        try:
            said[f"{name}()"] = short(getattr(platform, name)(), 300)
        except Exception as error:
            said[f"{name}()"] = f"raises {type(error).__name__}"
    return said


def as_worker(engine: str, module: str, qualname: str, config: str) -> dict[str, str]:
    """In a fresh interpreter: receive the pickled config, then say what the platform answers here.

    The platform comes first and pulls in of the engine what it needs, as in a worker.

    Args:
        engine: the adapter's name.
        module: of the platform's class.
        qualname: of the class, in the module.
        config: the pickled config, in base64.
    """
    engine_adapter = adapter(engine)
    cls: Any = importlib.import_module(module)
    for name in qualname.split("."):
        cls = getattr(cls, name)
    platform = cls()
    with engine_adapter.active(platform):
        pickle.loads(base64.b64decode(config))
        return answers_of(platform, engine_adapter.members())


@check(
    "spawn.worker-agrees",
    group="resolution",
    needs=("config.picklable", "config.class-state", "identity.device-type", "members.kinds"),
    where="fresh",
    why="A worker that answers otherwise than the front end loads other kernels than were planned for.",
    hint="Let every answer follow from the class, the config and the environment.",
)
def worker_agrees(ctx: CheckContext) -> None:
    """A fresh worker that receives the config gives the same answers as the front end after its hooks."""
    if not ctx.importable_by_name:
        raise Skip(
            f"{ctx.qualname} cannot be imported by name in another process",
            "move the class to the top level of a module",
        )
    done = _configs.ran_or_blame(ctx)
    payload = base64.b64encode(pickle.dumps(done.config)).decode()
    with ctx.adapter.active(ctx.platform):
        here = answers_of(ctx.platform, ctx.adapter.members())
    there = ctx.fresh(
        "conformance.checks.processes:as_worker",
        ctx.adapter.name,
        ctx.platform_cls.__module__,
        ctx.platform_cls.__qualname__,
        payload,
    )
    findings = [
        ctx.finding(
            name.removesuffix("()"),
            contract_says="A worker, which is a new process, answers as the front end does.",
            platform_did=f"`{name}` is {old} in the front end after the config hooks and {new} in a worker",
            hint=f"Let `{name}` follow from the class or the config, not from what a hook left in this process.",
        )
        for name, (old, new) in _configs.differences(here, there).items()
    ]
    if findings:
        raise Violation(*findings[:5])
