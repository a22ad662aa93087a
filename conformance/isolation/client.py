"""`Host`: the asking side of the process that imports the platform and forks a child for each check."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from conformance.answers import Answer, from_json
from conformance.engines.user_arguments import variables
from conformance.isolation import reaper
from conformance.isolation.child import Child, deadline, start, stop
from conformance.isolation.copies import ask_for
from conformance.isolation.died import ChildDied, timed_out
from conformance.isolation.environment import child_environment, import_path
from conformance.isolation.wire import Closed, Message
from conformance.stubs import Stubs
from conformance.target import Target

_MOMENT = 2.0
_FOR_COPY = 10.0
_FOR_FACTS = 15.0
"""Seconds for what only adorns the report: a check says with its own limit that a member hangs."""


@attrs.frozen
class Opening:
    """What came of starting the host.

    Args:
        status: `ready`; `usage` where the request is wrong; `failed` where the platform's import
            failed; `error` where the engine or the kit broke.
        line: one line for `usage` and `error`, and for `failed` what happened.
        module: for `failed`, the module that was being imported.
        engine: the name of the adapter; for `failed` as far as the source tells; empty if unknown.
        qualname: for `ready`, module and name of the class.
        location: for `ready`, `file:line` of the class, or its name.
        place: for `failed`, `file:line` of the innermost frame; empty if unknown.
        output: the last lines that were printed.
        trace: the traceback; empty if there is none.
        warnings: what the contract warned of during the import.
        stubs: which modules stand-ins were put in place for.
    """

    status: Literal["ready", "usage", "failed", "error"]
    line: str = ""
    module: str = ""
    engine: str = ""
    qualname: str = ""
    location: str = ""
    place: str = ""
    output: str = ""
    trace: str = ""
    warnings: tuple[str, ...] = ()
    stubs: Stubs = attrs.field(factory=Stubs)


@attrs.frozen
class Template:
    """An open host that gives away copies of itself.

    Args:
        opening: how it opened.
        place: the name of its socket; empty where it gives none away.
    """

    opening: Opening
    place: str

    def to_json(self) -> str:
        """As text for another process."""
        return json.dumps(attrs.asdict(self))

    @staticmethod
    def from_json(text: str) -> Template:
        """What `to_json` made a text of."""
        data = json.loads(text)
        told: dict[str, Any] = data["opening"]
        stubs = Stubs(**{name: tuple(names) for name, names in told.pop("stubs").items()})
        opening = Opening(**told)
        opening = attrs.evolve(opening, warnings=tuple(opening.warnings), stubs=stubs)
        return Template(opening, str(data["place"]))


@attrs.frozen
class Ran:
    """What came of one check in the host.

    Args:
        answer: the check's own; None if its process died.
        died: how it died; None if it answered.
        output: the last lines that it printed.
        left: how many processes it left behind.
        broken: why the check could not be run at all; empty if it was.
    """

    answer: Answer | None
    died: ChildDied | None = None
    output: str = ""
    left: int = 0
    broken: str = ""


@attrs.define
class Host:
    """One platform, opened in a process of its own; restarted when a check ends that process.

    Args:
        target: the platform.
        engine: the adapter's name, or None to go by the class.
        limit: seconds that each check may take.
        open_limit: seconds that the imports may take; None for the same as `limit`.
        patience: seconds beyond a check's limit after which the host itself counts as hanging.
        checks_from: the module that has the checks, or None for the kit's own.
        inline: run checks in the host itself, as where fork is unsafe.
        light: only static checks will run, which need no engine where its adapter is lazy.
        stubs: modules that stand-ins are put in place for, where they do not import.
        engine_arguments: for the engine that level `engine` boots, over the kit's own.
        importable_by_name: true: the host has imported it so.
        template: an open host of another process, which gives us a copy of itself.
        notify: told in words what takes time.
    """

    target: Target
    engine: str | None = None
    limit: float = 120.0
    open_limit: float | None = None
    patience: float = 20.0
    checks_from: str | None = None
    inline: bool = False
    light: bool = False
    stubs: tuple[str, ...] = ()
    engine_arguments: Mapping[str, object] = attrs.field(factory=dict[str, object])
    importable_by_name: bool = True
    template: Template | None = None
    notify: Callable[[str], None] = attrs.field(default=lambda text: None)
    _scratch: Path | None = None
    _child: Child | None = None
    _running: int | None = None

    def open(self) -> Opening:
        """Start the host: import the engine, then the platform; or take a copy of one that has."""
        if self.template is not None:
            opening, place = self.template.opening, self.template.place
            copy = ask_for(place, deadline(_FOR_COPY)) if place else None
            self._child = Child(*copy) if copy else None
            self.template = None  # one that dies is replaced by a host of our own
            if copy or opening.status != "ready":
                return opening
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="platform-abc-"))
        path = import_path()
        self._child = start(
            "host",
            {
                "target": attrs.asdict(self.target),
                "engine": self.engine,
                "limit": self.limit,
                "checks_from": self.checks_from,
                "inline": self.inline,
                "light": self.light,
                "stubs": list(self.stubs),
                "scratch": str(self._scratch),
            },
            path=path,
            env={**child_environment(self._scratch, path), **variables(self.engine_arguments)},
            scratch=self._scratch,
        )
        return self._opening(self._child)

    def share(self, opening: Opening) -> Template:
        """Let the host give copies of itself to other processes from now on; it runs no check itself any more.

        Args:
            opening: what `open` returned.
        """
        place: str | None = None
        child = self._ready() if opening.status == "ready" else ""
        if not isinstance(child, str):
            with contextlib.suppress(ChildDied):
                place = self._ask(child, {"do": "share", "limit": self.limit})["shared"]
        return Template(opening, place or "")

    def run(self, check_id: str, limit: float | None = None) -> Ran:
        """Run one check; its death, or the host's, is part of the answer.

        Args:
            limit: seconds that it may take; None for the run's.
        """
        request: Message = {"do": "check", "id": check_id, "limit": limit or self.limit}
        child = self._ready()
        if isinstance(child, str):
            return Ran(None, broken=child)
        try:
            reply = self._ask(child, request)
        except ChildDied as died:
            return Ran(None, died, died.output)
        if "died" in reply:
            how, detail = reply["died"]
            return Ran(None, ChildDied(how, detail, output=reply["output"]), reply["output"], reply["left"])
        return Ran(from_json(reply["answer"]), None, reply["output"], reply["left"])

    def begin(self, check_id: str, limit: float | None = None, *, spare: bool = False) -> bool:
        """Start a check that `run` is asked for later; it runs beside those in between.

        Args:
            limit: as for `run`.
            spare: only where a core has nothing to do.

        Returns:
            Whether it was started.
        """
        child = self._ready()
        if not isinstance(child, str):
            # A host that dies here is started again by `run`, and the check with it.
            with contextlib.suppress(ChildDied):
                request = {"do": "begin", "id": check_id, "limit": limit or self.limit, "spare": spare}
                return bool(self._ask(child, request)["begun"])
        return False

    def facts(self) -> Mapping[str, Any]:
        """Ask for the facts of the report; empty where they cannot be had."""
        child = self._ready()
        if isinstance(child, str):
            return {}
        try:
            reply = self._ask(child, {"do": "facts", "limit": min(self.limit, _FOR_FACTS)})
        except ChildDied:
            return {}
        answer: Mapping[str, Any] = reply.get("answer") or {}
        return answer

    def close(self) -> None:
        """End every process and remove every file of the run."""
        self._end()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None

    def _ready(self) -> Child | str:
        """The running host, a new one if a check ended the last; text if there is none to be had."""
        if self._child is not None and self._child.process.poll() is None:
            return self._child
        self._end()
        self.notify("the process that holds the platform has ended; starting another")
        opening = self.open()
        if opening.status != "ready":
            self._end()
            return f"the platform imported once, but not a second time: {opening.line}"
        assert self._child is not None  # `open` has just set it
        return self._child

    def _ask(self, child: Child, request: Message) -> Message:
        """Send a request and wait for the reply.

        Raises:
            ChildDied: the host itself died or hangs; it is gone afterwards.
        """
        patience = 0.0 if self.inline else self.patience
        until = deadline(float(request["limit"]) + patience)
        died: ChildDied
        try:
            child.channel.send(request)
            while True:
                message = child.channel.receive(until)
                if "started" in message:
                    self._running = int(message["started"])
                elif "extend" in message:
                    until = deadline(float(message["extend"]) + patience)
                else:
                    self._running = None
                    return message
        except TimeoutError:
            died = timed_out(float(request["limit"]), child.abort())
        except Closed:
            died = child.ended(within=2.0)
        self._end()
        raise died

    def _opening(self, child: Child) -> Opening:
        phase, engine, stubs = "start", "", Stubs()
        limit = self.limit if self.open_limit is None else self.open_limit
        until = deadline(limit)
        while True:
            try:
                message = child.channel.receive(until)
            except TimeoutError:
                death = _death(phase, self.target, timed_out(limit, child.abort()))
                return attrs.evolve(death, engine=engine, stubs=stubs)
            except Closed:
                death = _death(phase, self.target, child.ended(within=2.0))
                return attrs.evolve(death, engine=engine, stubs=stubs)
            if "stubs" in message:
                stubs = Stubs(*(tuple(names) for names in message["stubs"]))
            if "opened" in message:
                return attrs.evolve(self._understand(message, child), engine=engine, stubs=stubs)
            phase, engine = message["phase"], message["engine"]
            until = deadline(limit)

    def _understand(self, message: Message, child: Child) -> Opening:
        status = message["opened"]
        if status == "usage":
            return Opening("usage", message["line"])
        if status == "ready":
            return Opening(
                "ready",
                qualname=message["qualname"],
                location=message["location"],
                warnings=tuple(message["warnings"]),
            )
        raised = message["raised"]
        if status == "failed" and "line" in message:
            line, module = message["line"], message["module"]
        elif status == "failed":
            line = f"importing {message['module']} raised {raised['text']}"
            module = message["module"]
        else:
            line, module = f"the engine or the kit raised {raised['text']} at {raised['place']}", ""
        return Opening(
            status, line, module=module, place=_own_place(raised), output=child.output, trace=raised["trace"]
        )

    def _end(self) -> None:
        if self._running is not None and self._child is not None:
            reaper.kill_group(self._running)
            self._running = None
            # The host now collects the check and whatever it left; without that a container whose
            # first process collects nobody would keep them as zombies.
            with contextlib.suppress(Closed, TimeoutError):
                self._child.channel.receive(deadline(_MOMENT))
        if self._child is not None:
            _let_leave(self._child)
            stop(self._child)
            self._child = None


def _let_leave(child: Child) -> None:
    """Wake a host that stands still, so that the end reaches it."""
    with contextlib.suppress(ProcessLookupError):
        child.process.send_signal(signal.SIGCONT)


def _death(phase: str, target: Target, died: ChildDied) -> Opening:
    if phase == "platform":
        return Opening(
            "failed", f"importing {target.text} {died}", module=target.text, output=died.output, trace=""
        )
    what = {
        "engine": "importing the engine",
        "stubs": "trying whether a module of --conformance-stub imports",
        "plugins": "running the general plugins of the platform's distribution",
    }.get(phase, "starting a child interpreter")
    return Opening("error", f"{what} failed: the process {died}", output=died.output)


def _own_place(raised: Mapping[str, Any]) -> str:
    """The innermost frame that is neither Python's import machinery nor ours."""
    place = raised["place"]
    return "" if place.startswith("<frozen") else str(place)
