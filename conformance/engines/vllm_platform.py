"""vLLM's platforms as classes: the installed base, its members, and who is `current_platform` now."""

from __future__ import annotations

import ast
import contextlib
import enum
import functools
import importlib
import inspect
import itertools
import sys
import textwrap
from collections.abc import Generator, Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Final

import attrs

from conformance.context import is_a
from conformance.engines.base import Member, MemberKind
from conformance.engines.vllm_environment import package_folder
from platform_abc.members import MEMBERS

BASE: Final = ("vllm.platforms.interface", "Platform")
"""Where vLLM defines the base class of platforms, module and name."""

_CURRENT: Final = "_current_platform"
"""The global of `vllm.platforms` that holds the resolved platform, None before that."""

_SELECTORS: Final = (
    "vllm.attention.selector",
    "vllm.v1.attention.selector",
    "vllm.v1.attention.backends.mla.prefill.selector",
)
"""The modules that cache which backend the current platform picked, in old and new versions."""

_CACHED: Final = type(functools.cache(lambda: None))
"""What `functools` makes of a cached function; a platform would answer to `cache_clear` as to any name."""

_UNSET: Final = ("_enum", "device_name", "device_type")
"""Attributes that the base only annotates and every engine run reads."""

_GUESSES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("pickers", ("get_", "_cls")),
    ("kernel_hooks", ("import_", "kernel", "weight_loader", "forward_context")),
    ("config_hooks", ("config", "verify_", "validate_", "register", "block_size", "max_model_len")),
    ("capabilities", ("support", "use_", "uses_", "can_", "enable_", "opaque_")),
    ("identity", ("is_", "_key", "architecture", "_backend", "env_var")),
)
"""Parts of names, for members that a newer vLLM has and our contract does not know yet."""


def base_class() -> type:
    """Return the installed base class of platforms."""
    module, name = BASE
    found = getattr(importlib.import_module(module), name)
    assert isinstance(found, type)
    return found


def platform_enum() -> type[enum.Enum]:
    """Return vLLM's enumeration of kinds of platform."""
    found = importlib.import_module(BASE[0]).PlatformEnum
    assert isinstance(found, type)
    assert issubclass(found, enum.Enum)
    return found


def is_platform(cls: type) -> bool:
    """Say by the names in its MRO whether a class is a platform of vLLM."""
    return any((base.__module__, base.__qualname__) == BASE for base in cls.__mro__)


def in_tree(cls: type) -> bool:
    """Say whether vLLM itself ships a class."""
    return cls.__module__.partition(".")[0] == "vllm"


def detects(cls: type) -> bool:
    """Say whether a detector of vLLM's own names a class that another package ships, as for a TPU."""
    detectors = package_folder() / "platforms" / "__init__.py"
    return f'"{cls.__module__}.{cls.__qualname__}"' in detectors.read_text(encoding="utf-8")


@functools.cache
def members() -> Mapping[str, Member]:
    """Return the public members of the installed base, and the attributes that it leaves unset."""
    base = base_class()
    annotations = vars(base).get("__annotations__", {})
    names = [*vars(base), *(name for name in annotations if name not in vars(base))]
    return MappingProxyType(
        {
            name: _member(name, vars(base).get(name, inspect.Parameter.empty))
            for name in names
            if name in _UNSET or not name.startswith("_")
        }
    )


def _member(name: str, raw: Any) -> Member:
    unset = raw is inspect.Parameter.empty
    kind, value = _kind(None if unset else raw)
    known = MEMBERS.get(name)
    return Member(
        name=name,
        group=known.group if known else guess_group(name),
        kind=kind,
        value=value,
        unset=unset,
        abstract=unset,
        raises=only_raises(value),
    )


def _kind(raw: Any) -> tuple[MemberKind, Any]:
    if is_a(raw, classmethod):
        return "classmethod", raw.__func__
    if is_a(raw, staticmethod):
        return "staticmethod", raw.__func__
    if is_a(raw, property):
        return "property", raw.fget
    return ("method", raw) if inspect.isfunction(raw) else ("attribute", raw)


def guess_group(name: str) -> str:
    """Return the group that a name suggests; `device` where none does."""
    for group, parts in _GUESSES:
        needed = all if group == "pickers" else any
        if needed(part in name for part in parts):
            return group
    return "device"


def only_raises(value: Any) -> bool:
    """Say whether a function's body does nothing but raise NotImplementedError."""
    if not inspect.isfunction(value):
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, SyntaxError):
        return False  # no source to judge by, so it counts as a real body
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef):
        return False
    body = [one for one in function.body if not _is_docstring(one)]
    return len(body) == 1 and isinstance(body[0], ast.Raise) and _raised(body[0]) == "NotImplementedError"


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _raised(statement: ast.Raise) -> str:
    target = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
    return target.id if isinstance(target, ast.Name) else ""


# ------------------------------------------------------------------------- the current platform


def import_under_neutral_platform(*modules: str) -> object:
    """Import parts of vLLM while the current platform is one whose config hooks do nothing.

    Without it the import would resolve a platform of this machine, and a config built later would
    carry that platform's changes.

    Returns:
        The neutral platform, which stays the current one.
    """
    platforms = importlib.import_module("vllm.platforms")
    neutral: object = _neutral_class()()
    _exchange(platforms, getattr(platforms, _CURRENT), neutral)
    for module in modules:
        importlib.import_module(module)
    return neutral


def _neutral_class() -> type:
    """The CPU platform of vLLM without its config hooks: every other question gets a real answer."""
    cpu = importlib.import_module("vllm.platforms.cpu").CpuPlatform

    def leave(_cls: type[Any], /, *_args: object, **_kwargs: object) -> None:
        """Change nothing."""

    hooks = [
        name
        for name in (
            "pre_register_and_update",
            "apply_config_platform_defaults",
            "check_and_update_config",
            "update_block_size_for_backend",
        )
        if hasattr(cpu, name)
    ]
    return type("NeutralPlatform", (cpu,), {name: classmethod(leave) for name in hooks})


@contextlib.contextmanager
def active(platform: object) -> Generator[None]:
    """Make `platform` the current one, also where a module holds a copy of its own, and undo it.

    `from vllm.platforms import current_platform` binds the object, so that replacing it in one place
    would leave a hundred modules asking the old one.
    """
    platforms = importlib.import_module("vllm.platforms")
    before: object = getattr(platforms, _CURRENT)
    _exchange(platforms, before, platform)
    try:
        yield
    finally:
        _exchange(platforms, platform, before)


def _exchange(platforms: ModuleType, old: object, new: object) -> None:
    _rebind(old, new)
    setattr(platforms, _CURRENT, new)
    _forget_answers()


def _rebind(old: object, new: object) -> None:
    """Replace one object by another in the globals of every module that holds it."""
    if old is None:
        return
    for names, name in [*_look.found, *_holders(old, since=_look.newest)]:
        if names.get(name) is old:
            names[name] = new


_Global = tuple[dict[str, object], str]
"""The globals of a module, and a name in them."""


@attrs.define
class _Look:
    """An earlier look through all modules: the globals found, and the newest module then."""

    found: list[_Global] = attrs.Factory(list["_Global"])
    newest: str = ""


_look: Final = _Look()


def remember_holders() -> None:
    """Note which modules hold the current platform now, so that forks need not look through all again.

    Looking at every global of every module writes to all their reference counts, and a forked process
    then copies all that memory.
    """
    current: object = getattr(importlib.import_module("vllm.platforms"), _CURRENT)
    _look.found = list(_holders(current, since=""))
    _look.newest = next(reversed(sys.modules))


def _holders(wanted: object, since: str) -> Iterator[_Global]:
    """The globals that hold an object, in the modules that were imported after the one named `since`."""
    new = list(itertools.takewhile(lambda title: title != since, reversed(sys.modules)))
    for title in new:
        names: Any = getattr(sys.modules.get(title), "__dict__", None)
        if not is_a(names, dict):
            continue  # an object that some package put in the place of its module
        if title.startswith("vllm"):  # vLLM's own modules and plugins may call their copy anything
            for name in [name for name, value in names.items() if value is wanted]:
                yield names, name
        elif names.get("current_platform") is wanted:
            yield names, "current_platform"


def _forget_answers() -> None:
    """Empty the caches of vLLM's backend selectors, which keep the old platform's answers."""
    for name in _SELECTORS:
        values: list[Any] = list(vars(sys.modules[name]).values()) if name in sys.modules else []
        for value in values:
            if is_a(value, _CACHED):
                value.cache_clear()
