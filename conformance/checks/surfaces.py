"""Picked classes method by method: each takes the engine's calls, and none that the engine needs is left open."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from conformance.checks import _configs
from conformance.checks._resolve import resolve_class
from conformance.checks._signatures import Shape, bound_signature, only_declines, refusal
from conformance.checks.pickers import asked, says_of
from conformance.context import CheckContext, kind_of, locate
from conformance.engines.base import PickedCall
from conformance.model import Finding, NotRun, Skip, Unsupported, Violation
from conformance.registry import check

_PARTS: Final[Mapping[str, str]] = {
    "get_attn_backend_cls": "backend",
    "get_device_communicator_cls": "communicator",
    "get_punica_wrapper": "lora",
    "get_static_graph_wrapper_cls": "graph",
    "get_pass_manager_cls": "pass-manager",
    "get_kv_cache_config_builder_cls": "kv-cache-builder",
}
"""By picker: the component's name in the calls that an adapter finds."""

_FROM_BACKEND: Final[Mapping[str, str]] = {"get_impl_cls": "impl", "get_builder_cls": "builder"}
"""By method of an attention backend: the component that it names."""

_INIT: Final = "__init__"
_UNNAMED: Final = frozenset({"__init_subclass__", "__new__", "__class_getitem__"})


@attrs.frozen
class Picked:
    """A class that the platform picked.

    Args:
        member: the member of the platform that led to it.
        part: the component's name in the engine's calls.
        cls: the class.
    """

    member: str
    part: str
    cls: type

    @property
    def name(self) -> str:
        """The dotted name of the class."""
        return f"{self.cls.__module__}.{self.cls.__qualname__}"


def ships_with_engine(ctx: CheckContext, name: object) -> bool:
    """Say whether a dotted name leads into the engine's own packages, without an import."""
    module = name.rpartition(".")[0] if isinstance(name, str) else ""
    return bool(module) and ctx.adapter.in_tree(type("Named", (), {"__module__": module}))


def _picked(ctx: CheckContext) -> Iterator[Picked]:
    """Every picked class of the vendor's own; what does not import is named by other checks."""
    for member, part in _PARTS.items():
        if not ctx.knows(member):
            continue
        try:
            name = asked(ctx, member)
            if ships_with_engine(ctx, name):
                continue
            cls = resolve_class(ctx, member, name, says_of(member))
        except (Unsupported, NotRun, Skip, Violation) as reason:
            ctx.details[member] = f"not judged: {type(reason).__name__}"
            continue
        yield Picked(member, part, cls)
        if part == "backend":
            yield from _named_by_backend(ctx, cls)
    worker = _worker(ctx)
    if worker is not None:
        yield Picked("check_and_update_config", "worker", worker)


def _named_by_backend(ctx: CheckContext, backend: type) -> Iterator[Picked]:
    for method, part in _FROM_BACKEND.items():
        try:
            with ctx.adapter.active(ctx.platform):
                named = getattr(backend, method)()
        except Exception as error:
            ctx.details[f"{backend.__name__}.{method}"] = f"{type(error).__name__}: {error}"
            continue
        if isinstance(named, type):
            yield Picked("get_attn_backend_cls", part, named)


def _worker(ctx: CheckContext) -> type | None:
    try:
        config = _configs.ran(ctx).config
        value = ctx.adapter.worker_cls_field(config)
        if isinstance(value, type) or ships_with_engine(ctx, value):
            return value if isinstance(value, type) else None
        return resolve_class(ctx, "check_and_update_config", value, "worker_cls names a class")
    except (_configs.Refused, Violation, Skip, NotRun, Unsupported):
        return None  # config.worker-cls and its like say so


def _own_methods(ctx: CheckContext, cls: type) -> Iterator[tuple[str, Any, Any, type]]:
    """Methods that the vendor defines over one of the engine's: name, override, the engine's, its owner."""
    vendor = [one for one in cls.__mro__ if one is not object and not ctx.adapter.in_tree(one)]
    engine = [one for one in cls.__mro__ if ctx.adapter.in_tree(one)]
    for name in sorted({name for one in vendor for name in vars(one)}):
        owner = next(one for one in cls.__mro__ if name in vars(one))
        if owner not in vendor or name in _UNNAMED:
            continue
        source = next((one for one in engine if name in vars(one)), None)
        if source is not None and _is_function(vars(source)[name]):
            yield name, vars(owner)[name], vars(source)[name], source


def _is_function(raw: Any) -> bool:
    return inspect.isfunction(getattr(raw, "__func__", raw))


def _binds(raw: object) -> bool:
    """Say whether reading it on a class or an instance gives something else than itself."""
    return hasattr(type(raw), "__get__")


def _called_on_class(raw: Any) -> bool:
    return isinstance(raw, classmethod | staticmethod)


def _as_called(cls: type, name: str, original: Any) -> inspect.Signature | None:
    """The signature that a caller sees, who calls as the engine's own member is called."""
    if _called_on_class(original):
        return bound_signature(getattr(cls, name, None))
    raw = inspect.getattr_static(cls, name)
    if isinstance(raw, functools.partialmethod):
        return None
    signature = bound_signature(getattr(cls, name, None))
    if signature is None or _called_on_class(raw):
        return signature
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        return signature
    if parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    return signature.replace(parameters=parameters)


def _bound_base(original: Any) -> inspect.Signature | None:
    signature = bound_signature(getattr(original, "__func__", original))
    if signature is None or isinstance(original, staticmethod):
        return signature
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _needed(cls: type, base: inspect.Signature, name: str) -> Iterator[tuple[Shape, str]]:
    """The least call that every user of a base makes, where one of the bases leaves the work to its heirs."""
    left_open = any(getattr(vars(one).get(name), "__isabstractmethod__", False) for one in cls.__mro__)
    if not left_open and name != _INIT:
        return
    required = [
        one
        for one in base.parameters.values()
        if one.default is one.empty
        and one.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]
    if not any(one.kind in (one.VAR_POSITIONAL, one.KEYWORD_ONLY) for one in base.parameters.values()):
        yield Shape(len(required)), "the base class's own parameters"


def _refused(
    picked: Picked, name: str, original: Any, calls: Sequence[PickedCall]
) -> tuple[str, str, inspect.Signature] | None:
    """The first call of the engine that an override does not take: the call, why, and the base's signature."""
    base, override = _bound_base(original), _as_called(picked.cls, name, original)
    if base is None or override is None:
        return None
    shapes = [(Shape(one.positional, one.keywords), one.site) for one in calls if one.member == name]
    real = [(shape, site) for shape, site in shapes if not _refuses(base, shape)]
    for shape, site in real or _needed(picked.cls, base, name):
        why = refusal(base, override, shape)
        if why:
            return f"{shape.spelled(_spelled(picked, name))} of {site}", why, base
    return None


def _refuses(base: inspect.Signature, shape: Shape) -> bool:
    """Say whether the engine's own base does not take a call, which then is one of something else."""
    return bool(refusal(None, base, shape))


def _spelled(picked: Picked, name: str) -> str:
    return picked.cls.__name__ if name == _INIT else f"{picked.cls.__name__}.{name}"


@check(
    "pickers.signatures",
    group="pickers",
    needs=("members.kinds", "identity.enum", "identity.device-type"),
    why="The engine makes and calls picked classes as it calls its own; another signature is a TypeError in a run.",
    hint="Copy the signature from the engine's base class of the component.",
)
def signatures(ctx: CheckContext) -> None:
    """Every method of a picked class takes the calls that the engine makes of it."""
    required = {one.picker: one.required for one in ctx.adapter.picked()}
    findings: list[Finding] = []
    for picked in _picked(ctx):
        for name, raw, original, source in _own_methods(ctx, picked.cls):
            fault = _fault(ctx, picked, name, raw, original)
            # That a required one is None, the check of the picked class's surface tells.
            if fault is None or (raw is None and name in required.get(picked.member, ())):
                continue
            says, did, hint = fault
            findings.append(
                ctx.finding(
                    f"{picked.member} → {_spelled(picked, name)}",
                    contract_says=says,
                    platform_did=did,
                    hint=f"{hint} The base is {source.__module__}.{source.__qualname__}.",
                    location=locate(raw) or locate(picked.cls) or picked.name,
                )
            )
    if findings:
        raise Violation(*findings)


def _fault(
    ctx: CheckContext, picked: Picked, name: str, raw: Any, original: Any
) -> tuple[str, str, str] | None:
    """What is wrong with one method of a picked class: the rule, what it is, the remedy; None if it fits."""
    call = _spelled(picked, name)
    if not _is_function(raw) and not callable(raw) and not _binds(raw):
        return (
            f"`{call}` is a method: the engine calls it.",
            f"it is {kind_of(raw)}",
            f"Remove `{name}`, or make it a method.",
        )
    if isinstance(raw, property | functools.cached_property):
        return (
            f"`{call}` is a method: the engine calls it.",
            "it is a property",
            f"Remove `@property` from `{name}`.",
        )
    if _called_on_class(original) and inspect.isfunction(raw):
        word = "classmethod" if isinstance(original, classmethod) else "staticmethod"
        return (
            f"`{call}` is a {word}: the engine calls it on the class, which it does not instantiate.",
            f"it is an instance method, `def {name}{inspect.signature(raw)}`",
            f"Write `@{word}` above `{name}`.",
        )
    function: object = getattr(raw, "__func__", raw)
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        return (
            f"`{call}` does its work when it is called.",
            "it is a coroutine or generator function, whose body does not run then",
            f"Write `def {name}` without `async` and `yield`.",
        )
    refused = _refused(
        picked, name, original, [one for one in ctx.adapter.picked_calls() if one.part == picked.part]
    )
    if refused is None:
        return None
    spelled, why, base = refused
    return (
        f"`{call}` takes the call {spelled}.",
        f"its parameters are {_as_called(picked.cls, name, original)}: {why}",
        f"Write `def {name}` with the base's parameters, {base}.",
    )


@check(
    "pickers.complete",
    group="pickers",
    needs=("members.kinds", "identity.enum", "identity.device-type"),
    why="What the engine calls of a picked class in every run of its kind may not be left to raise.",
    hint="Implement the method; where the device cannot do it, let the picker raise NotSupported instead.",
)
def complete(ctx: CheckContext) -> None:
    """No method that the engine needs of a picked class only raises NotImplementedError."""
    required = {one.picker: one.required for one in ctx.adapter.picked()}
    required["check_and_update_config"] = required.get("worker_cls", ())
    findings: list[Finding] = []
    for picked in _picked(ctx):
        if ctx.adapter.in_tree(picked.cls):
            continue
        needed = {
            name
            for one in picked.cls.__mro__
            if ctx.adapter.in_tree(one)
            for name, raw in vars(one).items()
            if getattr(raw, "__isabstractmethod__", False)
        }
        if picked.part not in _FROM_BACKEND.values():
            needed.update(required.get(picked.member, ()))
        left_open: frozenset[str] = getattr(picked.cls, "__abstractmethods__", frozenset[str]())
        for name in sorted(needed - left_open):  # what is abstract still is said by the checks of the surface
            raw = inspect.getattr_static(picked.cls, name, None)
            if not only_declines(raw):
                continue
            owner = next(one for one in picked.cls.__mro__ if name in vars(one))
            whose = (
                "its body only raises"
                if not ctx.adapter.in_tree(owner)
                else (f"it is inherited from {owner.__module__}.{owner.__qualname__}, where it only raises")
            )
            findings.append(
                ctx.finding(
                    f"{picked.member} → {picked.cls.__name__}.{name}",
                    contract_says=f"The engine calls `{name}` of what `{picked.member}` led to, without a guard.",
                    platform_did=f"{picked.name}.{name}: {whose}",
                    hint=f"Define `{name}` in {picked.cls.__name__}.",
                    location=locate(picked.cls) or picked.name,
                )
            )
    if findings:
        raise Violation(*findings)
