"""The configuration that an engine builds and the platform's hooks read and change.

Every field is checked when it is assigned. `EngineConfig.validate` checks the whole once more, with
the rules that span fields and with what was changed in place; an engine calls it after each hook and
when a pickled config arrives in another process. `snapshot` and `diff` show what a hook changed.
"""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import attrs

from platform_abc._config_checks import TEXT, TEXT_KEYS, field_path, instance_of, optional, shown
from platform_abc.config_model import LayerKind, ModelConfig
from platform_abc.config_parts import (
    DEFAULT_BLOCK_SIZE,
    AttentionConfig,
    CacheConfig,
    CompilationConfig,
    DeviceConfig,
    KernelConfig,
    KVTransferConfig,
    LoadConfig,
    LoRAConfig,
    ParallelConfig,
    PassConfig,
    ProfilerConfig,
    QuantizationConfig,
    SchedulerConfig,
    SpeculativeConfig,
)
from platform_abc.config_values import (
    CACHE_DTYPES,
    AttentionBackendEnum,
    AttentionSelectorConfig,
    AttentionType,
    CacheDType,
    CompilationMode,
    CUDAGraphMode,
    IrOpPriorityConfig,
    MLAPrefillSelectorConfig,
)
from platform_abc.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "ABSENT",
    "CACHE_DTYPES",
    "DEFAULT_BLOCK_SIZE",
    "AttentionBackendEnum",
    "AttentionConfig",
    "AttentionSelectorConfig",
    "AttentionType",
    "CUDAGraphMode",
    "CacheConfig",
    "CacheDType",
    "Change",
    "CompilationConfig",
    "CompilationMode",
    "DeviceConfig",
    "EngineConfig",
    "IrOpPriorityConfig",
    "KVTransferConfig",
    "KernelConfig",
    "LayerKind",
    "LoRAConfig",
    "LoadConfig",
    "MLAPrefillSelectorConfig",
    "ModelConfig",
    "ParallelConfig",
    "PassConfig",
    "ProfilerConfig",
    "QuantizationConfig",
    "SchedulerConfig",
    "SpeculativeConfig",
    "changes_between",
    "diff",
    "get_current_config",
    "snapshot",
    "unknown_fields",
    "use_config",
]

ABSENT: Final = "(absent)"
"""Stands in a change for a field that one of the two moments does not have."""

_ITSELF: Final = "(itself)"
_TOO_DEEP: Final = "(nested too deep to show)"
_DEEPEST: Final = 50
"""So many containers within each other a snapshot looks into."""

_ATOMS: Final = frozenset((type(None), bool, int, float, str))
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


@attrs.define(slots=False, kw_only=True)
class EngineConfig:
    """Everything that an engine knows before it starts: the parts, and what goes to the platform alone.

    Args:
        model_config: None while a tool or a test looks at the other parts only; hooks must bear it.
        additional_config: options for the platform, as the user gave them; None is allowed.
        instance_id: name of this engine in logs.
    """

    PATH: ClassVar[str] = ""

    model_config: ModelConfig | None = attrs.field(default=None, validator=optional(instance_of(ModelConfig)))
    cache_config: CacheConfig = attrs.field(factory=CacheConfig, validator=instance_of(CacheConfig))
    parallel_config: ParallelConfig = attrs.field(
        factory=ParallelConfig, validator=instance_of(ParallelConfig)
    )
    scheduler_config: SchedulerConfig = attrs.field(
        factory=SchedulerConfig, validator=instance_of(SchedulerConfig)
    )
    device_config: DeviceConfig = attrs.field(factory=DeviceConfig, validator=instance_of(DeviceConfig))
    load_config: LoadConfig = attrs.field(factory=LoadConfig, validator=instance_of(LoadConfig))
    attention_config: AttentionConfig = attrs.field(
        factory=AttentionConfig, validator=instance_of(AttentionConfig)
    )
    kernel_config: KernelConfig = attrs.field(factory=KernelConfig, validator=instance_of(KernelConfig))
    compilation_config: CompilationConfig = attrs.field(
        factory=CompilationConfig, validator=instance_of(CompilationConfig)
    )
    profiler_config: ProfilerConfig = attrs.field(
        factory=ProfilerConfig, validator=instance_of(ProfilerConfig)
    )
    lora_config: LoRAConfig | None = attrs.field(default=None, validator=optional(instance_of(LoRAConfig)))
    quant_config: QuantizationConfig | None = attrs.field(
        default=None, validator=optional(instance_of(QuantizationConfig))
    )
    speculative_config: SpeculativeConfig | None = attrs.field(
        default=None, validator=optional(instance_of(SpeculativeConfig))
    )
    kv_transfer_config: KVTransferConfig | None = attrs.field(
        default=None, validator=optional(instance_of(KVTransferConfig))
    )
    additional_config: dict[str, Any] | None = attrs.field(factory=dict, validator=optional(TEXT_KEYS))
    instance_id: str = attrs.field(default="", validator=TEXT)

    def validate(self, *, written_by: str = "") -> None:
        """Check every field again, then the rules that span fields.

        Args:
            written_by: who changed the config last, `hook check_and_update_config of CpuPlatform`;
                it ends the message.

        Raises:
            ConfigError: the first field that is wrong: its path, value, what was expected, who wrote it.
        """
        try:
            for part in _parts(self):
                _check_fields(part)
            _check_across(self)
        except ConfigError as error:
            raise ConfigError(f"{error}; written by {written_by}" if written_by else str(error)) from error

    def parts(self) -> dict[str, object]:
        """Return the parts that are set, by field name."""
        values: dict[str, object] = {f.name: getattr(self, f.name) for f in attrs.fields(EngineConfig)}
        return {name: value for name, value in values.items() if _is_part(value)}


def _parts(value: attrs.AttrsInstance, above: tuple[int, ...] = ()) -> Iterator[attrs.AttrsInstance]:
    """Yield `value` and the parts within it, outer first; a part that points back up is yielded once."""
    yield value
    above = (*above, id(value))
    for field in attrs.fields(type(value)):
        child: object = getattr(value, field.name, None)
        if _is_part(child) and id(child) not in above:
            yield from _parts(child, above)


def _is_part(value: object) -> TypeIs[attrs.AttrsInstance]:
    # A slotted class of a vendor's own is a leaf: nothing can hang on it, and it checks itself.
    return attrs.has(type(value)) and hasattr(value, "__dict__")


def _check_fields(part: attrs.AttrsInstance) -> None:
    """Check each field of one part, also for being there at all.

    Raises:
        ConfigError: naming the first field that is wrong.
    """
    for field in attrs.fields(type(part)):
        if field.name not in vars(part):
            raise ConfigError(f"{field_path(part, field.name)} was deleted: expected it to be there")
        if field.validator is not None:
            field.validator(part, field, getattr(part, field.name))


def unknown_fields(config: EngineConfig) -> dict[str, str]:
    """Return what hangs on the parts beside their fields: dotted path -> a field of a like name, or empty.

    A vendor may hang a value of its own there, but a typing error looks the same.
    """
    found: dict[str, str] = {}
    for part in _parts(config):
        declared = [field.name for field in attrs.fields(type(part))]
        for name in vars(part):
            if name not in declared:
                found[field_path(part, name)] = _alike(name, declared)
    return found


def _alike(name: str, declared: Sequence[str]) -> str:
    import difflib

    return next(iter(difflib.get_close_matches(name, declared, n=1)), "")


def _check_across(config: EngineConfig) -> None:
    """Check the rules that span fields.

    Raises:
        ConfigError: naming the fields that do not fit together.
    """
    model, parallel, scheduler = config.model_config, config.parallel_config, config.scheduler_config
    if parallel.rank >= parallel.world_size * parallel.data_parallel_size:
        size = parallel.world_size * parallel.data_parallel_size
        raise ConfigError(f"parallel_config.rank = {parallel.rank}: expected less than the {size} workers")
    ids = parallel.assigned_physical_gpu_ids
    if ids is not None and len(set(ids)) != len(ids):
        raise ConfigError(
            f"parallel_config.assigned_physical_gpu_ids = {shown(ids)}: expected each device once"
        )
    if scheduler.max_num_batched_tokens < scheduler.max_num_seqs:
        raise ConfigError(
            f"scheduler_config.max_num_batched_tokens = {scheduler.max_num_batched_tokens}: expected at "
            f"least scheduler_config.max_num_seqs = {scheduler.max_num_seqs}, one token for each request"
        )
    if model is not None:
        _check_model(model, parallel)


def _check_model(model: ModelConfig, parallel: ParallelConfig) -> None:
    heads, ranks = model.num_attention_heads, parallel.tensor_parallel_size
    if heads % ranks:
        raise ConfigError(
            f"parallel_config.tensor_parallel_size = {ranks}: expected a divisor of "
            f"model_config.num_attention_heads = {heads}"
        )
    if heads % model.get_total_num_kv_heads():
        raise ConfigError(
            f"model_config.num_kv_heads = {model.num_kv_heads}: expected a divisor of "
            f"model_config.num_attention_heads = {heads}"
        )
    larger, smaller = max(model.get_total_num_kv_heads(), ranks), min(model.get_total_num_kv_heads(), ranks)
    if larger % smaller:
        raise ConfigError(
            f"parallel_config.tensor_parallel_size = {ranks}: expected a divisor or a multiple of the "
            f"{model.get_total_num_kv_heads()} key and value heads"
        )
    if not model.head_size and model.hidden_size % heads:
        raise ConfigError(
            f"model_config.hidden_size = {model.hidden_size}: expected a multiple of "
            f"model_config.num_attention_heads = {heads}, or model_config.head_size to be set"
        )
    if model.layer_kinds and len(model.layer_kinds) != model.num_layers:
        raise ConfigError(
            f"model_config.layer_kinds has {len(model.layer_kinds)} entries: expected one for each of "
            f"model_config.num_layers = {model.num_layers}"
        )


@attrs.frozen
class Change:
    """One field that differs between two moments.

    Args:
        path: the dotted field.
        before: its plain value then, or `ABSENT`.
        after: its plain value now, or `ABSENT`.
    """

    path: str
    before: object
    after: object

    def __str__(self) -> str:
        return f"{self.path}: {_text(self.before)} → {_text(self.after)}"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_text(item) for item in cast("tuple[object, ...]", value)) + "]"
    return value if isinstance(value, str) else shown(value)


def _plain(value: object, above: tuple[int, ...] = ()) -> object:
    """Return a value that compares and prints the same at any time and in any process.

    Args:
        value: anything that a hook has put into a config.
        above: the containers that it lies in.
    """
    if type(value) in _ATOMS:
        return value
    try:
        return _plain_or_raise(value, above)
    except Exception as error:  # noqa: BLE001 - reading a foreign object may raise anything
        return f"<{type(value).__name__} that raises {type(error).__name__} when it is read>"


def _plain_or_raise(value: object, above: tuple[int, ...]) -> object:
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, str):
        return str(value)  # a subclass prints itself in its own way, also in a container
    if isinstance(value, (int, float)):
        return float(value) if isinstance(value, float) else int(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if not isinstance(value, (list, tuple, set, frozenset, Mapping)):
        return _ADDRESS.sub("", shown(value))
    number = id(cast("object", value))
    if number in above or len(above) >= _DEEPEST:
        return _ITSELF if number in above else _TOO_DEEP
    above = (*above, number)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return tuple(sorted(((_plain(key), _plain(item, above)) for key, item in pairs), key=repr))
    items = [_plain(item, above) for item in cast("Iterable[object]", value)]
    return tuple(sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items)


def _members(value: object) -> dict[str, object] | None:
    """Return what a value is flattened into, or None for a leaf."""
    kind = type(value)  # not isinstance, which asks the object itself
    if issubclass(kind, SimpleNamespace) or attrs.has(kind):
        # vars, not the declared fields: a hook may hang a value of its own on a part. A slotted class
        # of a vendor has none; it is a leaf, shown by its repr.
        own = cast("dict[str, object] | None", getattr(value, "__dict__", None))
        return own if own is None else {**own}
    if issubclass(kind, dict):
        items = cast("dict[object, object]", value)
        if all(isinstance(key, str) for key in items):
            return {str(key): item for key, item in items.items()}
    return None


def _flatten(prefix: str, value: object, into: dict[str, object], above: tuple[int, ...]) -> None:
    if id(value) in above or len(above) >= _DEEPEST:
        into[prefix] = _ITSELF if id(value) in above else _TOO_DEEP
        return
    members = _members(value)
    if members is None:
        into[prefix] = _plain(value, above)
        return
    for name, member in members.items():
        path = f"{prefix}.{name}" if prefix else name
        layers = _members(member) if path == "compilation_config.static_forward_context" else None
        if layers is not None:
            into[path] = tuple(f"{key}: {type(layer).__name__}" for key, layer in layers.items())
        else:
            _flatten(path, member, into, (*above, id(value)))


def snapshot(config: object) -> Mapping[str, object]:
    """Flatten a config to dotted field -> plain value, to be compared with another moment.

    Args:
        config: an `EngineConfig`, or one part.

    Returns:
        One entry a leaf. Dicts are flattened by key (an empty one has no entry), lists become tuples,
        layers the name of their class.
    """
    flat: dict[str, object] = {}
    _flatten("", config, flat, ())
    return flat


def diff(before: Mapping[str, object], after: Mapping[str, object]) -> Sequence[Change]:
    """Compare two snapshots.

    Args:
        before: the earlier one.
        after: the later one.

    Returns:
        The changes, by path.
    """
    return [
        Change(path, before.get(path, ABSENT), after.get(path, ABSENT))
        for path in sorted({*before, *after})
        if not _same(before.get(path, ABSENT), after.get(path, ABSENT))
    ]


def _same(left: object, right: object) -> bool:
    # 1 == True, and a NaN differs from itself; repr sees the first and forgives the second.
    return repr(left) == repr(right)


def changes_between(before: EngineConfig, after: EngineConfig) -> Sequence[Change]:
    """Compare two configs; see `diff`."""
    return diff(snapshot(before), snapshot(after))


_current: ContextVar[EngineConfig | None] = ContextVar("platform_abc_current_config", default=None)


@contextlib.contextmanager
def use_config(config: EngineConfig) -> Generator[EngineConfig]:
    """Make `config` the current one within a `with` block, for hooks and backends that look it up."""
    token = _current.set(config)
    try:
        yield config
    finally:
        _current.reset(token)


def get_current_config() -> EngineConfig:
    """Return the config of the innermost `use_config`.

    Raises:
        ConfigError: there is none; a config is never made up.
    """
    config = _current.get()
    if config is None:
        raise ConfigError("there is no current config here: wrap the call in `with use_config(config):`")
    return config
