"""The environment around the hooks: what the user set stays, and what a worker needs gets there."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import sys
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from conformance.checks import _configs
from conformance.checks._told import told_meanwhile
from conformance.context import ApartFailed, CheckContext, short, unrun
from conformance.model import Finding, NotRun, Skip, Violation
from conformance.registry import check

_STARTUP: Final = (
    "import_kernels",
    "import_ir_kernels",
    "register_triton_kernel_overrides",
    "log_warnings",
    "validate_environ",
    "verify_quantization",
    "verify_model_arch",
    "get_default_ir_op_priority",
    "register_custom_kv_cache_specs",
    "update_block_size_for_backend",
)
"""Hooks of a start beside those of the config."""

_EVERYBODYS: Final = (
    "PATH",
    "HOME",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "TMPDIR",
    "USER",
    "LANG",
    "CUDA_VISIBLE_DEVICES",
)
"""Variables that belong to no platform; what they hold may be added to, and is never lost."""

_OTHERS: Final = (
    "OMP_",
    "KMP_",
    "GOMP_",
    "MKL_",
    "OPENBLAS_",
    "NUMEXPR_",
    "TORCH",
    "PYTORCH_",
    "TRITON_",
    "LD_",
    "DYLD_",
    "CUDA_",
    "NVIDIA_",
    "ROCR_",
    "HIP_",
    "HSA_",
    "GPU_",
    "GLOO_",
    "MASTER_",
    "LOCAL_",
    "PYTHON",
    "TOKENIZERS_",
    "RAY_",
)
"""Beginnings of variables of libraries that are set for every process of a machine alike."""


_written: Final[list[str]] = []
"""The variables that the platform's own code has written since it was emptied."""

_Environ = os._Environ  # pyright: ignore[reportPrivateUsage]


class _Noting(_Environ[str]):
    """The environment, and who writes to it: a diff does not show a value that was there already."""

    def __setitem__(self, key: str, value: str) -> None:
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame.f_back is not None and frame.f_code.co_filename in _PYTHONS:
            frame = frame.f_back
        if frame.f_code.co_filename.startswith(tuple(_folders)):
            _written.append(key)
        super().__setitem__(key, value)


_folders: Final[list[str]] = []
_PYTHONS: Final = frozenset({os.__file__, "<frozen os>", "<frozen _collections_abc>", "<frozen abc>"})


@contextlib.contextmanager
def _noting(ctx: CheckContext) -> Generator[None]:
    """Note what the code beside the platform's classes, those of the engine left out, writes meanwhile."""
    own = [one for one in ctx.platform_cls.__mro__[:-1] if not issubclass(ctx.adapter.base_class(), one)]
    with contextlib.suppress(TypeError, OSError):
        _folders[:] = [str(Path(inspect.getfile(one)).parent) for one in own if not ctx.adapter.in_tree(one)]
    _written.clear()
    environment: Any = os.environ
    environment.__class__ = _Noting if _folders else _Environ
    try:
        yield
    finally:
        environment.__class__ = _Environ


@attrs.frozen
class _Moment:
    """What one hook did to the environment, variable -> value before, value after."""

    hook: str
    changes: Mapping[str, tuple[Any, Any]]


def _record(
    ctx: CheckContext, platform: Any, hooks: Iterable[str] = (*_configs.HOOKS, *_STARTUP)
) -> list[_Moment]:
    """Run the hooks of a start in their order, on one config, and note what each does to the environment.

    Raises:
        Refused, Skip, Violation: a config hook did not run.
    """
    found: list[_Moment] = []
    config = _configs.build(ctx, "plain")
    for hook in hooks:
        before = dict(os.environ)
        with _noting(ctx):
            if hook in _configs.HOOKS:
                _configs.run_hooks(ctx, config, (hook,))
            elif ctx.overridden(hook):
                _ask(ctx, platform, hook, config)
            same = {name: (before.get(name), os.environ.get(name)) for name in _written}
        changes = {**same, **_configs.differences(before, dict(os.environ))}
        if changes:
            found.append(_Moment(hook, changes))
    return found


def _ask(ctx: CheckContext, platform: Any, hook: str, config: Any) -> None:
    calls = (
        [(config,)] if hook.startswith("update_block") else [one.args for one in ctx.adapter.arguments(hook)]
    )
    if hook == "verify_quantization":
        calls += [(name,) for name in platform.supported_quantization]
    for args in calls:
        with contextlib.suppress(Exception, SystemExit), ctx.adapter.active(platform):
            unrun(getattr(platform, hook)(*args))  # what it raises, other checks judge


def _engines_class(ctx: CheckContext) -> type | None:
    """The engine's own platform from which this one derives, or which it is; None where it is judged itself."""
    base = ctx.adapter.base_class()
    parent = next(
        (one for one in ctx.platform_cls.__mro__ if ctx.adapter.in_tree(one) and issubclass(one, base)), base
    )
    # Our own platforms are judged like any other.
    return None if parent is base or ctx.adapter.name == "native" else parent


def _engines_own(ctx: CheckContext) -> frozenset[str]:
    """What the engine's own platform class, from which this one derives, writes in the same hooks."""
    parent = _engines_class(ctx)
    if parent is None:
        return frozenset()
    other = CheckContext(parent, ctx.adapter, ctx.fresh)
    try:
        moments = ctx.apart(lambda: _record(other, other.platform))
    except ApartFailed:
        return frozenset()
    return frozenset(name for moment in moments for name in moment.changes)


def _recorded(ctx: CheckContext) -> list[_Moment]:
    try:
        found = ctx.apart(lambda: _record(ctx, ctx.platform))
    except ApartFailed as broken:
        raise NotRun(f"the hooks did not run in a copy of the process: {broken}") from broken
    ctx.details["environment"] = {
        moment.hook: {name: f"{short(old)} → {short(new)}" for name, (old, new) in moment.changes.items()}
        for moment in found
    }
    if _engines_class(ctx) is ctx.platform_cls:
        return []  # what the engine's own platforms write is the engine's matter
    own = _engines_own(ctx)
    kept = [
        _Moment(one.hook, {name: pair for name, pair in one.changes.items() if name not in own})
        for one in found
    ]
    return [one for one in kept if one.changes]


def _users(value: str) -> str:
    """Another value than the platform's, of the same kind."""
    swapped = {
        "0": "1", "1": "0", "true": "false", "false": "true", "spawn": "fork", "fork": "spawn",
        "on": "off", "off": "on", "yes": "no", "no": "yes",
    }  # fmt: skip
    plain = value.strip().lower()
    if plain in swapped:
        return swapped[plain]
    if plain.isdigit():
        return str(int(plain) + 1)
    return f"users-{value}" if value else "users-own"


def _with_users(
    ctx: CheckContext, users: Mapping[str, str]
) -> tuple[bool, list[tuple[str, str, str | None, str]]]:
    """Run the hooks with the user's variables.

    Returns:
        Whether all hooks ran; and of each variable that is lost: name, user's value, value then, hook.
    """
    lost: list[tuple[str, str, str | None, str]] = []
    config = _configs.build(ctx, "plain")  # before the variables, which may be the engine's
    os.environ.update(users)
    open_ones = dict(users)
    for hook in (*_configs.HOOKS, *_STARTUP):
        try:
            with told_meanwhile() as told:
                if hook in _configs.HOOKS:
                    _configs.run_hooks(ctx, config, (hook,))
                elif ctx.overridden(hook):
                    _ask(ctx, ctx.platform, hook, config)
        except (_configs.Refused, Skip, NotRun, Violation):
            return False, lost  # refused, or another check tells
        for name, value in list(open_ones.items()):
            now = os.environ.get(name)
            if now is None or value not in now:
                del open_ones[name]
                if not any(name in text for text in told):
                    lost.append((name, value, now, hook))
    return True, lost


@check(
    "config.environment-kept",
    group="config_hooks",
    needs=("config.environment-stable",),
    why="The user's variables are the user's: a run that drops or replaces them is one that nobody asked for.",
    hint='Use os.environ.setdefault, or test `if "NAME" not in os.environ` first.',
)
def environment_kept(ctx: CheckContext) -> None:
    """Variables that the user has set survive the hooks: those that a hook writes, and everybody's."""
    moments = _recorded(ctx)
    device = str(ctx.attribute("device_control_env_var"))
    written = {
        name: _users(str(new))
        for moment in moments
        for name, (_, new) in moment.changes.items()
        if name != device
    }
    everybodys = {
        name: os.environ.get(name) or ("/users/own" if name != "CUDA_VISIBLE_DEVICES" else "3,1")
        for name in _EVERYBODYS
        if name != device
    }
    tries = [{**everybodys, **written}, *({name: value} for name, value in written.items())]
    lost: list[tuple[str, str, str | None, str]] = []
    for users in tries[:9]:
        try:
            ran, lost = ctx.apart(lambda users=users: _with_users(ctx, users))  # type: ignore[misc]
        except ApartFailed as broken:
            ctx.details[f"not tried ({', '.join(users)})"] = str(broken)
            continue
        if ran or lost:
            break
    if lost:
        raise Violation(*(_lost(ctx, *one) for one in lost[:5]))


def _instead_of(name: str, value: str, now: str | None, hook: str) -> str:
    """How to write a variable without losing what the user set."""
    if now is None:
        return f"Remove what deletes {name} from `{hook}`."
    if os.sep in value or name.endswith(("PATH", "PRELOAD")):
        return f"Add your part to what {name} holds already, instead of assigning it."
    return f'Write `os.environ.setdefault("{name}", …)` in `{hook}`, or warn that {name} is replaced.'


def _lost(ctx: CheckContext, name: str, value: str, now: str | None, hook: str) -> Finding:
    did = f"removed {name}" if now is None else f"set {name} to {short(now)}"
    return ctx.finding(
        hook,
        contract_says=f"A variable that the user has set survives `{hook}`: its value stays, or is part of the new one.",
        platform_did=f"with {name}={short(value)} set by the user, the hook {did}",
        hint=_instead_of(name, value, now, hook),
        location=ctx.locate_write(hook, name),
    )


@check(
    "config.device-variable-kept",
    group="config_hooks",
    needs=("config.environment-stable", "identity.device-variable"),
    why="The launcher gives each worker its devices through this variable; a hook that writes it moves them.",
    hint="Read the device variable, and never write it.",
)
def device_variable_kept(ctx: CheckContext) -> None:
    """The hooks leave the device variable as the launcher or the user set it, and unset where it is unset."""
    name = str(ctx.attribute("device_control_env_var"))
    before = os.environ.get(name)
    base = _configs.build(ctx, "plain")
    try:
        for value in ("1", "0,1", None):
            moved = _moved(ctx, copy.deepcopy(base), name, value)
            if moved:
                hook, now = moved
                raise ctx.fail(
                    hook,
                    contract_says=f"{name}, the platform's device variable, belongs to the launcher and the user.",
                    platform_did=f"with {name} {'unset' if value is None else f'= {value!r}'}, `{hook}` "
                    + ("removed it" if now is None else f"set it to {now!r}"),
                    hint=f"Remove what writes {name} from `{hook}`; narrow devices in the worker, by index.",
                    location=ctx.locate_write(hook, name),
                )
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


def _moved(ctx: CheckContext, config: Any, name: str, value: str | None) -> tuple[str, str | None] | None:
    os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value
    for hook in (*_configs.HOOKS, *_STARTUP):
        try:
            if hook in _configs.HOOKS:
                _configs.run_hooks(ctx, config, (hook,))
            elif ctx.overridden(hook):
                _ask(ctx, ctx.platform, hook, config)
        except (_configs.Refused, Skip, NotRun, Violation):
            return None  # refused, or another check tells
        if os.environ.get(name) != value:
            return hook, os.environ.get(name)
    return None


@check(
    "config.environment-reaches-workers",
    group="config_hooks",
    severity="should",
    needs=("identity.lists", "config.environment-kept"),
    why="Workers on other machines get only the variables that the engine copies or the platform lists.",
    hint="List the variables that your hooks set in additional_env_vars.",
)
def reaches_workers(ctx: CheckContext) -> None:
    """A variable of the platform's own that a config hook sets is copied to workers on other machines."""
    listed = set(ctx.attribute("additional_env_vars"))
    findings = [
        ctx.finding(
            "additional_env_vars",
            contract_says="A variable of the platform's own that a hook sets in the front end is listed in "
            "additional_env_vars, so that workers on other machines have it too.",
            platform_did=f"`{moment.hook}` sets {name} to {short(new)}, and additional_env_vars is "
            f"{sorted(listed)}",
            hint=f'Write additional_env_vars = ["{name}"] in the class body, or put the value into the config.',
        )
        for moment in _recorded(ctx)
        if moment.hook in _configs.HOOKS
        for name, (_, new) in moment.changes.items()
        if name not in listed
        and new != "(absent)"
        and not name.startswith(_OTHERS)
        and name not in (*_EVERYBODYS, ctx.attribute("device_control_env_var"))
        and not ctx.adapter.is_copied_to_workers(name)
    ]
    if findings:
        raise Violation(*findings[:4])
