"""Pickers: each gives the dotted name of a class that imports, of the right base, and whole."""

from __future__ import annotations

from typing import Any, Final

import attrs

from conformance.checks import _configs
from conformance.checks._resolve import resolve_class, surface
from conformance.context import CheckContext, describe, is_a, kind_of
from conformance.engines.base import PickedBase
from conformance.model import NotRun, Skip, Unsupported, Violation
from conformance.registry import check
from platform_abc.errors import MalformedQualname, MissingName


@attrs.frozen
class _Picker:
    """One picker: its member, its part of the ids, who asks for it, and whether it may decline."""

    member: str
    slug: str
    asked: str
    must_answer: bool = False


_PICKERS: Final = (
    _Picker("get_attn_backend_cls", "attn-backend", "Every model asks once a layer kind", must_answer=True),
    _Picker(
        "get_device_communicator_cls",
        "communicator",
        "Every group of more than one device asks",
        must_answer=True,
    ),
    _Picker("get_punica_wrapper", "lora", "A run with LoRA adapters asks, after the weights are loaded"),
    _Picker("get_static_graph_wrapper_cls", "static-graph", "A run with captured graphs asks"),
    _Picker("get_pass_manager_cls", "pass-manager", "A compiled model asks"),
    _Picker(
        "get_kv_cache_config_builder_cls", "kv-cache-builder", "The engine core asks when it plans the cache"
    ),
)


_WELL_KNOWN: Final = frozenset({"inductor", "eager"})
"""Backends that torch always has; looking others up imports its compiler, which takes seconds."""


def _answer(ctx: CheckContext, picker: _Picker) -> Any:
    """What the picker says in the plainest case.

    Raises:
        Unsupported: it declines, and may.
        Violation: it declines and may not, or raises.
        NotRun: the engine's call does not fit, which another check reports.
    """
    member = picker.member
    if ctx.owner(member) is None:
        raise Unsupported(f"the installed engine has no {member}")
    says = f"`{member}` gives the dotted name of a class."
    hint = f'Return "package.module.ClassName" from `{member}`.'
    if member == "get_attn_backend_cls":
        call = next(one for one in ctx.fitted.selector_calls() if one.must_answer)
        args, kwargs = call.args, call.kwargs
    else:
        known = ctx.adapter.arguments(member)
        if not known:
            raise NotRun(f"the adapter has no arguments for {member}")
        args, kwargs = known[0].args, known[0].kwargs
    try:
        with ctx.adapter.active(ctx.platform):
            answer = ctx.ask(member, *args, contract_says=says, hint=hint, **kwargs)
            again = ctx.ask(member, *args, contract_says=says, hint=hint, **kwargs)
    except Unsupported as declined:
        if not picker.must_answer:
            raise
        raise ctx.fail(
            member,
            contract_says=f"{says} {picker.asked}, so this picker may not decline a plain case.",
            platform_did=str(declined),
            hint=hint,
        ) from declined
    if answer != again:
        raise ctx.fail(
            member,
            contract_says=f"`{member}` gives the same name each time it gets the same question.",
            platform_did=f"it gave {kind_of(answer)}, and asked again {kind_of(again)}",
            hint=f"Let the answer of `{member}` depend on its arguments alone.",
        )
    if answer in ("", None) and member == "get_attn_backend_cls" and ctx.adapter.name != "native":
        worker = _own_worker(ctx)
        if worker:
            raise Unsupported(f"{member} gives no name, and {worker} is the platform's own worker")
    return answer


def _own_worker(ctx: CheckContext) -> str:
    """The dotted name of the platform's worker, if it takes nothing but the base from the engine; else empty.

    Such a worker brings its own runner, which builds none of the engine's attention layers.
    """
    base = next((one.base for one in ctx.adapter.picked() if one.picker == "worker_cls"), None)
    try:
        value = ctx.adapter.worker_cls_field(_configs.ran(ctx).config)
    except (_configs.Refused, NotRun, Skip, Violation):
        return ""
    name = value if isinstance(value, str) else ""
    if (
        not name
        or "." not in name
        or ctx.adapter.in_tree(type("Named", (), {"__module__": name.rpartition(".")[0]}))
    ):
        return ""
    try:
        with ctx.adapter.active(ctx.platform):
            cls: Any = ctx.adapter.resolve(name)
    except (Exception, SystemExit):
        return name  # its libraries are absent here; by its name it is no class of the engine
    engines = [one for one in getattr(cls, "__mro__", ()) if ctx.adapter.in_tree(one)]
    return name if base is None or all(issubclass(base, one) for one in engines) else ""


def asked(ctx: CheckContext, member: str) -> Any:
    """What a picker says in the plainest case; raises as its own check does."""
    return _answer(ctx, next(one for one in _PICKERS if one.member == member))


def says_of(member: str) -> str:
    """The rule about a picker's answer, as the beginning of a sentence."""
    return f"`{member}` gives the dotted name of a class"


def _base(ctx: CheckContext, member: str) -> PickedBase | None:
    return next((one for one in ctx.adapter.picked() if one.picker == member), None)


def _register(picker: _Picker) -> None:
    """Make the two checks of a picker: its name imports; what it names fits."""

    @check(
        f"pickers.{picker.slug}.importable",
        group="pickers",
        needs=("members.kinds", "identity.device-type"),
        asks=(picker.member,),
        why=f"{picker.asked}, and imports the name it gets.",
        hint=f"Let `{picker.member}` return the dotted name of a class that ships with the platform."
        + ("" if picker.must_answer else " Without such a component, raise NotSupported."),
    )
    def importable(ctx: CheckContext) -> None:
        resolve_class(ctx, picker.member, _answer(ctx, picker), says_of(picker.member))

    @check(
        f"pickers.{picker.slug}.surface",
        group="pickers",
        needs=(f"pickers.{picker.slug}.importable",),
        why="The engine calls the picked class as it calls its own; a missing method is found in a run.",
        hint="Derive the class from the engine's base and define what that leaves abstract.",
    )
    def surfaces(ctx: CheckContext) -> None:
        picked = _base(ctx, picker.member)
        if picked is None:
            raise Unsupported(f"the installed engine says nothing of what {picker.member} names")
        cls = resolve_class(ctx, picker.member, _answer(ctx, picker), says_of(picker.member))
        surface(ctx, picker.member, cls, picked)

    importable.__doc__ = f"`{picker.member}` names a class that imports, or declines."
    surfaces.__doc__ = f"What `{picker.member}` names derives from the engine's base and is whole."


for _one in _PICKERS:
    _register(_one)


@check(
    "pickers.attn-backend.selectors",
    group="pickers",
    needs=("pickers.attn-backend.importable",),
    why="Other kinds of layer ask too; None or an empty name is reported as an invalid backend of no name.",
    hint="Answer with a dotted name, or refuse with NotSupported or a ValueError that says what is lacking.",
)
def selectors(ctx: CheckContext) -> None:
    """Every kind of attention layer gets a name or a refusal with a reason."""
    member = "get_attn_backend_cls"
    if not ctx.overridden(member):
        raise Unsupported("the platform does not pick attention backends")
    violations: list[Violation] = []
    for call in ctx.fitted.selector_calls():
        says = f"For the {call.case} layer `{member}` gives a dotted name, or refuses with a reason."
        hint = (
            f"Raise NotSupported or a ValueError in `{member}` for that layer, as in "
            f'`raise ValueError("{call.case} attention is not supported")`, or return a dotted name.'
        )
        try:
            with ctx.adapter.active(ctx.platform):
                answer = getattr(ctx.platform, member)(*call.args, **call.kwargs)
        except (NotImplementedError, ValueError) as refused:
            ctx.details[f"refused ({call.case})"] = describe(refused)
            continue
        except (Exception, SystemExit) as error:
            if ctx.device_missing() and not isinstance(error, TypeError | AttributeError | NameError):
                ctx.details[f"not tried ({call.case})"] = describe(error)
            else:
                violations.append(ctx.raised(member, error, contract_says=says, hint=hint))
            continue
        if not isinstance(answer, str) or not answer:
            if answer in ("", None) and ctx.adapter.name != "native" and _own_worker(ctx):
                ctx.details[f"none ({call.case})"] = "the platform's own worker asks for none"
                continue
            violations.append(
                ctx.fail(member, contract_says=says, platform_did=f"it gave {kind_of(answer)}", hint=hint)
            )
            continue
        ctx.details[f"picked ({call.case})"] = answer
        fault = _nothing_there(ctx, answer)
        if fault:
            violations.append(
                ctx.fail(
                    member,
                    contract_says=says,
                    platform_did=f"it gave {answer!r}: {fault}",
                    hint=f"Correct the name in `{member}`, or raise NotSupported or a ValueError for this layer.",
                )
            )
    if violations:
        raise Violation(*(finding for violation in violations for finding in violation.findings))


def _nothing_there(ctx: CheckContext, qualname: str) -> str:
    """Say that a name leads to nothing in its own package; empty if it imports, or lacks another package.

    A backend for a rarer kind of layer may need a library that this machine has not got.
    """
    try:
        with ctx.adapter.active(ctx.platform):
            ctx.adapter.resolve(qualname)
    except (Exception, SystemExit) as error:
        causes: list[BaseException] = [error]
        while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
            causes.append(cause)
        if any(_is_about(one, qualname) for one in causes):
            return describe(error)
        ctx.details[f"does not import here: {qualname}"] = describe(error)
    return ""


def _is_about(error: BaseException, qualname: str) -> bool:
    """Say whether an error means that the name itself is wrong: a module or an attribute that is not there."""
    if isinstance(error, ModuleNotFoundError):
        # A top-level package that is absent may be a library which this machine has not got.
        return "." in (error.name or "") and qualname.startswith(f"{error.name}.")
    if isinstance(error, AttributeError):
        return getattr(error.obj, "__name__", "") == qualname.rpartition(".")[0]
    return isinstance(error, MalformedQualname | MissingName)


@check(
    "pickers.compile-backend",
    group="pickers",
    needs=("members.kinds", "identity.texts"),
    asks=("get_compile_backend",),
    why="The engine asks while it builds the config, before it knows whether anything is compiled.",
    hint='Return the name of a torch.compile backend, "inductor", or the dotted name of one of yours.',
)
def compile_backend(ctx: CheckContext) -> None:
    """`get_compile_backend` gives a name, and a dotted one leads to a callable."""
    member = "get_compile_backend"
    says = f"`{member}` gives the name of a torch.compile backend, or a dotted name that imports."
    hint = 'Return "inductor", "eager", or the dotted name of a backend that ships with the platform.'
    answer = ctx.ask(member, contract_says=says, hint=hint)
    if not isinstance(answer, str) or not answer:
        raise ctx.fail(member, contract_says=says, platform_did=f"it gave {kind_of(answer)}", hint=hint)
    if "." not in answer:
        unknown = [(member, answer)] if not _torch_compiles_with(answer) else []
        simple: Any = ctx.attribute("simple_compile_backend")
        if simple and "." not in simple and not _torch_compiles_with(simple):
            unknown.append(("simple_compile_backend", simple))
        if unknown:
            raise Violation(
                *(
                    ctx.finding(
                        name,
                        contract_says=f"`{name}` is the name of a torch.compile backend, or a dotted name that imports.",
                        platform_did=f"it is {value!r}, and torch knows no backend of that name",
                        hint=f"{hint} A backend of your own registers when the platform's module is imported, or "
                        "through the entry point group torch_dynamo_backends.",
                    )
                    for name, value in unknown
                )
            )
        return
    try:
        found = ctx.adapter.resolve(answer)
    except Exception as error:
        raise ctx.fail(
            member,
            contract_says=says,
            platform_did=f"it gave {answer!r}, which does not import: {describe(error)}",
            hint=hint,
        ) from error
    if not callable(found):
        raise ctx.fail(member, contract_says=says, platform_did=f"{answer!r} is {kind_of(found)}", hint=hint)


def _torch_compiles_with(name: str) -> bool:
    if name in _WELL_KNOWN:
        return True
    import importlib

    dynamo: Any = importlib.import_module("torch._dynamo")
    return name in dynamo.list_backends(exclude_tags=())


@check(
    "pickers.mla-prefill",
    group="pickers",
    needs=("members.kinds", "members.engine-calls"),
    asks=("get_mla_prefill_backend_cls",),
    why="A model with latent attention makes the class while its layers are built, and looks no name up.",
    hint="Return the class itself, or raise ValueError with the reasons where no backend is valid.",
)
def mla_prefill(ctx: CheckContext) -> None:
    """`get_mla_prefill_backend_cls` gives a class, or says that no backend is valid."""
    member = "get_mla_prefill_backend_cls"
    if not ctx.overridden(member):
        raise Unsupported(f"{member} is left to the base")
    says = (
        f"`{member}` gives the class itself, unlike the other pickers; ValueError or NotSupported declines."
    )
    hint = f"Return a class from `{member}`, or raise ValueError with the reasons."
    questions = ctx.adapter.arguments(member)
    if not questions:
        raise Unsupported(f"this engine does not ask for `{member}`")
    question = questions[0]
    try:
        with ctx.adapter.active(ctx.platform):
            answer = ctx.ask(member, *question.args, contract_says=says, hint=hint, **question.kwargs)
    except Violation as violation:
        if isinstance(violation.__cause__, ValueError):
            raise Unsupported(f"{member} declines: {describe(violation.__cause__)}") from violation
        raise
    if not isinstance(answer, type):
        raise ctx.fail(member, contract_says=says, platform_did=f"it gave {kind_of(answer)}", hint=hint)


@check(
    "pickers.vit-backend",
    group="pickers",
    needs=("members.kinds", "members.engine-calls"),
    asks=("get_vit_attn_backend", "get_supported_vit_attn_backends"),
    why="Vision models check the answer against the platform's own list and stop where it is not in it.",
    hint="Return one of get_supported_vit_attn_backends().",
)
def vit_backend(ctx: CheckContext) -> None:
    """The backend for vision encoders is one of those that the platform lists."""
    member, listing = "get_vit_attn_backend", "get_supported_vit_attn_backends"
    says = f"`{member}` answers with one of the backends that `{listing}` lists."
    hint = f"Add the backend to `{listing}`, or answer with one of the listed ones."
    with ctx.adapter.active(ctx.platform):
        listed = ctx.ask(listing, contract_says=f"`{listing}` gives a list of backends.", hint=hint)
        if not is_a(listed, list, tuple):
            raise ctx.fail(
                listing,
                contract_says=f"`{listing}` gives a list of backends, an empty one where there is none.",
                platform_did=f"it gave {kind_of(listed)}",
                hint="Return a list of members of the engine's attention backend enum.",
            )
        for call, answer in ctx.ask_all(member, contract_says=says, hint=hint):
            if answer not in listed:
                raise ctx.fail(
                    member,
                    contract_says=says,
                    platform_did=f"{call} gave {kind_of(answer)}, and the list is {listed!r}",
                    hint=hint,
                )
