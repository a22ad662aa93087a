"""What a check gets: the platform under test, its engine's adapter, and helpers to ask and to blame.

A context lives in the child process in which the check runs.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import attrs

from conformance.engines.base import Adapter
from conformance.model import Finding, Skip, Unsupported, Violation
from platform_abc.errors import DeviceUnavailable, MissingDependency

Fresh = Callable[..., Any]
"""`fresh("module:function", *args, timeout=None)`: run it in a new interpreter, JSON in and out."""


@attrs.define
class CheckContext:
    """The platform under test, and what a check needs to judge it.

    Args:
        platform_cls: the class.
        adapter: the engine's adapter.
        fresh: runs a function, given as `"module:function"`, in a new interpreter that starts with
            the same environment and import path; arguments and result are JSON values. Raises
            `conformance.isolation.ChildDied` when it crashes, exits, hangs or raises.
        importable_by_name: a child can import the class; False for a local class.
        details: facts for the report.
    """

    platform_cls: type
    adapter: Adapter
    fresh: Fresh
    importable_by_name: bool = True
    details: dict[str, Any] = attrs.field(factory=dict)
    _platform: object = None

    @property
    def qualname(self) -> str:
        """The dotted name of the class."""
        return f"{self.platform_cls.__module__}.{self.platform_cls.__qualname__}"

    @property
    def platform(self) -> Any:
        """One instance of the class, made on first use."""
        if self._platform is None:
            self._platform = self.platform_cls()
        return self._platform

    def raw(self, member: str) -> Any:
        """The member as its class's `__dict__` has it, unbound; None if the class has no such name."""
        return inspect.getattr_static(self.platform_cls, member, None)

    def owner(self, member: str) -> type | None:
        """The class of the MRO that defines the member; None if none does."""
        for cls in self.platform_cls.__mro__:
            if member in vars(cls):
                return cls
        return None

    def overridden(self, member: str) -> bool:
        """Say whether the platform, not the engine's base or above, defines the member."""
        owner = self.owner(member)
        return owner is not None and not issubclass(self.adapter.base_class(), owner)

    def locate(self, member: str = "") -> str:
        """Where the member is defined, as `file:line`; the class's own place for an attribute."""
        raw = self.raw(member) if member else self.platform_cls
        for candidate in (raw, self.owner(member) if member else None, self.platform_cls):
            target: Any = candidate
            if isinstance(target, property):
                target = target.fget
            target = getattr(target, "__func__", target)
            target = inspect.unwrap(target) if callable(target) else target
            try:
                file = inspect.getsourcefile(target)
                line = inspect.getsourcelines(target)[1]
            except (TypeError, OSError):
                continue
            return f"{file}:{line}"
        return f"{self.qualname}.{member}" if member else self.qualname

    def finding(self, member: str, *, contract_says: str, platform_did: str, hint: str) -> Finding:
        """Make a `Finding` whose location is where the member is defined."""
        return Finding(
            contract_says=contract_says,
            platform_did=platform_did,
            member=member,
            location=self.locate(member),
            hint=hint,
        )

    def fail(self, member: str, *, contract_says: str, platform_did: str, hint: str) -> Violation:
        """Make a `Violation` of one finding; the caller raises it."""
        return Violation(
            self.finding(member, contract_says=contract_says, platform_did=platform_did, hint=hint)
        )

    def ask(self, member: str, *args: Any, contract_says: str, hint: str, **kwargs: Any) -> Any:
        """Call a member of the instance and return its answer.

        Raises:
            Unsupported: it raised `NotImplementedError` (so also `NotSupported`).
            Skip: it raised `MissingDependency` or `DeviceUnavailable`.
            Violation: it raised anything else, or there is no such callable.
        """
        try:
            return getattr(self.platform, member)(*args, **kwargs)
        except (MissingDependency, DeviceUnavailable) as error:
            raise Skip(str(error), error.remedy) from error
        except NotImplementedError as error:
            raise Unsupported(f"{member} raises {type(error).__name__}: {error}") from error
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise self.fail(
                member,
                contract_says=contract_says,
                platform_did=f"it raised {type(error).__name__}: {error} (at {where.filename}:{where.lineno})",
                hint=hint,
            ) from error
