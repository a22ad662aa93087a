"""Overrides without effect: names that no engine asks for, and members that another one hides."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from conformance.checks._spellings import FORMER, meant, used_in
from conformance.context import CheckContext, describe, kind_of, locate, locate_attribute, short
from conformance.engines.base import Member
from conformance.model import Finding, Level, Violation
from conformance.registry import check

_LARGE: Final = 300
_FIRST: Final = frozenset({"cls", "self"})


def _vendor_classes(ctx: CheckContext) -> list[type]:
    """The classes of the MRO that neither the engine nor Python ships, the platform's own first."""
    return [
        one
        for one in ctx.platform_cls.__mro__
        if not ctx.adapter.in_tree(one) and one.__module__.partition(".")[0] not in sys.stdlib_module_names
    ]


def _own_names(ctx: CheckContext) -> Iterator[tuple[str, type]]:
    """Every name that a class of the vendor's defines and that the engine's base does not have."""
    base = ctx.adapter.base_class()
    seen: set[str] = set()
    for cls in _vendor_classes(ctx):
        for name in vars(cls):
            dunder = name.startswith("__") and name.endswith("__")
            if name in seen or dunder or inspect.getattr_static(base, name, None) is not None:
                continue
            seen.add(name)
            if name not in ctx.adapter.members():
                yield name, cls


def _read_by_engine(ctx: CheckContext) -> frozenset[str]:
    return frozenset(one.member for one in ctx.adapter.engine_calls())


def _package(cls: type) -> Path | None:
    """The folder of the vendor's package; of the module alone where that is much smaller."""
    top = sys.modules.get(cls.__module__.partition(".")[0])
    file: str = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    top_file: str = getattr(top, "__file__", None) or ""
    if not file:
        return None
    if top_file and Path(top_file).name == "__init__.py" and Path(top_file).parent in Path(file).parents:
        folder = Path(top_file).parent
        if sum(1 for _ in folder.rglob("*.py")) <= _LARGE:
            return folder
    return Path(file).parent if Path(file).name != "__init__.py" or top_file else None


def _is_used(cls: type, name: str) -> bool:
    folder = _package(cls)
    return folder is not None and used_in(folder, name)


def _place(ctx: CheckContext, cls: type, name: str) -> str:
    return locate(vars(cls)[name]) or locate_attribute(cls, name) or locate(cls) or ctx.locate()


@check(
    "members.stale",
    group="identity",
    severity="should",
    per_member=True,
    level=Level.CONTRACT,
    why="The installed engine never asks for it: what it says has no effect, whatever it was once for.",
    hint="Remove it, or say in a comment for which older engine it stays.",
)
def stale(ctx: CheckContext) -> None:
    """No member is left that the interface no longer has."""
    read = _read_by_engine(ctx)
    findings: list[Finding] = []
    for name, cls in _own_names(ctx):
        if name not in FORMER or name in read:
            continue
        version, now = FORMER[name]
        instead = f" Its place has `{now}`." if now else ""
        findings.append(
            ctx.finding(
                name,
                contract_says=f"`{name}` has not been a member of the interface since vLLM {version}.{instead}",
                platform_did=f"{cls.__name__} defines `{name}`, which this engine neither has nor asks for",
                hint=f"Move it to `{now}`." if now else f"Remove `{name}`; keep it only for an older engine.",
                location=_place(ctx, cls, name),
            )
        )
    if findings:
        raise Violation(*findings)


@check(
    "members.misspelt",
    group="identity",
    severity="should",
    per_member=True,
    level=Level.CONTRACT,
    why="A hook under another name is never called, and the base's default serves in its place without a word.",
    hint="Give it the member's exact name; if it is a helper, call it from your code.",
)
def misspelt(ctx: CheckContext) -> None:
    """No name of the class is a member's name but for a slip, unless the platform has that member too."""
    findings: list[Finding] = []
    read = _read_by_engine(ctx)
    for name, cls in _own_names(ctx):
        if name in FORMER or name in read:
            continue
        member = meant(name, ctx.adapter.members())
        if not member or ctx.overridden(member) or _is_used(cls, name):
            continue
        findings.append(
            ctx.finding(
                name,
                contract_says=f"The engine asks for `{member}`; it does not know `{name}`.",
                platform_did=f"{cls.__name__} defines `{name}`, leaves `{member}` to the base, and nothing in its "
                f"package uses `{name}`",
                hint=f"Rename `{_written(cls, name)}` to `{member}`, if that is meant.",
                location=_place(ctx, cls, name),
            )
        )
    findings.extend(_outside_the_class(ctx))
    if findings:
        raise Violation(*findings)


def _written(cls: type, name: str) -> str:
    """A name as its source has it: Python puts the class's before one that begins with `__`."""
    return name.removeprefix(f"_{cls.__name__.lstrip('_')}") if "__" in name else name


def _outside_the_class(ctx: CheckContext) -> Iterator[Finding]:
    """Functions with a member's name and `cls` or `self` first that stand outside the class, mostly by indentation."""
    for cls in _vendor_classes(ctx):
        tree = _source(cls)
        module = sys.modules.get(cls.__module__)
        stray: list[tuple[str, str]] = []
        for name, member in ctx.adapter.members().items():
            thing: Any = getattr(module, name, None)
            thing = getattr(thing, "__func__", thing)
            if (
                member.kind == "attribute"
                or not inspect.isfunction(thing)
                or thing.__module__ != cls.__module__
            ):
                continue
            if next(iter(inspect.signature(thing).parameters), "") in _FIRST:
                stray.append((name, locate(thing)))
        if tree is not None:
            stray.extend(_nested(ctx, cls, tree))
        for name, place in stray:
            if ctx.overridden(name) or _set_from_outside(ctx, name):
                continue
            yield ctx.finding(
                name,
                contract_says=f"`{name}` is a member of the platform's class.",
                platform_did=f"the function `{name}` stands outside the body of {cls.__name__}, so the class has the "
                "base's",
                hint=f"Move `def {name}` into the body of {cls.__name__}, with `@classmethod` above it: it may be a matter "
                "of indentation.",
                location=place or ctx.locate(),
            )


def _set_from_outside(ctx: CheckContext, name: str) -> bool:
    owner = ctx.owner(name)
    return owner is None or not ctx.adapter.in_tree(owner)


def _nested(ctx: CheckContext, cls: type, tree: ast.ClassDef) -> Iterator[tuple[str, str]]:
    file = inspect.getsourcefile(cls)
    first = inspect.getsourcelines(cls)[1]
    for outer in tree.body:
        if not isinstance(outer, ast.FunctionDef | ast.ClassDef):
            continue
        for node in ast.walk(outer):
            if (
                node is outer
                or not isinstance(node, ast.FunctionDef)
                or node.name not in ctx.adapter.members()
            ):
                continue
            if node.args.args and node.args.args[0].arg in _FIRST:
                yield node.name, f"{file}:{first + node.lineno - 1}"


def _source(cls: type) -> ast.ClassDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (TypeError, OSError, SyntaxError, ValueError):
        return None
    return tree.body[0] if tree.body and isinstance(tree.body[0], ast.ClassDef) else None


# ---------------------------------------------------------------------------------------- hidden


def _behind_the_base(ctx: CheckContext) -> Iterator[Finding]:
    """Members of a mixin that comes after the engine's class in the MRO, which answers first."""
    mro = ctx.platform_cls.__mro__
    base = ctx.adapter.base_class()
    last = mro.index(base)
    for cls in mro[last + 1 :]:
        if ctx.adapter.in_tree(cls) or cls in base.__mro__:
            continue
        for name in sorted(set(vars(cls)) & set(ctx.adapter.members())):
            owner = ctx.owner(name)
            if owner is None or owner is cls or not ctx.adapter.in_tree(owner):
                continue
            yield ctx.finding(
                name,
                contract_says="Python takes a member from the first class of the bases that has it.",
                platform_did=f"{cls.__name__} defines `{name}`, and {owner.__name__}, which stands before it among "
                f"the bases of {ctx.platform_cls.__name__}, has it too, so the engine gets that one",
                hint=f"Put {cls.__name__} before the engine's class: class {ctx.platform_cls.__name__}("
                f"{cls.__name__}, …).",
                location=_place(ctx, cls, name),
            )


def _written_twice(ctx: CheckContext) -> Iterator[Finding]:
    """Members that one class body defines two times, of which the second counts."""
    for cls in _vendor_classes(ctx):
        tree = _source(cls)
        if tree is None:
            continue
        first: dict[str, int] = {}
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef) or _decorated_in_pairs(node):
                continue
            if node.name in first and node.name in ctx.adapter.members():
                line = inspect.getsourcelines(cls)[1]
                yield ctx.finding(
                    node.name,
                    contract_says="A class has one member of a name: what its body defines last.",
                    platform_did=f"{cls.__name__} defines `{node.name}` in line {line + first[node.name] - 1} and again "
                    f"in line {line + node.lineno - 1}, so the first one never runs",
                    hint=f"Remove one of the two definitions of `{node.name}`.",
                    location=f"{inspect.getsourcefile(cls)}:{line + first[node.name] - 1}",
                )
            first.setdefault(node.name, node.lineno)


def _decorated_in_pairs(node: ast.FunctionDef) -> bool:
    """Say whether a decorator makes several definitions of a name belong together."""
    names = {
        one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "")
        for call in node.decorator_list
        for one in [call.func if isinstance(call, ast.Call) else call]
    }
    return bool(names & {"overload", "setter", "getter", "deleter", "register"})


def _named_in_getattr(ctx: CheckContext) -> Iterator[Finding]:
    """Members that an own `__getattr__` answers: Python asks it only for what the class does not have."""
    owner = ctx.owner("__getattr__")
    if owner is None or ctx.adapter.in_tree(owner):
        return
    raw = vars(owner)["__getattr__"]
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(raw)))
    except (TypeError, OSError, SyntaxError, ValueError):
        return
    parameters = list(inspect.signature(raw).parameters)
    asked = parameters[1] if len(parameters) > 1 else ""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Name) or node.left.id != asked:
            continue
        if not isinstance(node.ops[0], ast.Eq | ast.In):
            continue
        for one in ast.walk(node.comparators[0]):
            name = one.value if isinstance(one, ast.Constant) else None
            if not isinstance(name, str) or name not in ctx.adapter.members():
                continue
            if inspect.getattr_static(ctx.platform_cls, name, None) is None:
                continue
            yield ctx.finding(
                name,
                contract_says="Python calls `__getattr__` only for names that the class does not have.",
                platform_did=f"`__getattr__` of {owner.__name__} answers `{name}`, which the class has, so that branch "
                "never runs",
                hint=f"Define `{name}` in the class body instead.",
                location=locate(raw) or ctx.locate(),
            )


def _on_the_metaclass(ctx: CheckContext) -> Iterator[Finding]:
    """Members on a metaclass: the instance, which the engine asks, never sees them."""
    known = inspect.getmro(type(ctx.adapter.base_class()))
    for cls in inspect.getmro(type(ctx.platform_cls)):
        if ctx.adapter.in_tree(cls) or cls.__module__ in sys.stdlib_module_names or cls in known:
            continue
        for name in sorted(set(vars(cls)) & set(ctx.adapter.members())):
            if ctx.overridden(name):
                continue
            yield ctx.finding(
                name,
                contract_says="The engine asks the platform's instance, which has no part in the metaclass.",
                platform_did=f"the metaclass {cls.__name__} defines `{name}`, and the class leaves it to the base",
                hint=f"Define `{name}` in {ctx.platform_cls.__name__}.",
                location=_place(ctx, cls, name),
            )


@check(
    "members.hidden",
    group="identity",
    severity="should",
    per_member=True,
    level=Level.CONTRACT,
    why="The definition looks like an override and never runs: the engine gets what hides it.",
    hint="Define the member once, in the class or in a base that comes before the engine's.",
)
def hidden(ctx: CheckContext) -> None:
    """Every definition of a member is the one that the engine gets, none is hidden by another."""
    findings = [
        *_behind_the_base(ctx),
        *_written_twice(ctx),
        *_named_in_getattr(ctx),
        *_on_the_metaclass(ctx),
    ]
    if findings:
        raise Violation(*findings)


# ------------------------------------------------------------------------- class and instance


def _core(answer: Any) -> Any:
    """What tells two answers apart: the function behind a bound method, else the answer."""
    answer = getattr(answer, "__func__", answer)
    while isinstance(answer, functools.partial):
        answer = answer.func
        answer = getattr(answer, "__func__", answer)
    return answer


def _differs(on_class: Any, on_instance: Any) -> bool:
    one, other = _core(on_class), _core(on_instance)
    if one is other or getattr(one, "__code__", one) is getattr(other, "__code__", other):
        return False
    made_anew = not inspect.isroutine(one) or not inspect.isroutine(other)
    return not (made_anew and type(one) is type(other))


@check(
    "members.one-answer",
    group="identity",
    per_member=True,
    level=Level.CONTRACT,
    needs=("members.kinds",),
    why="Engines call the same member on the instance and on the class; two answers contradict each other.",
    hint="Define the member in the class body, and assign nothing of its name to an instance.",
)
def one_answer(ctx: CheckContext) -> None:
    """A method is the same one on the class and on its instance."""
    findings: list[Finding] = []
    for name, member in ctx.adapter.members().items():
        if member.kind not in ("classmethod", "staticmethod", "method"):
            continue
        fault = _two_answers(ctx, member)
        if fault:
            intercepts = ctx.overridden("__getattribute__") and name not in vars(ctx.platform)
            findings.append(
                ctx.finding(
                    name,
                    contract_says=f"`{name}` is the same on the class and on its instance: engines call it on both.",
                    platform_did=fault,
                    hint=f"Define `{name}` in the class body, and remove "
                    + (
                        "`__getattribute__`, which answers it for instances alone."
                        if intercepts
                        else f"what sets `self.{name}`."
                    ),
                    location=ctx.locate("__getattribute__") if intercepts else ctx.locate_on_instance(name),
                )
            )
    if findings:
        raise Violation(*findings)


def _two_answers(ctx: CheckContext, member: Member) -> str:
    try:
        on_class: Any = getattr(ctx.platform_cls, member.name)
    except Exception as error:
        return f"read on the class it raised {describe(error)}"
    try:
        on_instance: Any = getattr(ctx.platform, member.name)
    except Exception as error:
        return f"read on an instance it raised {describe(error)}"
    if not callable(on_instance):
        return f"on the class it is {short(on_class, 60)}, and an instance says {kind_of(on_instance)}"
    if _differs(on_class, on_instance):
        return f"on the class it is {_called(on_class)}, and on an instance {_called(on_instance)}"
    return ""


def _called(answer: Any) -> str:
    core = _core(answer)
    name = getattr(core, "__qualname__", short(core, 60))
    place = locate(core)
    return f"`{name}`" + (f" at {place.rpartition('/')[2]}" if place else "")


# ---------------------------------------------------------------------------------- redundant


@check(
    "members.redundant",
    group="identity",
    severity="should",
    per_member=True,
    level=Level.CONTRACT,
    why="A copy of the base's code stays behind when the base changes, and hides that it did.",
    hint="Remove the copy: the base's own serves.",
)
def redundant(ctx: CheckContext) -> None:
    """No override repeats the base's code word for word."""
    findings: list[Finding] = []
    for name, member in ctx.adapter.members().items():
        owner = ctx.owner(name)
        if owner is None or ctx.adapter.in_tree(owner) or member.kind == "attribute":
            continue
        mine, theirs = _body(ctx.raw(name)), _body(member.value)
        if len(mine) > 1 and mine == theirs:
            findings.append(
                ctx.finding(
                    name,
                    contract_says=f"`{name}` is overridden where the platform differs from the base.",
                    platform_did=f"{owner.__name__}.{name} has the very statements of the base",
                    hint=f"Remove `{name}` from {owner.__name__}.",
                )
            )
    if findings:
        raise Violation(*findings)


def _body(raw: Any) -> list[str]:
    """The statements of a function without its docstring, in one spelling."""
    function: Any = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
    if not inspect.isfunction(function):
        return []
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (TypeError, OSError, SyntaxError, ValueError):
        return []
    definition = tree.body[0] if tree.body else None
    if not isinstance(definition, ast.FunctionDef):
        return []
    statements = definition.body[1:] if ast.get_docstring(definition) is not None else definition.body
    return [ast.dump(one) for one in statements]
