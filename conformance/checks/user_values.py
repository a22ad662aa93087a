"""What the user set: it survives the config hooks, alone and beside every other option."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from conformance.checks import _configs, _user_fields
from conformance.checks._told import told_meanwhile
from conformance.context import ApartFailed, CheckContext, is_a, short
from conformance.model import Finding, NotRun, Skip, Violation
from conformance.registry import check

_OPTIONS: Final = "additional_config"
_USER: Final = {
    "user-worker-cls": "parallel_config.worker_cls",
    "user-block-size": "cache_config.block_size",
    "user-dtype": "model_config.dtype",
    "additional-options": f"{_OPTIONS}.conformance_kit.probe",
}
"""Cases in which the user has set one field, and the field."""

_WITH_IT: Final = {"user-block-size": "cache_config.user_specified_block_size"}
"""What is set together with the field of a case."""

_ENTRIES: Final = {
    "compilation_config.custom_ops": "+users_own_op",
    "compilation_config.inductor_compile_config": "users_own_key",
}
"""Lists and dicts that users fill and platforms extend, with an entry of a user's."""

_BESIDE: Final = ("tensor-parallel", "lora", "quantized", "mla", "hybrid")
"""Cases that turn on something else, beside which the user's values stay as well."""


@check(
    "config.user-values",
    group="config_hooks",
    needs=("config.plain", "config.valid"),
    why="A value that the user set and the platform replaced is a run that nobody asked for.",
    hint="Change a field only where it still has its default; refuse a user's value with a ValueError.",
)
def user_values(ctx: CheckContext) -> None:
    """What the user set survives the hooks, or is refused; also where other options are on."""
    known = [case for case in _USER if case in ctx.adapter.config_cases()]
    findings = [one for case in known for one in _apart(ctx, case, partial(_alone, ctx, case))]
    if not findings:
        beside = [case for case in _BESIDE if case in ctx.adapter.config_cases()]
        findings = [one for case in beside for one in _apart(ctx, case, partial(_beside, ctx, case, known))]
    findings += _apart(ctx, "each field alone", lambda: iter(_user_fields.judge(ctx)))
    if findings:
        raise Violation(*findings[:6])


@check(
    "config.user-lists",
    group="config_hooks",
    severity="should",
    needs=("config.user-values", "config.independent"),
    why="A list or dict that the hook replaces takes with it what the user had written into it.",
    hint="Append to the list, and put keys into the dict, instead of assigning a new one.",
)
def user_lists(ctx: CheckContext) -> None:
    """What the user put into a list or dict of the config is still in it after the hooks."""
    found = _apart(ctx, "lists", partial(_lists, ctx))
    if found:
        raise Violation(*found)


def _lists(ctx: CheckContext) -> Iterator[Finding]:
    """Put an entry into each list and dict that a hook may extend, and look for it afterwards."""
    config = _configs.build(ctx, "plain")
    entries: dict[str, Any] = {}
    for path, entry in _ENTRIES.items():
        held = _configs.value_at(config, path)
        if is_a(held, list):
            held.append(entry)
            entries[path] = entry
        elif is_a(held, dict):
            held[entry] = 1
            entries[path] = entry
    for hook in _configs.HOOKS:
        try:
            with told_meanwhile() as told:
                _configs.run_hooks(ctx, config, (hook,))
        except (_configs.Refused, Skip, Violation):
            return  # refused, or another check tells
        for path, entry in list(entries.items()):
            held = _configs.value_at(config, path)
            if is_a(held, list, dict) and entry in held:
                continue
            del entries[path]
            if any(path.rpartition(".")[2] in text for text in told):
                continue
            yield ctx.finding(
                hook,
                contract_says=f"What the user put into {path} is still there after the hook.",
                platform_did=f"the user's {entry!r} is gone: it is {short(held)} now",
                location=ctx.locate_write(hook, path),
                hint=f"Add your own entries to {path}, or assign a {type(held).__name__} that holds the user's as well.",
            )


def _apart(ctx: CheckContext, case: str, judge: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Judge one case in a copy of the process: what another case left there is config.independent's matter."""
    try:
        return ctx.apart(lambda: list(judge()))
    except ApartFailed as broken:
        ctx.details[f"not tried ({case})"] = str(broken)
        return []


def _alone(ctx: CheckContext, case: str) -> Iterator[Finding]:
    """Run the case in which the user set one field."""
    field = _USER[case]
    try:
        done = _configs.ran(ctx, case)
    except (_configs.Refused, Skip, NotRun, Violation):
        return  # refused, or config.cases tells
    writer = done.writer(field)
    if case == "user-block-size" and field not in done.changes():
        writer = "update_block_size_for_backend"
        with contextlib.suppress(Exception, SystemExit):  # config.block-size judges what it raises
            _configs.update_block_size(ctx, done.config)
    yield from _changed(ctx, writer, field, _seen(done.before, field), done.config)


def _changed(
    ctx: CheckContext, writer: str, field: str, wanted: object, config: Any, case: str = ""
) -> Iterator[Finding]:
    if field.startswith(_OPTIONS) and not is_a(_configs.value_at(config, _OPTIONS), Mapping):
        return  # the platform made an object of its own of the options; what that keeps cannot be seen
    now = dict(ctx.adapter.snapshot(config))
    change = _configs.differences({field: wanted}, {field: _seen(now, field)})
    if change:
        yield ctx.finding(
            writer,
            contract_says=f"{field} stays as the user set it, or the hook refuses it"
            + (", or a warning of it names the field." if case else "."),
            platform_did=_configs.spelled(change)
            + (f", with the options of the {case} config" if case else ""),
            hint=_instead_of(field),
            location=ctx.locate_write(writer, field),
        )


def _instead_of(field: str) -> str:
    """How to write a field without losing what the user set."""
    if field.startswith(f"{_OPTIONS}."):
        return f"Keep the user's keys beside your own: `{{**(vllm_config.{_OPTIONS} or {{}}), …}}`."
    if field == _USER["user-block-size"]:
        return f"Write {field} only where cache_config.user_specified_block_size is False."
    if field == _USER["user-worker-cls"]:
        return f'Write {field} only where it is "auto".'
    return f"Write {field} only where the user left the default."


def _seen(values: Mapping[str, Any], field: str) -> Any:
    """What a snapshot holds at a field; it may hold a dict of the user's as one value."""
    if field in values:
        return values[field]
    around = next((name for name in values if field.startswith(f"{name}.")), None)
    inside = None if around is None else _configs.value_at(values[around], field.removeprefix(f"{around}."))
    return "(absent)" if inside is None else inside


def _beside(ctx: CheckContext, case: str, known: list[str]) -> Iterator[Finding]:
    """Set what users set in a config that has something else turned on; a change that is told is none."""
    # A quantization method has dtypes of its own.
    fields = {one: _USER[one] for one in known if not (case == "quantized" and one == "user-dtype")}
    try:
        values = {one: _values(ctx, one) for one in fields}
        config = _configs.build(ctx, case)
    except (Skip, NotRun):
        return
    for chosen in values.values():
        for path, value in chosen.items():
            _put(config, path, value)
    before = dict(ctx.adapter.snapshot(config))
    for hook in _configs.HOOKS:
        try:
            with told_meanwhile() as told:
                _configs.run_hooks(ctx, config, (hook,))
        except (_configs.Refused, Skip, Violation):
            return  # refused, or another check tells
        found = [
            finding
            for field in fields.values()
            if not any(field.rpartition(".")[2] in text for text in told)
            for finding in _changed(ctx, hook, field, _seen(before, field), config, case)
        ]
        if found:
            yield from found
            return


def _values(ctx: CheckContext, case: str) -> Mapping[str, Any]:
    """What the user of a case has set, by path."""
    config = ctx.fitted.config(case)
    if case == "additional-options":
        return {_OPTIONS: _configs.value_at(config, _OPTIONS)}
    paths = [_USER[case], *([_WITH_IT[case]] if case in _WITH_IT else [])]
    return {path: _configs.value_at(config, path) for path in paths}


def _put(config: Any, path: str, value: Any) -> None:
    *parts, name = path.split(".")
    for part in parts:
        config = getattr(config, part, None)
    if config is not None:
        setattr(config, name, value)
