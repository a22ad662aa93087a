"""The attention backend that was picked: the one that was asked for, and one that says what its kernels take."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

from conformance.checks import _configs
from conformance.checks._resolve import resolve_class
from conformance.checks.pickers import asked, says_of
from conformance.checks.surfaces import ships_with_engine
from conformance.context import CheckContext, describe, is_a, kind_of, locate
from conformance.model import Finding, Unsupported, Violation
from conformance.places import quoted
from conformance.registry import check
from conformance.remedies import instead

_PICKER: Final = "get_attn_backend_cls"
_IMPORTABLE: Final = "pickers.attn-backend.importable"
_SURFACE: Final = "pickers.attn-backend.surface"
_YES_OR_NO: Final = ("is_", "supports_", "accepts_")


def _backend(ctx: CheckContext) -> type:
    """The class that is picked in the plainest case; judged here only where the vendor wrote it.

    Raises:
        Unsupported: the engine ships it, or none is picked.
    """
    name = asked(ctx, _PICKER)
    if ships_with_engine(ctx, name):
        raise Unsupported(f"{name} is the engine's own")
    return resolve_class(ctx, _PICKER, name, says_of(_PICKER))


def _call(ctx: CheckContext, cls: type, method: str, *args: Any) -> Any:
    """Call a method of the backend's class; what it raises is a violation."""
    try:
        with ctx.adapter.active(ctx.platform):
            return getattr(cls, method)(*args)
    except (Exception, SystemExit) as error:
        raise _finding(
            ctx,
            cls,
            method,
            f"`{method}` of a backend answers on the class, without a device.",
            f"it raised {describe(error)}{quoted(ctx.blame(error))}",
            f"Change that line{instead(describe(error))}: `{method}` answers from the class, without a device."
            if ctx.blame(error)
            else f"Let `{method}` of {cls.__name__} return for that call, without a device.",
            ctx.blame(error),
        ) from error


def _finding(
    ctx: CheckContext, cls: type, method: str, says: str, did: str, hint: str, place: str = ""
) -> Violation:
    raw = inspect.getattr_static(cls, method, None)
    return Violation(
        Finding(
            contract_says=says,
            platform_did=did,
            member=f"{_PICKER} → {cls.__name__}.{method}",
            location=place or locate(raw) or locate(cls) or f"{cls.__module__}.{cls.__qualname__}",
            hint=hint,
        )
    )


def _own(ctx: CheckContext, cls: type, method: str) -> bool:
    owner = next((one for one in cls.__mro__ if method in vars(one)), None)
    if owner is None or ctx.adapter.in_tree(owner):
        return False
    return not inspect.isfunction(vars(owner)[method])  # an instance method: pickers.signatures says so


@check(
    "pickers.attn-backend.name",
    group="pickers",
    needs=(_SURFACE,),
    why="The engine looks the backend's name up in its list of backends and stops where it is not in it.",
    hint='Return "CUSTOM" from get_name, or the name of one of the engine\'s backends that yours stands for.',
)
def backend_name(ctx: CheckContext) -> None:
    """The backend's name is one that the engine can look up."""
    cls = _backend(ctx)
    names = ctx.adapter.backend_names()
    if not names:
        raise Unsupported("the installed engine looks no backend up by name")
    says = "`get_name` of a backend gives a name of the engine's AttentionBackendEnum."
    hint = 'Return "CUSTOM", which stands for a backend that only the platform knows.'
    name = _call(ctx, cls, "get_name")
    if not isinstance(name, str) or name not in names:
        raise _finding(ctx, cls, "get_name", says, f"it gave {kind_of(name)}, which is not in the list", hint)


@check(
    "pickers.attn-backend.parts",
    group="pickers",
    needs=(_SURFACE,),
    why="Each layer makes the implementation, and each group of layers the metadata builder, while the model loads.",
    hint="Return the classes themselves, with nothing left abstract.",
)
def parts(ctx: CheckContext) -> None:
    """The backend names a whole class for its implementation and for its metadata builder."""
    cls = _backend(ctx)
    violations: list[Violation] = []
    for method in ("get_impl_cls", "get_builder_cls"):
        if inspect.getattr_static(cls, method, None) is None:
            continue
        says = f"`{method}` of a backend gives a class that can be instantiated."
        hint = f"Return the class itself from `{method}`, not its name or an instance."
        try:
            part = _call(ctx, cls, method)
        except Violation as violation:
            violations.append(violation)
            continue
        if not isinstance(part, type):
            violations.append(_finding(ctx, cls, method, says, f"it gave {kind_of(part)}", hint))
            continue
        still_open = sorted(getattr(part, "__abstractmethods__", ()))
        if still_open:
            violations.append(
                _finding(
                    ctx,
                    cls,
                    method,
                    says,
                    f"it gave {part.__module__}.{part.__qualname__}, which leaves abstract: "
                    + ", ".join(still_open),
                    f"Define {', '.join(still_open)} in {part.__name__}.",
                    locate(part),
                )
            )
    _configs.collect(violations)


def _sizes_are_wrong(value: Any) -> bool:
    if not is_a(value, list, tuple):
        return True
    return any(not _is_size(one) for one in value)


def _is_size(one: Any) -> bool:
    size = getattr(one, "base", one)  # a size, or the engine's `MultipleOf(size)`
    return isinstance(size, int) and not isinstance(size, bool) and size >= 1


def _shape_is_wrong(value: Any) -> bool:
    return not is_a(value, tuple, list) or not value or any(not _is_size(one) for one in value)


def _facts(ctx: CheckContext, cls: type) -> Iterator[Violation]:
    for method in ("get_supported_kernel_block_sizes", "get_supported_head_sizes"):
        if _own(ctx, cls, method):
            value = _call(ctx, cls, method)
            if _sizes_are_wrong(value):
                yield _finding(
                    ctx,
                    cls,
                    method,
                    f"`{method}` gives a list of sizes: whole numbers from 1 up, or MultipleOf objects.",
                    f"it gave {kind_of(value)}",
                    "Return a list, for one size a list of one; an empty list stands for any size.",
                )
    method = "get_kv_cache_shape"
    if _own(ctx, cls, method):
        value = _call(ctx, cls, method, 4, 16, 2, 32)
        if _shape_is_wrong(value):
            yield _finding(
                ctx,
                cls,
                method,
                f"`{method}(4, 16, 2, 32)` gives a shape: whole numbers from 1 up.",
                f"it gave {kind_of(value)}",
                "Return a tuple such as (2, num_blocks, block_size, num_kv_heads, head_size).",
            )
    for method in sorted({name for one in cls.__mro__ for name in vars(one)}):
        if not method.startswith(_YES_OR_NO) or not _own(ctx, cls, method):
            continue
        raw = inspect.getattr_static(cls, method)
        if not isinstance(raw, classmethod | staticmethod) or not _takes_nothing(getattr(cls, method)):
            continue
        value = _call(ctx, cls, method)
        if not isinstance(value, bool):
            yield _finding(
                ctx,
                cls,
                method,
                f"`{method}` of a backend answers True or False.",
                f"it gave {kind_of(value)}",
                f"Return a bool from `{method}`.",
            )


def _takes_nothing(function: Any) -> bool:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


@check(
    "pickers.attn-backend.facts",
    group="pickers",
    needs=(_SURFACE,),
    why="The engine sizes the KV cache and chooses the block size by these answers, before it runs a kernel.",
    hint="Answer on the class, with lists of whole numbers, a tuple for the shape, and real bools.",
)
def facts(ctx: CheckContext) -> None:
    """What the backend says of sizes, shape and abilities has the type that the engine works with."""
    cls = _backend(ctx)
    violations: list[Violation] = []
    try:
        violations.extend(_facts(ctx, cls))
    except Violation as violation:
        violations.append(violation)
    _configs.collect(violations)


@check(
    "pickers.attn-backend.selected",
    group="pickers",
    needs=(_IMPORTABLE, _SURFACE),
    why="A user who names a backend gets another one without a word, with other speed and other numbers.",
    hint="Raise ValueError for a backend that the user asked for and that does not run here.",
    engines=("native",),
)
def selected(ctx: CheckContext) -> None:
    """A backend that the user asks for is the one that is picked, or is refused."""
    question = next(one for one in ctx.fitted.selector_calls() if one.must_answer)
    own = str(_call(ctx, resolve_class(ctx, _PICKER, asked(ctx, _PICKER), says_of(_PICKER)), "get_name"))
    kinds: Any = _enum_of_backends()
    for name in ctx.adapter.backend_names():
        if name == "CUSTOM":
            continue
        says = f"Asked for {name}, `{_PICKER}` names that backend or raises ValueError."
        hint = f"Compare selected_backend with what you have, and raise ValueError for {name}."
        try:
            with ctx.adapter.active(ctx.platform):
                answer = getattr(ctx.platform, _PICKER)(kinds[name], *question.args[1:], **question.kwargs)
        except (ValueError, NotImplementedError) as refused:
            if name == own:
                raise ctx.fail(
                    _PICKER,
                    contract_says=f"The backend that is picked for a plain layer, {own}, can be asked for by name.",
                    platform_did=f"asked for {name}, it raised {describe(refused)}",
                    hint=f"Accept {name} in `{_PICKER}`: it is what you pick when nothing is asked for.",
                ) from refused
            continue
        except (ImportError, OSError) as missing:
            ctx.details[f"not tried ({name})"] = describe(missing)
            continue
        except Exception as error:
            raise ctx.raised(_PICKER, error, contract_says=says, hint=hint) from error
        got = _name_of(ctx, answer)
        if got in ctx.adapter.backend_names() and got != name:
            raise ctx.fail(
                _PICKER,
                contract_says=says,
                platform_did=f"it gave {answer!r}, whose name is {got}",
                hint=hint,
            )


def _enum_of_backends() -> Any:
    from platform_abc.config import AttentionBackendEnum

    return AttentionBackendEnum


def _name_of(ctx: CheckContext, qualname: Any) -> str:
    """The name of the backend at a dotted name; empty where that cannot be told here."""
    try:
        with ctx.adapter.active(ctx.platform):
            return str(ctx.adapter.resolve(qualname).get_name())
    except Exception as error:
        ctx.details[f"not named: {qualname}"] = describe(error)
        return ""


@check(
    "pickers.attn-backend.answered",
    group="pickers",
    severity="should",
    needs=(_IMPORTABLE, "members.engine-calls"),
    why="The engine's own attention layers ask every platform; an empty answer stops the first model that has one.",
    hint="Name a backend; a platform whose own runner builds no attention layer of the engine may leave it.",
    engines=("vllm",),
)
def answered(ctx: CheckContext) -> None:
    """The attention picker names a backend, also where the platform's own runner never asks."""
    question = next(one for one in ctx.fitted.selector_calls() if one.must_answer)
    says = f"`{_PICKER}` gives the dotted name of a class for a plain decoder layer."
    hint = (
        "Return the dotted name of an attention backend; without one no attention layer of the engine works."
    )
    with ctx.adapter.active(ctx.platform):
        answer = ctx.ask(_PICKER, *question.args, contract_says=says, hint=hint, **question.kwargs)
    if answer in ("", None):
        whose = "" if ctx.overridden(_PICKER) else ", which is the base's answer,"
        raise ctx.fail(
            _PICKER,
            contract_says=says,
            platform_did=f"it gave {kind_of(answer)}{whose} and the worker is the platform's own",
            hint=hint,
        )
