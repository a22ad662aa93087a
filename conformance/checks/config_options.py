"""The platform's own options, as users write them: a section without its keys, a key without a value."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from conformance.checks import _configs
from conformance.context import ApartFailed, CheckContext, is_a, short
from conformance.model import Finding, NotRun, Skip, Violation
from conformance.registry import check

_MOST: Final = 16
_OPTIONS: Final = "additional_config"
_UNKNOWN: Final[dict[str, Any]] = {
    "conformance_kit": {"probe": 1},
    "conformance-kit.x": None,
    "": [],
    "Ünknown": {"": None},
}


_EMPTY: Final[tuple[Any, ...]] = ({}, None, "", [])


class _Asked(dict[str, Any]):
    """Options that note which keys are asked for."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: dict[str, None] = {}

    def _note(self, key: object) -> None:
        if isinstance(key, str):
            self.asked[key] = None

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        self._note(key)
        return super().pop(key, *default)

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)


@check(
    "config.options",
    group="config_hooks",
    needs=("config.plain", "config.optional-parts", "config.cases"),
    why="Users write additional_config by hand: sections are empty, keys have no value, others are unknown.",
    hint="Read each option with .get and a default, also inside a section; refuse a value with a ValueError.",
)
def options(ctx: CheckContext) -> None:
    """The hooks bear unknown options, and each of their own options empty or without a value."""
    try:
        asked, findings = ctx.apart(lambda: _judge(ctx))
    except ApartFailed as broken:
        raise NotRun(f"the hooks did not run in a copy of the process: {broken}") from broken
    if asked:
        ctx.details["options that the hooks read"] = asked
    if findings:
        raise Violation(*findings[:4])


def _judge(ctx: CheckContext) -> tuple[list[str], list[Finding]]:
    base = _configs.build(ctx, "plain")
    if not hasattr(base, _OPTIONS):
        return [], []
    noted = _Asked()
    findings = list(_with(ctx, base, noted, "no option"))
    findings += _with(ctx, base, dict(_UNKNOWN), f"{short(_UNKNOWN)}, options of somebody else")
    keys = list(dict.fromkeys([*noted.asked, *_spelled(ctx)]))[:_MOST]
    for key in keys:
        for value in _EMPTY:
            found = list(_with(ctx, base, {key: value}, f"{{{key!r}: {value!r}}}", key))
            if found:
                findings += found
                break
    return list(noted.asked), findings


def _with(ctx: CheckContext, base: Any, value: Any, told: str, key: str = "") -> Iterator[Finding]:
    """Run the hooks on a copy of a config that has these options."""
    config = copy.deepcopy(base)
    setattr(config, _OPTIONS, value)
    try:
        _configs.run_hooks(ctx, config)
    except (_configs.Refused, Skip):
        return
    except Violation as violation:
        for one in violation.findings:
            cause = violation.__cause__
            if key and is_a(cause, TypeError) and key in str(cause):
                continue  # a refusal that names the option, whatever its type
            yield ctx.finding(
                one.member,
                contract_says=f"`{one.member}` bears {_OPTIONS} = {told}, or refuses it with a "
                "ValueError that names the option.",
                platform_did=one.platform_did,
                hint=f"Read {f'{key!r}' if key else 'your own options by their names'} with .get and a default, test a "
                f'section for None before reading inside it: `(vllm_config.{_OPTIONS} or {{}}).get("{key or "…"}") or '
                "{}`"
                + (
                    "."
                    if key
                    else ". Do not loop over the dict: what is not yours may be None, a list or a number."
                ),
                location=one.location,
            )


def _spelled(ctx: CheckContext) -> Iterator[str]:
    """The keys that the platform's own hooks ask of some mapping, as their source has them."""
    for hook in _configs.HOOKS:
        if not ctx.overridden(hook):
            continue
        function: Any = getattr(ctx.raw(hook), "__func__", ctx.raw(hook))
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, TypeError, SyntaxError):
            continue
        for node in ast.walk(tree):
            for part in _keys(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def _keys(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Subscript):
        return [node.slice]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("get", "pop")
    ):
        return node.args[:1]
    if isinstance(node, ast.Compare) and any(isinstance(one, ast.In | ast.NotIn) for one in node.ops):
        return [node.left]
    return []
