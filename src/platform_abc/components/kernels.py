"""Kernels that a platform replaces: core Triton kernels by name, and IR ops by priority."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

import attrs

F = TypeVar("F", bound=Callable[..., Any])


@attrs.define
class KernelRegistry:
    """The core Triton kernels of an engine by name, each with at most one override.

    A platform registers overrides in `register_triton_kernel_overrides`, which runs once in each worker
    before the worker's class is made.
    """

    _cores: dict[str, Callable[..., Any]] = attrs.field(factory=dict[str, Callable[..., Any]], init=False)
    _overrides: dict[str, Callable[..., Any]] = attrs.field(factory=dict[str, Callable[..., Any]], init=False)

    def core(self, name: str) -> Callable[[F], F]:
        """Return a decorator that makes a function the engine's own kernel `name`.

        Raises:
            ValueError: the name is taken by another function.
        """

        def register(function: F) -> F:
            known = self._cores.get(name)
            if known is not None and _identity(known) != _identity(function):
                raise ValueError(f"the core kernel {name!r} is already {_identity(known)}")
            self._cores[name] = function
            return function

        return register

    def override(self, name: str, function: Callable[..., Any]) -> None:
        """Replace a core kernel; the same function may be registered again.

        Args:
            name: the core kernel.
            function: what is called instead, with the same arguments.

        Raises:
            ValueError: there is no such kernel, it is overridden by another function, or `function`
                cannot be called.
        """
        if name not in self._cores:
            raise ValueError(
                f"no core kernel {name!r} (there are: {', '.join(sorted(self._cores)) or 'none'})"
            )
        if not callable(function):
            raise ValueError(f"the override of kernel {name!r} cannot be called: {function!r}")
        known = self._overrides.get(name)
        if known is not None and _identity(known) != _identity(function):
            raise ValueError(f"the kernel {name!r} is already overridden by {_identity(known)}")
        self._overrides[name] = function

    def get(self, name: str) -> Callable[..., Any]:
        """Return what runs for kernel `name`: its override, else the core kernel.

        Raises:
            KeyError: there is no such kernel.
        """
        return self._overrides.get(name) or self._cores[name]

    def core_of(self, name: str) -> Callable[..., Any]:
        """Return the engine's own kernel `name`, whether it is overridden or not.

        Raises:
            KeyError: there is no such kernel.
        """
        return self._cores[name]

    def overridden(self) -> Sequence[str]:
        """Return the names of the kernels that are overridden, sorted."""
        return tuple(sorted(self._overrides))

    def names(self) -> Sequence[str]:
        """Return the names of all core kernels, sorted."""
        return tuple(sorted(self._cores))

    def clear_overrides(self) -> None:
        """Forget all overrides."""
        self._overrides.clear()


def _identity(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", "")
    return f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"


@attrs.frozen
class IrOpImpl:
    """One implementation of an IR op.

    Args:
        provider: the name that a priority list uses.
        function: the implementation.
        supports: says whether it takes these arguments; None means any.
    """

    provider: str
    function: Callable[..., Any]
    supports: Callable[..., bool] | None = None


NATIVE = "native"
"""The provider that every op has, written in plain torch."""


@attrs.define
class IrOp:
    """One operation with several implementations, of which the first that fits runs.

    Args:
        name: its name.
        native: the implementation in plain torch, which takes any arguments.
    """

    name: str
    native: Callable[..., Any]
    impls: dict[str, IrOpImpl] = attrs.field(factory=dict[str, IrOpImpl], init=False)
    priority: tuple[str, ...] = attrs.field(default=(), init=False)

    def __attrs_post_init__(self) -> None:
        self.impls[NATIVE] = IrOpImpl(NATIVE, self.native)

    def register_impl(
        self, provider: str, *, supports: Callable[..., bool] | None = None
    ) -> Callable[[F], F]:
        """Return a decorator that adds an implementation; called from `import_ir_kernels`.

        Args:
            provider: the name that a priority list uses.
            supports: takes the op's arguments and says whether the implementation does them.

        Raises:
            ValueError: the provider is `native`, or has another implementation already.
        """
        if provider == NATIVE:
            raise ValueError(f"the implementation {NATIVE!r} of IR op {self.name!r} is the engine's own")

        def register(function: F) -> F:
            known = self.impls.get(provider)
            if known is not None and _identity(known.function) != _identity(function):
                raise ValueError(
                    f"IR op {self.name!r} already has {_identity(known.function)} as {provider!r}"
                )
            self.impls[provider] = IrOpImpl(provider, function, supports)
            return function

        return register

    def set_priority(self, providers: Sequence[str]) -> None:
        """Say which implementations are tried, in order; `native` comes last in any case.

        Raises:
            ValueError: a provider has no implementation of this op.
        """
        unknown = [name for name in providers if name not in self.impls]
        if unknown:
            raise ValueError(
                f"IR op {self.name!r} has no implementation {', '.join(map(repr, unknown))} "
                f"(there are: {', '.join(self.impls)})"
            )
        self.priority = tuple(providers)

    @contextlib.contextmanager
    def with_priority(self, providers: Sequence[str]) -> Generator[None]:
        """Use another priority within a `with` block."""
        before = self.priority
        self.set_priority(providers)
        try:
            yield
        finally:
            self.priority = before

    def choose(self, *args: Any, **kwargs: Any) -> IrOpImpl:
        """Return the implementation that runs for these arguments."""
        for provider in (*self.priority, NATIVE):
            impl = self.impls[provider]
            if impl.supports is None or impl.supports(*args, **kwargs):
                return impl
        return self.impls[NATIVE]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the op."""
        return self.choose(*args, **kwargs).function(*args, **kwargs)


@attrs.define
class IrOpRegistry:
    """The IR ops of an engine by name."""

    ops: dict[str, IrOp] = attrs.field(factory=dict[str, IrOp], init=False)

    def op(self, name: str) -> Callable[[Callable[..., Any]], IrOp]:
        """Return a decorator that makes a function the native implementation of a new op.

        Raises:
            ValueError: there is an op of this name.
        """

        def register(native: Callable[..., Any]) -> IrOp:
            if name in self.ops:
                raise ValueError(f"there is an IR op {name!r} already")
            self.ops[name] = IrOp(name, native)
            return self.ops[name]

        return register

    def set_priorities(self, by_op: Mapping[str, Sequence[str]]) -> None:
        """Set the priority of several ops.

        Args:
            by_op: op -> providers in order, as `IrOpPriorityConfig.by_op` gives it. An op that this
                engine does not have is left out: a config may serve several engines.

        Raises:
            ValueError: a provider has no implementation.
        """
        for name, providers in by_op.items():
            if name in self.ops:
                self.ops[name].set_priority(providers)


KERNELS = KernelRegistry()
"""The core Triton kernels of this process."""

IR_OPS = IrOpRegistry()
"""The IR ops of this process."""
