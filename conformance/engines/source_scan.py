"""Find in an engine's source every call and read of its `current_platform`, with what guards it.

Signatures are judged against what an engine really passes, and a member that raises matters only
where an engine uses it, so adapters read the installed engine's source instead of a list that ages.
A whole engine has thousands of files: only files that mention the platform are parsed, and of those
only the top-level statements that do.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import attrs

from conformance.engines.base import EngineCall

Via = Literal["instance", "class"]
Common = Callable[[str, str], bool]
"""`common(file, function)`: is this place, `pkg/mod.py` and `Class.method`, on every run's path?"""

_NAME: Final = "current_platform"
_TOLERANT: Final = {"NotImplementedError", "RuntimeError", "Exception", "BaseException"}
_TOP_LEVEL: Final = re.compile(r"^(?=[A-Za-z_@])", re.MULTILINE)
_CONTINUES: Final = re.compile(r"(else|elif|except|finally|case)\b")
_PARAMETER: Final = re.compile(r"(\w+)\((\w+)\)")
_FOLDERS: Final = {"nvidia": "is_cuda", "amd": "is_rocm", "rocm": "is_rocm", "xpu": "is_xpu"}
"""What an engine's folder for one vendor's devices asks of the platform that gets there."""
_PREDICATE: Final = re.compile(r"(is|has|use|uses|support|supports|can|enable)_\w+")


def scan(
    root: Path,
    *,
    common: Common,
    pattern: str = "*.py",
    skip: Sequence[str] = (),
    parameters: frozenset[str] = frozenset(),
    base_classes: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> tuple[EngineCall, ...]:
    """Return every use of the platform in the package at `root`, in order of file and line.

    Args:
        root: the package's folder.
        common: says which places every plain run passes.
        pattern: of the names of files to read.
        skip: path prefixes below `root` not to read, `platforms/` for the platforms themselves.
        parameters: names of function parameters that hold a platform, where an engine passes it on.
        base_classes: by file below `root`, the classes that are the base of platforms; what they
            ask of `self` and `cls` counts as a call, for a platform's override answers it.
    """
    found: list[EngineCall] = []
    names = tuple(sorted({_NAME, *parameters}))
    for path in sorted(root.rglob(pattern)):
        relative = path.relative_to(root).as_posix()
        bases = tuple(base_classes.get(relative, ()))
        if not bases and relative.startswith(tuple(skip)):
            continue
        stat = path.stat()
        for use in _uses_of_file(str(path), stat.st_mtime_ns, stat.st_size, names, bases):
            site = f"{root.name}/{relative}"
            folders = dict.fromkeys(_FOLDERS[one] for one in relative.split("/")[:-1] if one in _FOLDERS)
            found.append(
                EngineCall(
                    member=use.member,
                    positional=use.positional,
                    keywords=use.keywords,
                    site=f"{site}:{use.line}",
                    common=common(site, use.function),
                    guarded=use.guarded,
                    via=use.via,
                    is_read=use.is_read,
                    exact=use.exact,
                    requires=(*folders, *use.requires),
                )
            )
    return tuple(found)


def applies(requires: Iterable[str], platform: object) -> bool:
    """Say whether the conditions around a use can hold for this platform.

    A condition is one or more alternatives joined by `|`: `is_cuda`, `!is_cuda`, `device_type=cpu`,
    `validate_request(prompt)` where the engine looks for a parameter first. One that the platform
    cannot answer counts as possible.
    """
    return all(any(_holds(literal, platform) for literal in one.split("|")) for one in requires)


def _holds(literal: str, platform: object) -> bool:
    wanted = not literal.startswith("!")
    name, _, value = literal.removeprefix("!").partition("=")
    try:
        looked_for = _PARAMETER.fullmatch(name)
        if looked_for is not None:
            return _takes(getattr(platform, looked_for[1]), looked_for[2]) is wanted
        answer = getattr(platform, name)
        holds = str(answer) == value if value else bool(answer())
    except Exception:
        return True  # the platform's failure to answer is another check's finding
    return holds is wanted


def _takes(member: Callable[..., object], parameter: str) -> bool:
    return parameter in inspect.signature(member).parameters


@attrs.frozen
class _Use:
    member: str
    positional: int
    keywords: tuple[str, ...]
    line: int
    function: str
    guarded: bool
    via: Via
    is_read: bool
    exact: bool
    requires: tuple[str, ...]


@cache
def _uses_of_file(
    path: str, mtime_ns: int, size: int, names: tuple[str, ...], bases: tuple[str, ...]
) -> tuple[_Use, ...]:
    """Scan one file; the cache key holds its time and size, so an edited file is read again."""
    source = Path(path).read_bytes()
    if not bases and not any(name.encode() in source for name in names):
        return ()
    text = source.decode("utf-8", errors="replace")
    scope = _Scope(names, bases)
    uses: list[_Use] = []
    statements = list(_statements(text, names, whole=bool(bases)))
    for statement, _ in statements:
        scope.learn(statement)
    if set(scope.aliases) - set(names):  # the module has another name for it: look for that too
        statements = list(_statements(text, tuple(scope.aliases), whole=bool(bases)))
    for statement, offset in statements:
        for use in _Walk(scope).statement(statement):
            uses.append(attrs.evolve(use, line=use.line + offset))
    return tuple(uses)


def _statements(text: str, names: tuple[str, ...], *, whole: bool) -> Iterator[tuple[ast.stmt, int]]:
    """Yield the top-level statements that mention a name, each with its line offset."""
    try:
        pieces = [(text, 0)] if whole else list(_pieces(text, names))
        parsed = [(ast.parse(piece), offset) for piece, offset in pieces]
    except (SyntaxError, ValueError):
        try:
            parsed = [(ast.parse(text), 0)]  # a string held text at column 0, and the cut went through it
        except (SyntaxError, ValueError):
            return  # a template or a file for another Python: nothing that runs here
    for module, offset in parsed:
        for statement in module.body:
            yield statement, offset


def _pieces(text: str, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    starts = [match.start() for match in _TOP_LEVEL.finditer(text)]
    keep: list[int] = []
    decorated = False
    for start in starts:
        if not decorated and not _CONTINUES.match(text, start):
            keep.append(start)
        decorated = text[start] == "@"
    ends = [*keep[1:], len(text)]
    for start, end in zip(keep, ends, strict=True):
        piece = text[start:end]
        if any(name in piece for name in names):
            yield piece, text.count("\n", 0, start)


@attrs.define
class _Scope:
    """What a file calls the platform, and which of its variables hold an answer about it."""

    names: tuple[str, ...]
    bases: tuple[str, ...]
    aliases: dict[str, Via] = attrs.field(factory=dict[str, Via])
    conditions: dict[str, ast.expr] = attrs.field(factory=dict[str, ast.expr])
    signatures: dict[str, str] = attrs.field(factory=dict[str, str])
    kinds: set[str] = attrs.field(factory=set[str])
    helpers: dict[str, tuple[str, ...]] = attrs.field(factory=dict[str, tuple[str, ...]])

    def __attrs_post_init__(self) -> None:
        self.aliases.update(dict.fromkeys(self.names, "instance"))

    def learn(self, statement: ast.stmt) -> None:
        """Take in the imports and module-level constants of one statement."""
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                if alias.name == _NAME:
                    self.aliases[alias.asname or alias.name] = "instance"
        elif isinstance(statement, ast.FunctionDef):
            # `if not current_platform.is_cuda(): return False`: where the function says yes, that holds.
            for one in statement.body:
                if isinstance(one, ast.If) and ast.unparse(one.body[0]) == "return False":
                    known = self.helpers.get(statement.name, ())
                    self.helpers[statement.name] = (*known, *self.facts(one.test)[1])
        self.assign(statement)

    def assign(self, statement: ast.stmt) -> None:
        """Follow `p = current_platform`, `cls = type(current_platform)` and `on_cuda = p.is_cuda()`."""
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            return
        if isinstance(target, ast.Attribute) and isinstance(value, ast.Attribute):
            if value.attr == target.attr and self.platform(value.value):
                self.kinds.add(target.attr)  # `self.device_type = current_platform.device_type`
        elif isinstance(target, ast.Name):
            via = self.platform(value)
            if via is not None:
                self.aliases[target.id] = via
            elif any(self.facts(value)):
                self.conditions[target.id] = value
            elif looked_at := self.signature(value):
                self.signatures[target.id] = looked_at

    def nested(self) -> _Scope:
        """A copy for one function, whose local names end with it."""
        return attrs.evolve(
            self,
            aliases=dict(self.aliases),
            conditions=dict(self.conditions),
            signatures=dict(self.signatures),
            kinds=set(self.kinds),
        )

    def platform(self, node: ast.expr) -> Via | None:
        """Say whether an expression is the platform, or its class."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id)
        if isinstance(node, ast.Attribute):
            if node.attr == _NAME:
                return "instance"
            return "class" if node.attr == "__class__" and self.platform(node.value) else None
        is_type = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"
        if is_type and isinstance(node, ast.Call) and len(node.args) == 1:
            return "class" if self.platform(node.args[0]) else None
        return None

    def signature(self, node: ast.expr) -> str:
        """The member whose signature an expression looks at, `inspect.signature(current_platform.x)`; or empty."""
        if isinstance(node, ast.Name):
            return self.signatures.get(node.id, "")
        if not isinstance(node, ast.Call) or len(node.args) != 1:
            return ""
        called, member = node.func, node.args[0]
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        asks = name == "signature" and isinstance(member, ast.Attribute) and self.platform(member.value)
        return member.attr if asks and isinstance(member, ast.Attribute) else ""

    def facts(self, test: ast.expr) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What holds where `test` is true, and what holds where it is false."""
        if isinstance(test, ast.Name) and test.id in self.conditions:
            return self.facts(self.conditions[test.id])
        if isinstance(test, ast.Call) and isinstance(test.func, ast.Name):
            return self.helpers.get(test.func.id, ()), ()
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            true, false = self.facts(test.operand)
            return false, true
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotIn) and len(test.ops) == 1:
            true, false = self.facts(ast.Compare(test.left, [ast.In()], test.comparators))
            return false, true
        if isinstance(test, ast.BoolOp):
            parts = [self.facts(value) for value in test.values]
            all_true = tuple(fact for true, _ in parts for fact in true)
            all_false = tuple(fact for _, false in parts for fact in false)
            if isinstance(test.op, ast.And):
                return all_true, _either([false for _, false in parts])
            return _either([true for true, _ in parts]), all_false
        literal = self._literal(test)
        if not literal:
            return (), ()
        alternatives = literal.split("|")
        return (literal,), tuple(f"!{one}" for one in alternatives)

    def _literal(self, test: ast.expr) -> str:
        if isinstance(test, ast.Compare) and isinstance(test.left, ast.Constant):
            return self._parameter(test, test.left)
        if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute):
            simple = not test.args and not test.keywords and self.platform(test.func.value)
            return test.func.attr if simple and _PREDICATE.fullmatch(test.func.attr) else ""
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Attribute):
            known = test.left.attr in self.kinds or self.platform(test.left.value)
            if test.left.attr not in {"device_type", "device_name"} or not known:
                return ""
            values = test.comparators[0]
            elements = values.elts if isinstance(values, ast.Tuple | ast.List | ast.Set) else [values]
            words = [str(node.value) for node in elements if isinstance(node, ast.Constant)]
            if isinstance(test.ops[0], ast.Eq | ast.In) and len(words) == len(elements):
                return "|".join(f"{test.left.attr}={word}" for word in words)
        return ""

    def _parameter(self, test: ast.Compare, name: ast.Constant) -> str:
        """`"prompt" in signature.parameters` as `validate_request(prompt)`; any other comparison is empty."""
        where = test.comparators[0]
        if not isinstance(where, ast.Attribute) or where.attr != "parameters":
            return ""
        member = self.signature(where.value)
        asks = isinstance(name.value, str) and isinstance(test.ops[0], ast.In)
        return f"{member}({name.value!s})" if member and asks else ""


def _either(sides: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Join sides of which one holds; only single conditions can be joined without loss."""
    if any(len(side) != 1 for side in sides):
        return ()
    return ("|".join(side[0] for side in sides),)


@attrs.frozen
class _Walk:
    """A walk through statements and expressions that carries what guards the current place."""

    scope: _Scope
    function: str = ""
    requires: tuple[str, ...] = ()
    guarded: bool = False

    def under(self, facts: tuple[str, ...]) -> _Walk:
        """The walk inside a branch where `facts` hold."""
        return attrs.evolve(self, requires=(*self.requires, *facts)) if facts else self

    def body(self, statements: Sequence[ast.stmt]) -> Iterator[_Use]:
        """Walk a block; after `if test: return`, the rest of the block is under `not test`."""
        walk = self
        for statement in statements:
            yield from walk.statement(statement)
            if isinstance(statement, ast.If):
                true, false = walk.scope.facts(statement.test)
                if _leaves(statement.body):
                    walk = walk.under(false)
                elif statement.orelse and _leaves(statement.orelse):
                    walk = walk.under(true)
            elif isinstance(statement, ast.Assert):
                walk = walk.under(walk.scope.facts(statement.test)[0])

    def statement(self, node: ast.stmt) -> Iterator[_Use]:
        """Walk one statement."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for outer in (*node.decorator_list, *_defaults(node)):
                yield from self.expression(outer)
            name = f"{self.function}.{node.name}" if self.function else node.name
            scope = self.scope.nested()
            if isinstance(node, ast.ClassDef) and node.name in scope.bases:
                scope.aliases.update({"self": "instance", "cls": "class"})
            inner = attrs.evolve(self, scope=scope, function=name, guarded=False)
            yield from inner.body(node.body)
        elif isinstance(node, ast.If):
            true, false = self.scope.facts(node.test)
            yield from self.expression(node.test)
            yield from self.under(true).body(node.body)
            yield from self.under(false).body(node.orelse)
        elif isinstance(node, ast.Try | ast.TryStar):
            tolerant = any(_tolerates(handler.type) for handler in node.handlers)
            yield from attrs.evolve(self, guarded=self.guarded or tolerant).body(node.body)
            for handler in node.handlers:
                yield from self.body(handler.body)
            yield from self.body(node.orelse)
            yield from self.body(node.finalbody)
        elif isinstance(node, ast.With | ast.AsyncWith):
            suppressed = any(_suppresses(item.context_expr) for item in node.items)
            for item in node.items:
                yield from self.expression(item.context_expr)
            yield from attrs.evolve(self, guarded=self.guarded or suppressed).body(node.body)
        elif isinstance(node, ast.ImportFrom):
            self.scope.learn(node)
        else:
            self.scope.assign(node)
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.stmt):
                    continue
                yield from self.node(child)
            for block in ("body", "orelse"):
                yield from self.body(getattr(node, block, []))

    def node(self, node: ast.AST) -> Iterator[_Use]:
        """Walk any node below a statement."""
        if isinstance(node, ast.expr):
            yield from self.expression(node)
        elif isinstance(node, ast.match_case):
            yield from self.body(node.body)
        else:
            for child in ast.iter_child_nodes(node):
                yield from self.node(child)

    def expression(self, node: ast.expr) -> Iterator[_Use]:
        """Walk one expression; the later operands of `and` and `or` are under the earlier ones."""
        if isinstance(node, ast.BoolOp):
            walk = self
            for value in node.values:
                yield from walk.expression(value)
                true, false = walk.scope.facts(value)
                walk = walk.under(true if isinstance(node.op, ast.And) else false)
            return
        if isinstance(node, ast.IfExp):
            true, false = self.scope.facts(node.test)
            yield from self.expression(node.test)
            yield from self.under(true).expression(node.body)
            yield from self.under(false).expression(node.orelse)
            return
        use, rest = self.use(node)
        if use is not None:
            yield use
        for child in rest:
            yield from self.node(child)

    def use(self, node: ast.expr) -> tuple[_Use | None, Iterable[ast.AST]]:
        """The use that this expression is, if it is one, and the parts still to be walked."""
        target = node.func if isinstance(node, ast.Call) else node
        read = self.member(target)
        call = node if isinstance(node, ast.Call) else None
        if read is None and call is not None:
            read, call = self.member(call), None  # `getattr(current_platform, "x")` by itself
        if read is None:
            return None, ast.iter_child_nodes(node)
        member, via, tolerant = read
        positional = call.args if call else []
        keywords = call.keywords if call else []
        exact = not any(isinstance(one, ast.Starred) for one in positional)
        use = _Use(
            member=member,
            positional=sum(not isinstance(one, ast.Starred) for one in positional),
            keywords=tuple(one.arg for one in keywords if one.arg),
            line=node.lineno,
            function=self.function,
            guarded=self.guarded or tolerant,
            via=via,
            is_read=call is None,
            exact=exact and all(one.arg for one in keywords),
            requires=self.requires,
        )
        return use, (*positional, *(one.value for one in keywords))

    def member(self, node: ast.expr) -> tuple[str, Via, bool] | None:
        """`current_platform.x` or `getattr(current_platform, "x")`: the name, how, and if optional."""
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            via = self.scope.platform(node.value)
            dunder = node.attr.startswith("__") and node.attr.endswith("__")
            return (node.attr, via, False) if via and not dunder else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= 2:
            via = self.scope.platform(node.args[0])
            literal = node.args[1]
            if via and node.func.id in {"getattr", "hasattr"} and isinstance(literal, ast.Constant):
                optional = node.func.id == "hasattr" or len(node.args) > 2
                return str(literal.value), via, optional
        return None


def _defaults(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[ast.expr]:
    if isinstance(node, ast.ClassDef):
        yield from node.bases
    else:
        yield from node.args.defaults
        yield from (default for default in node.args.kw_defaults if default is not None)


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def _tolerates(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(name, ast.Name) and name.id in _TOLERANT for name in names)


def _suppresses(context: ast.expr) -> bool:
    if not isinstance(context, ast.Call):
        return False
    name = context.func.attr if isinstance(context.func, ast.Attribute) else getattr(context.func, "id", "")
    return name == "suppress" and any(_tolerates(one) for one in context.args)


def by_member(calls: Iterable[EngineCall]) -> Mapping[str, tuple[EngineCall, ...]]:
    """Group uses by member, the common ones first."""
    grouped: dict[str, list[EngineCall]] = {}
    for call in calls:
        grouped.setdefault(call.member, []).append(call)
    return {name: tuple(sorted(uses, key=lambda use: not use.common)) for name, uses in grouped.items()}
