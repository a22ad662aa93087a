"""What the kit asks of an engine: one adapter per engine, behind one Protocol.

An adapter works by introspection of whatever version is installed, so one kit serves many.
Importing an adapter's module imports no engine; its methods do, inside a child process.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import attrs

MemberKind = Literal["attribute", "property", "method", "classmethod", "staticmethod"]


@attrs.frozen
class Member:
    """One member of the engine's installed base class.

    Args:
        name: its name.
        group: `identity`, `config_hooks`, `pickers`, `kernel_hooks`, `device` or `capabilities`.
        kind: how the base defines it.
        value: the raw object from the base's `__dict__` (function unwrapped), or the default.
        unset: an annotated attribute without a default: the platform must set it.
        abstract: the base refuses to be instantiated without it, or the contract says mandatory.
        raises: the base's body only raises NotImplementedError.
    """

    name: str
    group: str
    kind: MemberKind
    value: Any
    unset: bool = False
    abstract: bool = False
    raises: bool = False


@attrs.frozen
class EngineCall:
    """One shape in which the engine really calls or reads a member.

    Args:
        member: the member's name.
        positional: how many arguments go by position.
        keywords: the names that go by keyword.
        site: `file:line` in the engine, relative to its package's parent.
        common: on the path of every plain run (not only with LoRA, Ray, one model, …).
        guarded: inside a `try` that tolerates `NotImplementedError` (or everything).
        via: `instance` for `current_platform.x(...)`, `class` where the class itself is called.
        is_read: an attribute read, not a call.
        exact: no `*args` or `**kwargs` at the site, so the shape is the whole call.
        requires: what the lexical guards around it ask of the platform, each of them alternatives
            joined by `|`: `is_cuda`, `!is_cuda`, `device_type=cpu`, `validate_request(prompt)`
            (see `conformance.engines.source_scan.applies`).
    """

    member: str
    positional: int
    keywords: tuple[str, ...]
    site: str
    common: bool
    guarded: bool = False
    via: Literal["instance", "class"] = "instance"
    is_read: bool = False
    exact: bool = True
    requires: tuple[str, ...] = ()


@attrs.frozen
class SelectorCall:
    """One question to the attention picker: the arguments, ready to be passed.

    Args:
        case: `plain`, `mla`, `fp8-kv`, …
        args: positional arguments.
        kwargs: keyword arguments, spelled as the engine spells them.
        must_answer: a plain decoder layer must get a class; other cases may be refused.
    """

    case: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    must_answer: bool


@attrs.frozen
class Arguments:
    """One harmless call of a member, with arguments of the engine's own types.

    Args:
        args: positional arguments.
        kwargs: keyword arguments, spelled as the engine spells them.
        case: a word or two for the report, `with a parser`; empty where there is one case only.
    """

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    case: str = ""


@attrs.frozen
class PickedBase:
    """What a picked component has to be.

    Args:
        picker: the member that names it, `get_device_communicator_cls`; `worker_cls` for the class
            that the config hook writes into the config.
        base: the class or Protocol to derive from; None where any class will do.
        required: names the engine uses on it.
        case: the situation in which the engine asks (`always`, `lora`, `tensor-parallel`, `graphs`).
    """

    picker: str
    base: type | None
    required: tuple[str, ...]
    case: str


@attrs.frozen
class PickedCall:
    """One shape in which the engine really makes or calls a picked component.

    Args:
        part: which component: `backend`, `impl`, `builder`, `communicator`, `lora`, `graph`,
            `pass-manager`, `kv-cache-builder` or `worker`.
        member: the method's name, `__init__` for making one.
        positional: how many arguments go by position.
        keywords: the names that go by keyword.
        site: `file:line` in the engine, relative to its package's parent.
    """

    part: str
    member: str
    positional: int
    keywords: tuple[str, ...]
    site: str


@attrs.frozen
class CachePages:
    """Bytes of the pages that a model with two kinds of layers keeps in one pool.

    Args:
        attention: of one block of an attention layer.
        state: of one state, unpadded.
        padded: to which the config says that states are padded; None for no padding.
    """

    attention: int
    state: int
    padded: int | None


@attrs.frozen
class Detection:
    """What resolution said in a fresh process.

    Args:
        resolved: qualified name of the type of `current_platform`; empty if it failed.
        detectors: the answers by detector name, in order asked; None also for one that raised.
        winner: the name of the detector that decided; empty if none.
        error: the error's text; empty if none.
        errors: what each detector raised, by name, where the engine tells.
    """

    resolved: str
    detectors: Mapping[str, str | None]
    winner: str
    error: str = ""
    errors: Mapping[str, str] = attrs.field(factory=dict[str, str])


@attrs.frozen
class BootPlan:
    """How an engine is booted for real.

    Args:
        drive: `module:function` that boots the engine with a layout, generates, closes it, and returns what
            was generated.
        seconds: after which a run hangs.
        environment: variables beside those of every child; None for one that has to be absent.
        control: `module:Class` of a platform with which the engine boots where it boots at all.
    """

    drive: str
    seconds: float
    environment: Mapping[str, str | None]
    control: str


class Adapter(Protocol):
    """One engine, as the checks see it.

    Every method that touches the engine runs in a child process. A method that cannot answer
    with the installed version raises `conformance.model.Skip` with what is lacking.
    """

    name: str
    """`native` or `vllm`."""

    lazy: bool
    """Static checks do without `prepare`, which then only spares the forks an import each."""

    def environment(self, scratch: str) -> Mapping[str, str]:
        """Variables for every child, set before anything is imported: offline, caches in `scratch`."""
        ...

    def accepts(self, cls: type) -> bool:
        """Say by the names in its MRO whether `cls` is a platform of this engine; imports nothing."""
        ...

    def version(self) -> str:
        """The engine's version (for native: of the contract and of the package)."""
        ...

    def prepare(self) -> None:
        """Import the engine under a neutral platform, once, before any fork; single-threaded."""
        ...

    def settle(self) -> None:
        """Give the engine a neutral platform and import no more of it than that takes."""
        ...

    def base_class(self) -> type:
        """The installed base class of platforms."""
        ...

    def members(self) -> Mapping[str, Member]:
        """The members of the installed base, by name."""
        ...

    def active(self, platform: object) -> AbstractContextManager[None]:
        """Make `platform` the engine's `current_platform` in this process for a while."""
        ...

    def config_cases(self) -> Sequence[str]:
        """Names of the representative configs; `plain` first."""
        ...

    def config(self, case: str) -> Any:
        """Build a config that no hook of the platform under test has touched yet.

        Raises:
            Skip: the installed engine cannot build this case.
        """
        ...

    def create_config(self, platform: object) -> Any:
        """Create the plain config as the engine itself does when it starts, hooks of its current platform included.

        Raises:
            Exception: whatever the engine or a hook raises.
        """
        ...

    def put_layers(self, config: Any, backends: Sequence[Any]) -> None:
        """Let a config look as if a model with such attention layers, and states where it is hybrid, were loaded.

        Raises:
            Skip: the installed engine chooses the block size otherwise.
        """
        ...

    def cache_pages(self, config: Any, backend: Any) -> CachePages | None:
        """The pages of a hybrid model's layers with the block size that the config has; None for another model.

        Raises:
            Skip: the installed engine computes them otherwise.
        """
        ...

    def is_copied_to_workers(self, variable: str) -> bool:
        """Say whether the engine copies a variable to workers on other machines without being told."""
        ...

    def fit(self, platform: object, *, by_backend: bool = False) -> None:
        """Let what this adapter makes from now on, configs and questions, be of sizes that the platform serves.

        Most platforms serve the usual ones, and then nothing changes.

        Args:
            platform: that is asked.
            by_backend: the attention backend that it picks is asked too.
        """
        ...

    def give_device(self, platform: object, config: Any) -> None:
        """Put into a config the part that the engine makes from the platform before any hook: its device.

        Raises:
            NotRun: the engine cannot make it for this platform's device type.
        """
        ...

    def snapshot(self, config: Any) -> Mapping[str, Any]:
        """Flatten a config to dotted field -> comparable plain value, for diffs between two moments."""
        ...

    def selector_calls(self) -> Sequence[SelectorCall]:
        """The questions to the attention picker, `plain` first."""
        ...

    def picked(self) -> Sequence[PickedBase]:
        """What the pickers' answers have to be."""
        ...

    def picked_calls(self) -> Sequence[PickedCall]:
        """How the installed engine makes and calls what the pickers name, as found by its source."""
        ...

    def backend_names(self) -> Sequence[str]:
        """The names of attention backends that the engine looks up; empty where it has no such list."""
        ...

    def quantization_names(self) -> Sequence[str]:
        """The quantization methods that the engine knows now, those that plugins registered included."""
        ...

    def resolve(self, qualname: str) -> Any:
        """Import a dotted name the way the engine does.

        Raises:
            Exception: whatever the engine raises.
        """
        ...

    def engine_calls(self) -> Sequence[EngineCall]:
        """Every call and read of the platform in the installed engine, as found by its source."""
        ...

    def detectors(self) -> Mapping[str, str]:
        """`module:function` of every detector known here, by name; reads metadata, imports nothing."""
        ...

    def allows_plugin(self, name: str) -> bool:
        """Say whether the user lets a plugin of this name in, by the engine's own variable."""
        ...

    def detect(self) -> str:
        """`module:function` that resolves in a *fresh* interpreter and returns `Detection` as a dict.

        The function undoes what `environment` did to keep the platform neutral.
        """
        ...

    def in_tree(self, cls: type) -> bool:
        """Say whether the engine itself ships `cls`."""
        ...

    def detects(self, cls: type) -> bool:
        """Say whether a detector of the engine's own names `cls`, wherever it ships."""
        ...

    def platform_enum(self) -> type[enum.Enum]:
        """The engine's enumeration of kinds of platform; it has `OOT` and `UNSPECIFIED`."""
        ...

    def arguments(self, member: str) -> Sequence[Arguments]:
        """Harmless calls of a member, in the shapes in which the engine makes them.

        `conformance.engines.arguments.plain` has those that need no type of the engine. Empty where
        no harmless call is known.
        """
        ...

    def validate_config(self, config: Any) -> None:
        """Check every field of a config, as the engine does after a hook and on receipt.

        Raises:
            Exception: whatever the engine raises; its text names the field.
        """
        ...

    def seed_before_hook(self, seed: int) -> None:
        """Seed what the engine seeds itself before it calls the platform's `manual_seed_all`."""
        ...

    def worker_cls_field(self, config: Any) -> Any:
        """The value of the config's worker class field (`"auto"` when no hook has set it)."""
        ...

    def boot(self, layout: str) -> BootPlan:
        """How to boot the engine on a tiny model, in one process or with worker processes.

        Args:
            layout: `one-process` or `worker-processes`, as in `platform_abc.timeline`.
        """
        ...
