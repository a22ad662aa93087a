"""Other processes: the platform pickles, and a worker's platform answers as the front end's does."""

from __future__ import annotations

import base64
import contextlib
import copy
import importlib
import os
import pickle
from collections.abc import Callable
from typing import Any, Final

from conformance import general_plugins, stubs
from conformance.checks import _configs
from conformance.checks._deep import deep_text
from conformance.context import ApartFailed, CheckContext, describe, kind_of, locate, short, spell
from conformance.engines import adapter
from conformance.engines.arguments import plain
from conformance.engines.base import Adapter
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
ACTS: Final = frozenset(
    {
        "import_kernels",
        "import_ir_kernels",
        "register_triton_kernel_overrides",
        "log_warnings",
        "inference_mode",
        "get_global_graph_pool",
        "get_current_memory_usage",
        "set_device",
        "manual_seed_all",
        "stateless_init_device_torch_dist_pg",
        "check_if_supports_dtype",
    }
)
"""Members that act, or whose answer changes from call to call."""

_HOOK_ANSWERS: Final = ("get_max_output_tokens", "check_max_model_len")
"""Config hooks that answer with a number, and could do so from what another hook left."""

_WORKER: Final = "worker_cls"
_BLOCK_SIZE: Final = "update_block_size_for_backend"


_HALF_IMPORTED: Final = "raises ImportError"
"""Says nothing about a front end: here the engine's modules were imported before the platform was there."""


def _through_pickle(thing: object) -> object:
    return pickle.loads(pickle.dumps(thing))


_COPIES: Final[tuple[tuple[str, Callable[[object], object]], ...]] = (
    ("pickle", _through_pickle),
    ("deepcopy", copy.deepcopy),
    ("copy", copy.copy),
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
    hint = "Remove from `__init__` what the instance holds; a platform keeps its state on no instance."
    for what, make in _COPIES:
        if what == "pickle" and not ctx.importable_by_name:
            continue
        try:
            back = make(ctx.platform)
        except Exception as error:
            raise _not_copied(ctx, make, error, says, hint) from error
        if type(back) is not ctx.platform_cls:
            raise ctx.fail(
                "__reduce_ex__",
                contract_says=says,
                platform_did=f"{what} gave {kind_of(back)}",
                hint="Remove __reduce__, __copy__ and __deepcopy__ from the class.",
            )
        copied: object = back.__dict__
        there, here = deep_text(copied), deep_text(ctx.platform.__dict__)
        if there != here:
            names = (
                "__getstate__",
                "__reduce__",
                "__reduce_ex__",
                "__copy__",
                "__deepcopy__",
                "__setstate__",
            )
            own = [one for one in names if ctx.overridden(one)]
            raise ctx.fail(
                own[0] if own else "__reduce_ex__",
                contract_says="An instance holds after pickling and copying what it held before.",
                platform_did=f"it held {short(here)}, and {what} gave an instance that holds {short(there)}",
                hint=f"Remove {' and '.join(own) or '__getstate__ and __reduce__'}, or set nothing on the instance in "
                "`__init__`.",
            )


def _not_copied(
    ctx: CheckContext, make: Callable[[object], object], error: Exception, says: str, hint: str
) -> Violation:
    """The violation of an instance that does not pickle or copy; it names what is in the way, if that is to be seen."""
    held: dict[str, object] = ctx.platform.__dict__
    for name, value in held.items():
        try:
            make(value)
        except Exception:
            return ctx.fail(
                name,
                contract_says=says,
                platform_did=f"it raised {describe(error)}, for what it holds in `self.{name}`",
                hint=f"Remove the assignment to `self.{name}`; make such an object where it is used, or in the worker.",
                location=ctx.locate_on_instance(name),
            )
    return ctx.raised("__reduce_ex__", error, contract_says=says, hint=hint)


def answers_of(platform: Any, engine: Adapter) -> dict[str, str]:
    """What a platform says of itself, as text: its attributes, and what asks for no device and no config."""
    said = {name: short(getattr(platform, name, "(missing)"), 300) for name in _ATTRIBUTES}
    engine.fit(platform)
    for name, member in engine.members().items():
        asked = member.group in ("identity", "capabilities", "pickers") or name in _HOOK_ANSWERS
        if not asked or name in ACTS or member.kind not in ("method", "classmethod"):
            continue
        for call in plain(name):
            said[spell(name, call)] = _said(getattr(platform, name, None), *call.args, **call.kwargs)
    for one in engine.selector_calls():
        name = f"get_attn_backend_cls(the {one.case} layer)"
        said[name] = _said(platform.get_attn_backend_cls, *one.args, **one.kwargs)
    return said


def _said(call: Any, *args: object, **kwargs: object) -> str:
    try:
        return short(call(*args, **kwargs), 300)
    except (Exception, SystemExit) as error:
        return f"raises {type(error).__name__}"


def _after_block_size(platform: Any, engine: Adapter, config: Any) -> dict[str, str]:
    """The block size that the worker's hook leaves in a config, as text."""
    said = _said(getattr(platform, _BLOCK_SIZE, None), config)
    if said == "None":
        size = dict(engine.snapshot(config)).get("cache_config.block_size", "(absent)")
        said = f"cache_config.block_size {size}"
    return {f"{_BLOCK_SIZE}(config)": said}


def _worker(engine: Adapter, config: Any) -> type | None:
    """The worker class that the config names, imported; None where it is none of the vendor's.

    Raises:
        Exception: whatever its import raises.
    """
    name = engine.worker_cls_field(config)
    engines = engine.base_class().__module__.partition(".")[0]
    if not isinstance(name, str) or name == "auto" or name.startswith(f"{engines}."):
        return None  # without an import, which may take seconds
    cls = engine.resolve(name)
    return cls if isinstance(cls, type) and not engine.in_tree(cls) else None


def _made_worker(engine: Adapter, config: Any) -> dict[str, str]:
    """What comes of making the worker that the config names, as text; nothing where it is none of the vendor's."""
    try:
        cls: Any = _worker(engine, config)
        if cls is None:
            return {}
        cls(vllm_config=config, local_rank=0, rank=0, distributed_init_method="", is_driver_worker=True)
    except (Exception, SystemExit) as error:
        return {f"{_WORKER}(…)": f"raises {describe(error)}"}
    return {f"{_WORKER}(…)": "made"}


def as_worker(
    engine: str,
    module: str,
    qualname: str,
    config: str,
    environment: dict[str, str | None],
    with_worker: bool,
    plugins: list[list[str]],
) -> dict[str, Any]:
    """In a fresh interpreter: receive the pickled config, then say what the platform answers here.

    The platform comes first and pulls in of the engine what it needs, as in a worker.

    Args:
        engine: the adapter's name.
        module: of the platform's class.
        qualname: of the class, in the module.
        config: the pickled config, in base64.
        environment: what the hooks changed of the environment, which a worker inherits.
        with_worker: also make the worker that the config names.
        plugins: name and value of the general plugins that the platform's distribution publishes.

    Returns:
        The answers by question, and `later`, those after the worker's own module was imported; or `failed`,
        what the worker was about, and `error`.
    """
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    engine_adapter = adapter(engine)
    stubs.apply(engine)
    doing = "importing the platform"
    try:
        cls: Any = importlib.import_module(module)
        for name in qualname.split("."):
            cls = getattr(cls, name)
        doing = "making the instance"
        platform = cls()
    except (Exception, SystemExit) as error:
        return {"failed": doing, "error": describe(error)}
    with engine_adapter.active(platform):
        general_plugins.run(plugins)
        try:
            received = pickle.loads(base64.b64decode(config))
        except (Exception, SystemExit) as error:
            return {"failed": "unpickling the config", "error": describe(error)}
        answers = later = answers_of(platform, engine_adapter)
        with contextlib.suppress(Exception, SystemExit):  # config.worker-cls-importable judges it
            if _worker(engine_adapter, received) is not None:
                later = answers_of(platform, engine_adapter)
        made = _made_worker(engine_adapter, received) if with_worker else {}
        answers = {**answers, **made, **_after_block_size(platform, engine_adapter, received)}
        return {"answers": answers, "later": later}


def _place_of_worker(ctx: CheckContext, config: Any) -> str:
    """`file:line` of the worker class that the config names, of what makes it where it defines that."""
    try:
        cls: Any = ctx.adapter.resolve(ctx.adapter.worker_cls_field(config))
        own: dict[str, Any] = dict(cls.__dict__)
        return locate(own.get("__init__") or cls)
    except Exception:
        return ""  # config.worker-cls-importable has judged the name


@check(
    "spawn.worker-agrees",
    group="resolution",
    needs=("config.picklable", "config.class-state", "identity.device-type", "members.kinds"),
    where="fresh",
    after_plugins=True,
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
    before = dict(os.environ)
    done = _configs.ran_or_blame(ctx)
    moved = _configs.differences(before, dict(os.environ))
    payload = base64.b64encode(pickle.dumps(done.config)).decode()
    with ctx.adapter.active(ctx.platform):
        here = answers_of(ctx.platform, ctx.adapter)
        # A worker that cannot be made here either has reasons of its own, the absent device for one.
        with contextlib.suppress(ApartFailed):
            made = ctx.apart(lambda: _made_worker(ctx.adapter, pickle.loads(pickle.dumps(done.config))))
            here.update(made if "made" in made.values() else {})
        here.update(_after_block_size(ctx.platform, ctx.adapter, pickle.loads(pickle.dumps(done.config))))
    there = ctx.fresh(
        "conformance.checks.processes:as_worker",
        ctx.adapter.name,
        ctx.platform_cls.__module__,
        ctx.platform_cls.__qualname__,
        payload,
        {name: os.environ.get(name) for name in moved},
        f"{_WORKER}(…)" in here,
        [list(one) for one in ctx.plugins.to_run],
    )
    if "failed" in there:
        raise ctx.fail(
            "check_and_update_config",
            contract_says="A worker is a new process: it imports the platform and unpickles the config there.",
            platform_did=f"in a new process, with the environment that the hooks left, {there['failed']} "
            f"raised {there['error']}",
            hint="Put into the config only plain values, or objects whose class stands at the top level of a module that "
            "a new process can import."
            if there["failed"].startswith("unpickling")
            else "Let the hooks set no variable with which the platform's own module does not import.",
        )
    missing = (
        ctx.device_missing()
    )  # a worker's class may then import here or there, as the modules before it did
    findings = [
        ctx.finding(
            name.partition("(")[0],
            contract_says="A worker, which is a new process, answers as the front end does.",
            platform_did=f"`{name}` is {old} in the front end after the config hooks and {new} in a worker",
            hint=f"Let `{name.partition('(')[0]}` follow from the class, the config or the environment. What a hook left "
            "in a module or on a class is not there in a worker: write that into vllm_config.additional_config.",
            location=_place_of_worker(ctx, done.config) if name.startswith(f"{_WORKER}(") else "",
        )
        for name, (old, new) in _configs.differences(here, there["answers"]).items()
        if old != _HALF_IMPORTED
        and not (missing and str(new).startswith("raises "))
        # What the vendor's worker registers is there before a worker asks for it.
        and old != there["later"].get(name, new)
    ]
    if findings:
        raise Violation(*findings[:5])
