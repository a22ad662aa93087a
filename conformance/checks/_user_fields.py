"""Fields that users set, what they set there, and when a hook's change of it is no longer theirs to accept.

A platform may limit a number: what it lowers to its maximum, or raises to its minimum, is a limit. It may
turn off what it cannot do. What it may not do is to put another value in the place of the user's, or to
turn on what the user turned off.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import attrs

from conformance.checks import _configs
from conformance.checks._told import told_meanwhile
from conformance.context import CheckContext, short
from conformance.model import Finding, NotRun, Skip, Violation

_NONE: Final = "NONE"


@attrs.frozen
class UserField:
    """One field that a user sets.

    Args:
        path: dotted, in the config.
        values: what the user sets, one after the other, of a number a small and a large one; of texts the first
            that the field takes. The name of an enum's member becomes that member.
        limited: a number that a platform may raise to its minimum or lower to its maximum.
        case: the config that it is set in.
        beside: what has to be set with it.
    """

    path: str
    values: Sequence[Any]
    limited: bool = False
    case: str = "plain"
    beside: Mapping[str, Any] = attrs.field(factory=dict[str, Any])


FIELDS: Final = (
    UserField(
        "scheduler_config.max_num_seqs",
        (2, 2000),
        limited=True,
        beside={"scheduler_config.max_num_batched_tokens": 8192},
    ),
    UserField("scheduler_config.max_num_batched_tokens", (512, 65536), limited=True),
    UserField("model_config.max_model_len", (64, 120), limited=True),
    UserField("cache_config.gpu_memory_utilization", (0.3, 0.8), limited=True),
    UserField("cache_config.num_gpu_blocks_override", (32, 40000), limited=True),
    UserField("cache_config.kv_cache_memory_bytes", (64 << 20, 700 << 30), limited=True),
    UserField("model_config.seed", (7,)),
    UserField("model_config.enforce_eager", (True,)),
    UserField("compilation_config.mode", (_NONE,)),
    UserField("compilation_config.cudagraph_mode", (_NONE,)),
    UserField("cache_config.enable_prefix_caching", (False,)),
    UserField("scheduler_config.async_scheduling", (False,)),
    UserField("parallel_config.disable_custom_all_reduce", (True,)),
    UserField("parallel_config.worker_extension_cls", ("chosen.by.the.User",)),
    UserField("parallel_config.tensor_parallel_size", (2,), case="tensor-parallel"),
    UserField("attention_config.backend", ("TORCH_SDPA", "FLASH_ATTN", "TRITON_ATTN")),
    UserField("attention_backend", ("TORCH_SDPA", "FLASH_ATTN")),
    UserField("kernel_config.moe_backend", ("triton",)),
    UserField("model_config.quantization", ("fp8", "fp8_per_tensor"), case="quantized"),
)
"""What users set, by field; a field that the installed engine lacks is passed over."""


def judge(ctx: CheckContext) -> list[Finding]:
    """Set each field alone and run the hooks.

    Returns:
        What a hook replaced without a word.
    """
    found: list[Finding] = []
    for case in dict.fromkeys(field.case for field in FIELDS):
        if case not in ctx.adapter.config_cases():
            continue
        fields = [field for field in FIELDS if field.case == case]
        try:
            base = _configs.build(ctx, case)
        except (Skip, NotRun):
            continue
        if not (_all_kept(ctx, base, fields, first=True) and _all_kept(ctx, base, fields, first=False)):
            found += [finding for field in fields for finding in _one(ctx, base, field)]
    return found


def _all_kept(ctx: CheckContext, base: Any, fields: Sequence[UserField], *, first: bool) -> bool:
    """Set all fields at once and run the hooks: most platforms leave them all, and nothing more is to be done."""
    config = copy.deepcopy(base)
    wanted: dict[str, Any] = {}
    for field in fields:
        for value in field.values if first else reversed(field.values):
            try:
                if put(config, field.path, value):
                    wanted[field.path] = _configs.value_at(config, field.path)
                    break
            except Exception:  # it takes no such value in this engine
                ctx.details[field.path] = f"takes no {value!r} here"
    try:
        _configs.run_hooks(ctx, config)
    except (_configs.Refused, Skip, NotRun, Violation):
        return False
    return all(_kept(value, _configs.value_at(config, path)) for path, value in wanted.items())


@attrs.frozen
class _Outcome:
    """One value of the user, and what became of it: the value then, and the hook that wrote it."""

    wanted: Any
    got: Any
    hook: str


def _one(ctx: CheckContext, base: Any, field: UserField) -> Iterator[Finding]:
    changed: list[_Outcome] = []
    for value in field.values:
        outcome = _run(ctx, base, field, value)
        if outcome is not None:
            changed.append(outcome)
    if field.limited and changed:
        # A limit moves values one way; a value of the platform's own lies between the user's.
        raised = [one for one in changed if _more(one.got, one.wanted)]
        lowered = [one for one in changed if _more(one.wanted, one.got)]
        if not (raised and lowered):
            return
        changed = [raised[0], lowered[0]]
    if changed:
        did = "; ".join(f"{short(one.wanted)} → {short(one.got)}" for one in changed)
        yield ctx.finding(
            changed[0].hook,
            contract_says=f"{field.path} stays as the user set it, or the hook refuses it, or a warning of it "
            "names the field.",
            platform_did=f"the hook wrote a value of its own: {field.path}: {did}",
            location=ctx.locate_write(changed[0].hook, field.path),
            hint=f"Write {field.path} in `{changed[0].hook}` only where the user left the default"
            + (
                "; a limit is min(the user's, the limit)."
                if field.limited
                else ", or refuse it with a ValueError."
            ),
        )


def _more(one: Any, other: Any) -> bool:
    try:
        return bool(one > other)
    except TypeError:
        return True


def _run(ctx: CheckContext, base: Any, field: UserField, value: Any) -> _Outcome | None:
    """Set one value and run the hooks; None where it survived, was refused, or cannot be set here."""
    config = copy.deepcopy(base)
    name = field.path.rpartition(".")[2]
    try:
        for path, other in field.beside.items():
            put(config, path, other)
        present = put(config, field.path, value)
    except Exception:
        return None  # no such field, or it takes no such value in this engine
    if not present:
        return None
    wanted = _configs.value_at(config, field.path)
    for hook in _configs.HOOKS:
        try:
            with told_meanwhile() as told:
                _configs.run_hooks(ctx, config, (hook,))
        except (_configs.Refused, Skip, NotRun, Violation):
            return None  # refused, or another check tells
        got = _configs.value_at(config, field.path)
        if not _kept(wanted, got):
            return None if any(name in text for text in told) else _Outcome(wanted, got, hook)
    return None


def _kept(wanted: Any, got: Any) -> bool:
    if isinstance(wanted, bool) or isinstance(got, bool):
        return wanted is got
    return wanted == got or repr(wanted) == repr(got)


def put(config: Any, path: str, value: Any) -> bool:
    """Set a field of a config, an enum's member by its name; False where the engine has no such field."""
    *parts, name = path.split(".")
    for part in parts:
        config = getattr(config, part, None)
    if config is None or not hasattr(config, name):
        return False
    setattr(config, name, _member(config, name, value) if isinstance(value, str) else value)
    return True


def _member(part: Any, name: str, value: str) -> Any:
    """The member of the field's enum with that name; the text itself where the field holds no enum."""
    now = getattr(part, name)
    kind = type(now) if isinstance(now, enum.Enum) else _declared(part, name)
    if kind is None:
        return value
    members: Mapping[str, Any] = kind.__members__
    return members[value]


def _declared(part: Any, name: str) -> type[enum.Enum] | None:
    """The enum that a field which holds None now is declared with; None if it is no enum."""
    import sys

    for cls in type(part).__mro__:
        text = vars(cls).get("__annotations__", {}).get(name)
        if text is None:
            continue
        if isinstance(text, type) and issubclass(text, enum.Enum):
            return text
        word = (
            f"{cast('object', text)}".replace("|", " ")
            .replace("[", " ")
            .replace("]", " ")
            .replace(",", " ")
            .split()
        )
        for one in word:
            found = getattr(sys.modules.get(cls.__module__), one.rpartition(".")[2].strip("'\""), None)
            if isinstance(found, type) and issubclass(found, enum.Enum):
                return found
    return None
