"""The host: the one process that imports engine and platform, and forks a child for each check."""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import select
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from conformance import general_plugins, stubs
from conformance.answers import Answer, to_json
from conformance.catalogue import checks_of
from conformance.context import CheckContext, locate
from conformance.engines import adapter, choose, guess
from conformance.engines.base import Adapter
from conformance.facts import device_facts
from conformance.general_plugins import GeneralPlugins
from conformance.isolation import reaper, slots, tampering
from conformance.isolation.call import describe
from conformance.isolation.copies import hand_out, listen
from conformance.isolation.died import CHANNEL_LOST
from conformance.isolation.early import Early, begin
from conformance.isolation.environment import SINGLE_THREAD
from conformance.isolation.forked import (
    CAN_FORK,
    Ended,
    Extend,
    Forker,
    ParentGone,
    Task,
    identify,
    is_open,
    leave,
)
from conformance.isolation.fresh import Starter
from conformance.isolation.inline import run_inline
from conformance.isolation.wire import Channel, Closed, Message
from conformance.model import Level, Outcome, Skip
from conformance.perform import perform
from conformance.problems import UsageProblem
from conformance.target import FailedImport, Tampered, Target, exists, load, must_be_class, require_top
from platform_abc.errors import ContractWarning, MissingDependency

_FOR_TRIAL: Final = 10.0


def serve(channel: Channel, boot: Mapping[str, Any]) -> None:
    """Open the platform and run checks until the asking process closes the channel.

    Args:
        channel: to the asking process.
        boot: `target`, `engine`, `scratch`, `limit`, `checks_from`, `inline`, `light`, `stubs`, see `Host`.
    """
    scratch = Path(boot["scratch"])
    original = dict(os.environ)
    os.environ.update(SINGLE_THREAD)
    reaper.adopt_orphans()
    process, identity = os.getpid(), identify(channel.descriptor)
    try:
        with _watched(channel, scratch):
            opened, session = _open(channel, boot, original)
        if os.getpid() != process:
            leave(0)  # the platform's import forked, and this is the copy
        channel.send(opened)
        if session is not None:
            gc.collect()
            gc.freeze()  # so that no fork copies what it only reads
            _serve(channel, boot, session)
    except (Closed, ParentGone):
        if not is_open(channel.descriptor, identity):
            reaper.sweep(keep=set())
            leave(CHANNEL_LOST)  # the platform closed what it did not open; whoever asked is still there
        _clean_up(scratch)


def _serve(channel: Channel, boot: Mapping[str, Any], session: Session) -> None:
    """Answer requests until the asking process is gone.

    Raises:
        Closed: it closed the channel.
        ParentGone: it did so while a check ran.
    """
    scratch = Path(boot["scratch"])
    inline = boot["inline"] or not CAN_FORK
    forker = Forker(
        scratch,
        control=channel.descriptor,
        thorough=True,
        on_start=lambda pid: channel.send({"started": pid}),
        on_extend=lambda seconds: channel.send({"extend": seconds}),
    )
    early: dict[str, Early] = {}
    while True:
        request = channel.receive()
        if request["do"] == "share":
            listener = None if inline else listen(scratch)
            channel.send({"shared": None if listener is None else listener.getsockname()})
            if listener is not None:
                hand_out(listener, channel, scratch, lambda worker: _serve(worker, boot, session))
            continue
        task, limit, name = session.task(request), float(request["limit"]), str(request.get("id"))
        if request["do"] == "begin":
            busy = sum(reaper.runs(one.pid) for one in early.values())
            free = not inline and not session.is_alone(name)
            free = free and (not request["spare"] or busy < slots.cores() - 1)
            if free and name not in early:
                early[name] = begin(task, limit, scratch, close=lambda: os.close(channel.descriptor))
            channel.send({"begun": free})
            continue
        if name in early:
            ended = early.pop(name).wait(channel.descriptor, forker.on_extend)
            # What a supervisor that was killed should have ended came to us.
            swept = reaper.sweep(keep={one.pid for one in early.values()})
            ended = attrs.evolve(ended, left=ended.left + swept)
        else:
            ended = run_inline(task, scratch, session.cls, channel) if inline else forker.run(task, limit)
        channel.send(_reply(ended))


@contextlib.contextmanager
def _watched(channel: Channel, scratch: Path) -> Generator[None]:
    """Leave when the asking process dies during an import, which may hang for ever."""
    done = threading.Event()

    def watch() -> None:
        poll = select.poll()
        poll.register(channel.descriptor, select.POLLHUP)
        while not done.wait(0.2):
            if any(event & select.POLLHUP for _, event in poll.poll(0)):
                _clean_up(scratch)
                leave(0)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()  # a fork must find one thread


def _clean_up(scratch: Path) -> None:
    """Do what the asking process would have done: it ends us before it closes the channel, so it has died."""
    reaper.sweep(keep=set())
    shutil.rmtree(scratch, ignore_errors=True)


@attrs.frozen
class Session:
    """An open platform.

    Args:
        cls: its class.
        adapter: of its engine.
        starter: of fresh interpreters.
        checks_from: the module that has the checks, or None for the kit's own.
        plugins: the general plugins of its distribution, and what came of trying them.
    """

    cls: type
    adapter: Adapter
    starter: Starter
    checks_from: str | None
    plugins: GeneralPlugins = attrs.field(factory=GeneralPlugins)

    def is_alone(self, check_id: str) -> bool:
        """Say whether a check may use a device that others cannot use meanwhile.

        A platform of the kind CPU has none; others may call theirs `cpu` and still have a card.
        """
        kind = getattr(inspect.getattr_static(self.cls, "_enum", None), "name", "")
        return kind != "CPU" and checks_of(self.checks_from)[check_id].level >= Level.DEVICE

    def task(self, request: Message) -> Task:
        """What a child does for a request: a check by its id, or the facts for the report."""

        def work(extend: Extend) -> Message:
            if request["do"] == "facts":
                with contextlib.suppress(Exception):  # the check of general plugins tells
                    CheckContext(
                        self.cls, self.adapter, self.starter.fresh, plugins=self.plugins
                    ).run_plugins()
                return device_facts(self.cls, self.adapter)
            starter = attrs.evolve(self.starter, extend=extend, limit=float(request["limit"]), left=[])
            try:
                check = checks_of(self.checks_from)[request["id"]]
                context = CheckContext(
                    self.cls, self.adapter, starter.fresh, left=starter.left, plugins=self.plugins
                )
                return to_json(perform(check, context))
            except Exception as error:
                told = describe(error)
                broken = Answer(
                    Outcome.ERROR, reason=f"the kit raised {told['text']}", traceback=told["trace"]
                )
                return to_json(broken)

        return work


def _open(
    channel: Channel, boot: Mapping[str, Any], original: dict[str, str]
) -> tuple[Message, Session | None]:
    """Prepare the engine, import the platform, choose the adapter.

    Returns:
        The message for the asking process, and the session if there is one.
    """
    target = Target(
        boot["target"]["text"], tuple(boot["target"]["parts"]), tuple(boot["target"]["attributes"])
    )
    _reach(target)
    path = list(sys.path)
    before: tampering.Whole | None = None
    try:
        named: str | None = boot["engine"]
        require_top(target)
        chosen = adapter(named or guess(target) or "native")
        variables = dict(chosen.environment(boot["scratch"]))
        os.environ.update(variables)
        channel.send({"phase": "engine", "engine": chosen.name})
        _prepare(chosen, light=boot["light"])
        channel.send({"phase": "stubs", "engine": chosen.name})
        made = stubs.put(boot["stubs"], target)
        channel.send({"phase": "platform", "engine": chosen.name, "stubs": attrs.astuple(made)})
        before = tampering.look()
        cls, said = _import(target, before)
        fitting = choose(cls, named)
        if fitting.name != chosen.name:
            chosen = fitting
            channel.send({"phase": "engine", "engine": chosen.name})
            variables = dict(chosen.environment(boot["scratch"]))
            os.environ.update(variables)
            with stubs.lifted():
                _prepare(chosen, light=boot["light"])
        made = stubs.settled(made)
        variables |= stubs.variables(made)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _try_out(Forker(Path(boot["scratch"])), before)
        starter = Starter(path, {**original, **variables}, Path(boot["scratch"]), float(boot["limit"]))
        checks_of(boot["checks_from"])
        plugins = GeneralPlugins()
        # Not over stand-ins: one that a plugin registers would pass for the device.
        if not boot["light"] and not made.names:
            plugins = _tried(channel, boot, cls, chosen)
        return (
            {
                "opened": "ready",
                "qualname": f"{cls.__module__}.{cls.__qualname__}",
                "location": locate(cls) or f"{cls.__module__}.{cls.__qualname__}",
                "warnings": said,
                "stubs": attrs.astuple(made),
            },
            Session(cls, chosen, starter, boot["checks_from"], plugins),
        )
    except UsageProblem as problem:
        return {"opened": "usage", "line": problem.line}, None
    except FailedImport as failure:
        cause = failure.__cause__ or failure
        return {"opened": "failed", "module": failure.module, "raised": describe(cause)}, None
    except Tampered as tampered:
        return _tampered(tampered), None
    except Exception as error:
        names = tampering.replaced(before) if before is not None else []
        if names:
            return _tampered(Tampered(target.text, names)), None
        return {"opened": "error", "raised": describe(error)}, None


def _try_out(forker: Forker, before: tampering.Whole) -> None:
    """See whether a check can be run at all, where the import replaced something that this takes.

    Raises:
        RuntimeError: it cannot.
    """
    if CAN_FORK and tampering.replaced(before):
        ended = forker.run(lambda extend: {"fit": True}, _FOR_TRIAL)
        if ended.died is not None:
            raise RuntimeError(f"a fork {ended.died}")


def _tried(channel: Channel, boot: Mapping[str, Any], cls: type, chosen: Adapter) -> GeneralPlugins:
    """The general plugins of the platform's distribution, tried in a fork; where that is unsafe, here."""
    points = general_plugins.own(chosen, cls)
    if not points:
        return GeneralPlugins()
    channel.send({"phase": "plugins", "engine": chosen.name})
    scratch = Path(boot["scratch"])
    note = scratch / f"general-plugin-{os.getpid()}"

    def task(extend: Extend) -> Message:
        return general_plugins.try_out(points, cls, chosen, note)

    limit = min(general_plugins.LIMIT, float(boot["limit"]) / 2)
    if boot["inline"] or not CAN_FORK:
        ended = run_inline(task, scratch, cls, channel)
    else:
        ended = Forker(scratch, thorough=True).run(task, limit)
    trial = general_plugins.understand(ended.answer, ended.died, cls, note)
    with contextlib.suppress(OSError):
        note.unlink()
    if trial.did and not trial.plugin:
        return GeneralPlugins()  # there is no instance to run them after, which platform.instantiable says
    return GeneralPlugins(points, trial)


def _tampered(tampered: Tampered) -> Message:
    return {
        "opened": "failed",
        "module": tampered.module,
        "line": str(tampered),
        "raised": describe(tampered),
    }


def _prepare(chosen: Adapter, *, light: bool) -> None:
    """Import the engine, unless only static checks run and those of this engine do without.

    Raises:
        UsageProblem: it is not installed.
    """
    if light and chosen.lazy:
        return
    try:
        chosen.prepare()
    except (Skip, MissingDependency) as lack:
        raise UsageProblem(f"engine {chosen.name} cannot be used here: {lack}") from lack


def _import(target: Target, before: tampering.Whole) -> tuple[type, list[str]]:
    """Import the platform under the kit's own warning filters.

    Args:
        before: how things stood.

    Returns:
        The class, and what the contract warned of where classes were defined.

    Raises:
        Tampered: the import replaced what the kit lives on.
    """
    here = os.getcwd()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            thing = load(target)
        finally:
            changed = tampering.undo(before)
            if changed:
                raise Tampered(target.text, changed)
        cls = must_be_class(target, thing)
    if os.getcwd() != here:
        os.chdir(here)
    return cls, [str(one.message) for one in caught if issubclass(one.category, ContractWarning)]


def _reach(target: Target) -> None:
    """Let the working directory supply the platform's package when nothing else does."""
    top, here = target.parts[0], os.getcwd()
    if exists(top):
        return
    if Path(here, f"{top}.py").is_file() or any(Path(here, top).glob("*.py")):
        sys.path.append(here)


def _reply(ended: Ended) -> Message:
    if ended.died is None:
        return {"answer": ended.answer, "output": ended.output, "left": ended.left}
    return {
        "died": [ended.died.how, ended.died.detail],
        "output": ended.output,
        "left": ended.left,
    }
