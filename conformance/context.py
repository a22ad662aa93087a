"""What a check gets: the platform under test, its engine's adapter, and helpers to ask and to blame.

A context lives in the child process in which the check runs.
"""

from __future__ import annotations

import ast
import inspect
import os
import pickle
import textwrap
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

import attrs

from conformance import general_plugins
from conformance.engines.base import Adapter, Arguments
from conformance.general_plugins import GeneralPlugins, missing_device, without_memory
from conformance.isolation.forked import leave
from conformance.model import Finding, NotRun, Skip, Unsupported, Violation
from conformance.places import on_instance, quoted, written
from conformance.stubs import in_place
from platform_abc.errors import DeviceUnavailable, MissingDependency

Fresh = Callable[..., Any]
"""`fresh("module:function", *args, timeout=None, shared=False)`: run it in a new interpreter, JSON in and out."""

_T = TypeVar("_T")
_MISTAKES: Final = (TypeError, AttributeError, NameError, KeyError, IndexError)
"""What wrong code raises; an absent device shows as something else."""


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
        left: what the fresh interpreters of this check left behind, in words: processes, shared memory.
        plugins: the general plugins of the platform's distribution.
    """

    platform_cls: type
    adapter: Adapter
    fresh: Fresh
    importable_by_name: bool = True
    details: dict[str, Any] = attrs.field(factory=dict[str, Any])
    left: list[str] = attrs.field(factory=list[str])
    plugins: GeneralPlugins = attrs.field(factory=GeneralPlugins)
    _platform: object = None
    _is_fitted: bool = False

    @property
    def fitted(self) -> Adapter:
        """The adapter, whose plain configs and questions are of sizes that the platform serves."""
        if not self._is_fitted:
            self._is_fitted = True
            self.adapter.fit(self.platform)
        return self.adapter

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

    @property
    def stubs(self) -> tuple[str, ...]:
        """The modules that stand-ins are in place for; no detector may be asked while there are any."""
        return in_place()

    def raw(self, member: str) -> Any:
        """The member as its class's `__dict__` has it, unbound; None if the class has no such name."""
        return inspect.getattr_static(self.platform_cls, member, None)

    def attribute(self, name: str) -> Any:
        """What the class itself answers for an attribute that an earlier check has found there."""
        return getattr(self.platform_cls, name)

    def owner(self, member: str) -> type | None:
        """The class of the MRO that defines the member; None if none does."""
        for cls in self.platform_cls.__mro__:
            if member in vars(cls):
                return cls
        return None

    def knows(self, member: str) -> bool:
        """Say whether the installed engine has the member at all; an older version lacks newer ones."""
        return member in self.adapter.members()

    def overridden(self, member: str) -> bool:
        """Say whether the platform, not the engine's base or above, defines the member."""
        owner = self.owner(member)
        return owner is not None and not issubclass(self.adapter.base_class(), owner)

    def locate(self, member: str = "") -> str:
        """Where the platform has the member, as `file:line`; the class's own place for what it inherits.

        A member of the engine's base is not the vendor's to change, so it is never the answer.
        """
        owner = self.owner(member) if member else None
        if owner is not None and self.overridden(member):
            place = locate(self.raw(member)) or locate_attribute(owner, member) or locate(owner)
            if place:
                return place
        return locate(self.platform_cls) or self.qualname

    def locate_on_instance(self, name: str) -> str:
        """Where the platform's own code sets `self.<name>`, as `file:line`; where it has the name if not to be seen."""
        base = self.adapter.base_class()
        own = [cls for cls in self.platform_cls.__mro__ if not issubclass(base, cls)]
        return next(filter(None, (on_instance(cls, name) for cls in own)), "") or self.locate(name)

    def locate_write(self, hook: str, field: str) -> str:
        """Where a hook of the platform's writes a field of a config, or a variable; the hook where not to be seen."""
        function: object = getattr(self.raw(hook), "__func__", self.raw(hook))
        parts = reversed(field.split("."))  # a key of a dict, then the dict that holds it
        lines = (written(function, name) for name in parts) if self.overridden(hook) else ()
        return next(filter(None, lines), "") or self.locate(hook)

    def finding(
        self, member: str, *, contract_says: str, platform_did: str, hint: str, location: str = ""
    ) -> Finding:
        """Make a `Finding`; it points to the member's definition, or the class's where no member is named."""
        return Finding(
            contract_says=contract_says,
            platform_did=platform_did,
            member=member or self.platform_cls.__name__,
            location=location or self.locate(member),
            hint=hint,
        )

    def fail(
        self, member: str, *, contract_says: str, platform_did: str, hint: str, location: str = ""
    ) -> Violation:
        """Make a `Violation` of one finding; the caller raises it."""
        return Violation(
            self.finding(
                member,
                contract_says=contract_says,
                platform_did=platform_did,
                hint=hint,
                location=location,
            )
        )

    def device_missing(self) -> str:
        """Say which device this machine lacks for the platform; empty if it is here.

        Answered as an engine would find it, after the platform's general plugins, also by a check that runs
        without them; see `conformance.general_plugins.missing_device`.
        """
        return self.plugins.trial.missing if self.plugins.wait else missing_device(self.platform_cls)

    def run_plugins(self) -> None:
        """Run the platform's general plugins in this process, as an engine does before it comes to the device.

        Raises:
            Violation: one of them raised, which it had not done when they were tried.
        """
        if not self.plugins.wait:
            return
        began: list[str] = []
        try:
            with self.adapter.active(self.platform):
                general_plugins.run(self.plugins.to_run, began.append)
        except (Exception, SystemExit) as error:
            raise self.fail(
                began[-1] if began else "",
                contract_says="A general plugin runs to its end in every process of the engine.",
                platform_did=f"it raised {describe(error)}, and had not when the kit tried it before",
                hint="Let it follow from the machine alone, whatever runs beside this process.",
                location=self.blame(error),
            ) from error

    def need_device(self, *, memory: bool = True) -> None:
        """Skip the check unless the platform's device is on this machine.

        Args:
            memory: torch has to be able to put a tensor there, which no simulated device lets it.

        Raises:
            Skip: it is not.
        """
        missing = self.device_missing() or (without_memory(self.platform_cls) if memory else "")
        if missing:
            raise Skip(f"no {missing.removeprefix('a ')}", "run the kit on a machine that has the device")

    def ask(self, member: str, *args: Any, contract_says: str, hint: str, **kwargs: Any) -> Any:
        """Call a member of the instance and return its answer.

        Raises:
            Unsupported: it raised `NotImplementedError` (so also `NotSupported`), or neither the installed
                engine nor the platform has it.
            Skip: it raised `MissingDependency` or `DeviceUnavailable`, or, on a machine without the
                device, what runtimes raise there.
            NotRun: it is not callable or refuses these arguments; another check says so.
            Violation: it raised anything else.
        """
        if self.raw(member) is None and not self.knows(member):
            raise Unsupported(f"the installed engine has no {member}")
        call = getattr(self.platform, member)
        if not callable(call):
            raise NotRun(f"{member} cannot be called, see members.kinds")
        self._bind(member, call, args, kwargs)
        try:
            answer = call(*args, **kwargs)
        except (MissingDependency, DeviceUnavailable) as error:
            raise Skip(str(error), error.remedy) from error
        except NotImplementedError as error:
            raise Unsupported(f"{member} raises {describe(error)}") from error
        except (Exception, SystemExit) as error:
            missing = "" if isinstance(error, _MISTAKES) else self.device_missing()
            if missing:
                raise Skip(
                    f"{missing}; {member} raised {describe(error)}", "run the kit where the device is"
                ) from error
            raise self.raised(member, error, contract_says=contract_says, hint=hint) from error
        self.must_have_run(member, answer)
        return answer

    def must_have_run(self, member: str, answer: object) -> None:
        """Fail if a call gave a coroutine or a generator: the body of the member has not run then.

        Raises:
            NotRun: the member is written as a coroutine or generator function; another check says so.
            Violation: it did.
        """
        kind = unrun(answer)
        function: object = getattr(self.raw(member), "__func__", self.raw(member))
        if kind and any(
            is_kind(function)
            for is_kind in (
                inspect.iscoroutinefunction,
                inspect.isgeneratorfunction,
                inspect.isasyncgenfunction,
            )
        ):
            raise NotRun(f"{member} gives {kind}, see members.kinds")
        if kind:
            raise self.fail(
                member,
                contract_says=f"`{member}` does its work when it is called; the engine neither awaits nor "
                "iterates over what it returns.",
                platform_did=f"it returned {kind}, so its body has not run",
                hint=f"Write `def {member}` without `async` and `yield`; a decorator around it may hide them.",
            )

    def ask_all(self, member: str, *, contract_says: str, hint: str) -> Iterator[tuple[str, Any]]:
        """Call a member once for each harmless set of arguments that the adapter knows.

        Yields:
            The call as text, and the answer.
        """
        for one in self.adapter.arguments(member):
            answer = self.ask(member, *one.args, contract_says=contract_says, hint=hint, **one.kwargs)
            yield spell(member, one), answer

    def raised(self, member: str, error: BaseException, *, contract_says: str, hint: str) -> Violation:
        """Make the `Violation` of a member that raised where it must not; it says where."""
        place = self.blame(error)
        return self.fail(
            member,
            contract_says=contract_says,
            platform_did=f"it raised {describe(error)}{quoted(place)}",
            hint=hint,
            location=place or self.locate(member),
        )

    def blame(self, error: BaseException) -> str:
        """The innermost line of the platform's own package that the error passed, or empty."""
        home = inspect.getfile(self.platform_cls) if self.importable_by_name else ""
        folder = str(Path(home).parent) if home else ""
        own = [
            f"{frame.f_code.co_filename}:{line}"
            for frame, line in _frames(error.__traceback__)
            if folder and frame.f_code.co_filename.startswith(folder)
        ]
        return own[-1] if own else ""

    def apart(self, func: Callable[[], _T]) -> _T:
        """Run a function in a process forked from this one, so that what it changes is gone after.

        Where fork is unsafe it runs here. The answer must pickle.

        Raises:
            ApartFailed: the function raised, or its process died; the text says which.
        """
        if not hasattr(os, "fork") or os.uname().sysname == "Darwin":
            return func()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _answer(func, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(pid, 0)
        if not data:
            raise ApartFailed(f"the process ended without an answer, {_end(status)}")
        worked, value = pickle.loads(data)
        if not worked:
            raise ApartFailed(value)
        answer: _T = value
        return answer

    def _bind(self, member: str, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            signature = inspect.signature(call)
        except (TypeError, ValueError) as error:
            if inspect.ismethod(call) and self.overridden(member):
                raise NotRun(f"{member} takes no first argument, see members.engine-calls") from error
            return
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            if not self.overridden(member):
                raise
            raise NotRun(f"{member} refuses the engine's call ({error}), see members.engine-calls") from error


class ApartFailed(Exception):
    """What ran in a process of its own raised or died."""


def _answer(func: Callable[[], object], writer: int) -> None:
    """Run in the fork: write the pickled answer and leave without any exit handler."""
    try:
        try:
            data = pickle.dumps((True, func()))
        except BaseException as error:
            data = pickle.dumps((False, describe(error)))
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(data)
    finally:
        leave(0)


def _end(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"


def _frames(trace: TracebackType | None) -> Iterator[tuple[Any, int]]:
    return traceback.walk_tb(trace)


def unrun(answer: object) -> str:
    """What a call gave instead of running, with its article; empty if it ran. A coroutine is closed."""
    for is_kind, word in (
        (inspect.iscoroutine, "a coroutine"),
        (inspect.isgenerator, "a generator"),
        (inspect.isasyncgen, "an async generator"),
        (inspect.isawaitable, "an awaitable"),
    ):
        if is_kind(answer):
            if isinstance(answer, Coroutine):
                answer.close()
            return word
    return ""


def describe(error: BaseException) -> str:
    """An error in one line: its type and its text."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def spell(member: str, call: Arguments) -> str:
    """A call as a reader would type it, long values shortened."""
    parts = [short(one) for one in call.args] + [f"{name}={short(one)}" for name, one in call.kwargs.items()]
    return f"{member}({', '.join(parts)})"


def short(value: object, limit: int = 100) -> str:
    """A value for a sentence: its repr, cut where it is long, its type where the repr fails."""
    try:
        text = " ".join(repr(value).split())
    except Exception as error:
        return f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def is_a(value: object, *kinds: type) -> bool:
    """As `isinstance`, for a value of vendors' code, whose contents a checker cannot know anyway."""
    return isinstance(value, kinds)


def kind_of(value: object) -> str:
    """A value and its type, for "it returned …"."""
    return "None" if value is None else f"{short(value)} ({type(value).__name__})"


def locate(thing: Any) -> str:
    """`file:line` of a class, function or property; empty where it has no source."""
    target: Any = thing.fget if isinstance(thing, property) else thing
    target = getattr(target, "__func__", target)
    try:
        target = inspect.unwrap(target) if callable(target) else target
        return f"{inspect.getsourcefile(target)}:{inspect.getsourcelines(target)[1]}"
    except (TypeError, OSError, ValueError):
        return ""


def locate_attribute(cls: type, name: str) -> str:
    """`file:line` of the statement in a class body that sets a name; empty where there is none to be seen."""
    try:
        lines, first = inspect.getsourcelines(cls)
        body = ast.parse(textwrap.dedent("".join(lines))).body[0]
        file = inspect.getsourcefile(cls)
    except (TypeError, OSError, SyntaxError, IndexError):
        return ""
    if not isinstance(body, ast.ClassDef):
        return ""
    for statement in _statements(body.body):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return f"{file}:{first + statement.lineno - 1}"
    return ""


def _statements(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """The statements of a class body, those inside `if`, `try`, `with` and `for` included."""
    for node in nodes:
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.ExceptHandler):
            yield from _statements(ast.iter_child_nodes(node))
