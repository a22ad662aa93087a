"""What a booted engine shows, and whose doing it is when it fails: a hook, a line of the platform, a lack."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from conformance.context import CheckContext, short
from conformance.engines.boot import Boot
from conformance.engines.hooks_boot import FRONT_END, WORKER, own_places
from conformance.engines.native_tokens import PARALLEL, TOKENS
from conformance.model import Skip, Violation
from conformance.places import quoted
from conformance.remedies import instead
from conformance.stubs import in_place

ONE: Final = "one-process"
MANY: Final = "worker-processes"
SAYS: Final = "An engine boots on the platform, generates, and closes."

_FOR_WATCHING: Final = 60.0
"""Seconds beyond the engine's own for whoever watches it."""
_STACK: Final = re.compile(r'File "([^"]+)", line (\d+) in (\S+)')
_PRINTED: Final = re.compile(r'File "([^"]+)", line (\d+),? in (\S+)')
_HANDED_ON: Final = re.compile(r"\bthe ([\w ]+?) process failed in '\w+': ")
_NOT_SUPPORTED: Final = re.compile(r"\bdoes not support (\w+); to make it work")
_LACKS: Final = frozenset({"MissingDependency", "DeviceUnavailable"})
_OTHER_KINDS: Final = (
    "The engine's own worker lets only kinds of platform through here that it knows. In the worker that "
    "`check_and_update_config` names, override `_maybe_get_memory_pool_context` to return "
    "`contextlib.nullcontext()`, or let `_enum` be the kind whose worker you use."
)
_REFUSALS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "Sleep mode allocator is not available",
        "_enum",
        _OTHER_KINDS,
    ),
)
"""What an engine says when it refuses a platform, the member that this hangs on, and the way out."""


@attrs.frozen
class Frame:
    """A line of code that ran."""

    file: str
    line: str
    function: str

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"


@attrs.frozen
class Booted:
    """A run of the engine on the platform.

    Args:
        ctx: of the check.
        layout: how the engine was spread over processes.
        boot: what came of it.
    """

    ctx: CheckContext
    layout: str
    boot: Boot

    @property
    def answer(self) -> Mapping[str, Any]:
        """What the front end says that it generated; empty if it came to nothing."""
        found: Mapping[str, Any] = self.boot.result.get("answer") or {}
        return found

    @property
    def error(self) -> Mapping[str, Any]:
        """What the front end raised; empty if nothing."""
        found: Mapping[str, Any] = self.boot.result.get("error") or {}
        return found

    @property
    def how(self) -> str:
        """The layout in words."""
        return "with worker processes" if self.layout in (MANY, PARALLEL) else "in one process"

    def process(self, name: str) -> str:
        """A process in words."""
        return (
            "the engine's process"
            if self.layout in (ONE, TOKENS) and name == FRONT_END
            else f"the {name} process"
        )

    def inside(self, name: str) -> str:
        """In which process, as what follows a verb; empty where there is one only."""
        return "" if self.layout in (ONE, TOKENS) and name == FRONT_END else f" in {self.process(name)}"

    def events(self, *what: str) -> list[dict[str, Any]]:
        """The events of some kinds, in order of time."""
        return [event for event in self.boot.events if event["what"] in what]

    def open_calls(self) -> list[dict[str, Any]]:
        """The calls of members that have neither returned nor raised, in order of time."""
        waiting: dict[int, dict[str, Any]] = {}
        for event in self.events("call", "return", "raise"):
            if event["what"] == "call":
                waiting[event["pid"]] = event
            else:
                waiting.pop(event["pid"], None)
        return list(waiting.values())

    def last_call(self) -> str:
        """The member that was asked last, and where, as a clause."""
        calls = self.events("call")
        if not calls:
            return "no member of the platform had been asked"
        last = calls[-1]
        return f"the last member asked was `{last['name']}`{self.inside(last['process'])}"

    def stack(self, process: str) -> list[Frame]:
        """Where the threads of a hanging process stood, outermost frame first."""
        return [Frame(*one) for one in _STACK.findall(self.boot.stacks.get(process, ""))][::-1]

    def own(self, frames: Sequence[Frame]) -> Frame | None:
        """The last of these frames that lies in the platform's own files."""
        places = own_places(self.ctx.platform_cls)
        return next((one for one in reversed(frames) if one.file.startswith(places)), None)

    def fail(self, member: str, did: str, hint: str, *, place: str = "", says: str = SAYS) -> Violation:
        """Make the violation of this run."""
        return self.ctx.fail(
            member,
            contract_says=says,
            platform_did=f"{self.how}, {did}",
            hint=hint,
            location=place or self.ctx.locate(member),
        )


def booted(ctx: CheckContext, layout: str) -> Booted:
    """Boot the engine, once for all checks of a run, and return a run that has generated.

    Raises:
        Skip: the platform's device, a library of the vendor, or the engine itself is not to be had here.
        Violation: the engine failed, by the platform's doing.
    """
    ctx.need_device()
    if in_place():
        raise Skip(
            f"an engine does not run over stand-ins ({', '.join(in_place())})",
            "run the kit without --conformance-stub where the modules themselves are installed",
        )
    module, qualname, general = ctx.platform_cls.__module__, ctx.platform_cls.__qualname__, ctx.plugins.to_run
    run = Booted(ctx, layout, _boot(ctx, layout, module, qualname, general))
    ctx.details["engine_seconds"] = {layout: run.boot.seconds}
    if run.boot.ended not in ("answered", "lingered") or run.error:
        raise blame(run)
    return run


def _boot(
    ctx: CheckContext, layout: str, module: str, qualname: str, general: Sequence[Sequence[str]]
) -> Boot:
    plan = ctx.adapter.boot(layout)
    settings = {
        "engine": ctx.adapter.name,
        "drive": plan.drive,
        "layout": layout,
        "module": module,
        "qualname": qualname,
        "seconds": plan.seconds,
        "environment": dict(plan.environment),
        "general": [list(one) for one in general],
    }
    timeout = 2 * plan.seconds + _FOR_WATCHING
    return Boot(**ctx.fresh("conformance.engines.boot:run", settings, timeout=timeout, shared=True))


def blame(run: Booted) -> Exception:
    """Find out why a run failed.

    Returns:
        The `Violation`, or the `Skip`, to raise.
    """
    for explain in (_raised_in_hook, _unpicklable, _hanging, _died, _lacking, _refused, _own_line, _declined):
        found = explain(run)
        if found is not None:
            return found
    return _unexplained(run)


# -------------------------------------------------------------------------------- the causes


def _raised_in_hook(run: Booted) -> Violation | None:
    """A member raised, and what it raised is what ended the engine, or its process did no more after it."""
    said = "\n".join([*_texts(run), " ".join(run.boot.output.split())])
    last = {event["pid"]: event for event in run.boot.events}
    guilty = [event for event in run.events("raise") if _bare(event["text"]) in said] or [
        event
        for event in run.events("raise")
        if last[event["pid"]] is event and event["process"] != FRONT_END
    ]
    if not guilty or _LACKS.intersection(guilty[-1]["kinds"]):
        return None
    event = guilty[-1]
    frame = run.own(frames_of(event["frames"]))
    waits = ""
    if run.boot.ended in ("stuck", "hung"):
        waits = f"; the engine did not notice and was still waiting after {run.boot.seconds:g} s"
    return run.fail(
        event["name"],
        f"`{event['name']}` raised {event['text']}{run.inside(event['process'])}{_code(frame)}"
        f"{_times(run, event)}{waits}",
        _advice(run, event),
        place=frame.place if frame else "",
    )


def _code(frame: Frame | None) -> str:
    """The line of code of a frame, for the end of a sentence."""
    return quoted(frame.place) if frame else ""


def _bare(text: str) -> str:
    """The text of an exception as it may stand in another's: without its type where it is long enough."""
    rest = text.partition(": ")[2].rstrip("…")[:200]
    return rest if len(rest) >= 12 else text


def _texts(run: Booted) -> Iterator[str]:
    """What the front end raised and what other processes reported, in one line each."""
    for told in (run.error, *run.events("error")):
        yield from told.get("chain", ())


def _times(run: Booted, event: Mapping[str, Any]) -> str:
    """Say that a hook had worked elsewhere, or before, where that is so."""
    worked = [one for one in run.events("return") if one["name"] == event["name"] and one["t"] < event["t"]]
    if not worked:
        return ""
    where = dict.fromkeys(run.process(one["process"]) for one in worked)
    return f", after it had returned in {', '.join(where)}"


def _advice(run: Booted, event: Mapping[str, Any]) -> str:
    name, process, change = event["name"], event["process"], instead(event["text"])
    before = {one["process"] for one in run.events("return") if one["name"] == name}
    if process == WORKER or (before and process not in before):
        return _in_process(process)
    if before:
        return f"Change that line{change}. `{name}` has returned before in this run, and has to at each call."
    return f"Change that line{change}, so that `{name}` returns whatever the engine calls it with."


def _in_process(process: str) -> str:
    """What to do with a line that raises in another process than the front end."""
    return (
        f"Change that line: in the {process} process there are the config, the environment and what importing its "
        "modules gives, not what a hook left on a class or in a module of another process. Let the hook put that "
        "into vllm_config.additional_config, and read it from there."
    )


def _unpicklable(run: Booted) -> Violation | None:
    """The config did not pickle: name the hook that has put into it what prints like an object."""
    text = next((one for one in _texts(run) if re.search(r"pickle", one) and "Error" in one), "")
    if not text:
        return None
    for start in run.events("call"):
        end = next(
            (one for one in run.events("return") if one["name"] == start["name"] and one["t"] > start["t"]),
            None,
        )
        before, after = start.get("config"), end.get("config") if end else None
        if before is None or after is None:
            continue
        odd = [path for path, value in after.items() if value != before.get(path) and "<" in value]
        if odd:
            return run.fail(
                start["name"],
                f"the engine could not send the config to another process: {text}; `{start['name']}` had put "
                f"{', '.join(f'{path} = {after[path]}' for path in odd[:3])} there",
                "Put into the config only plain values and instances of classes at the top level of a module.",
            )
    return None


def _hanging(run: Booted) -> Violation | None:
    """The time was over: a member had not returned, or a line of the platform stood on some stack."""
    if run.boot.ended not in ("hung", "stuck"):
        return None
    waited = f"the engine had not generated after {run.boot.seconds:g} s"
    for event in reversed(run.open_calls()):
        name, process = event["name"], event["process"]
        frame = run.own(run.stack(process))
        line = f", at line {frame.line} of {frame.function}" if frame else ""
        if process in run.boot.stacks or run.boot.ended == "hung":
            return run.fail(
                name,
                f"{waited}: `{name}` had not returned{run.inside(process)}{line}",
                f"Let `{name}` return in moments; bound every wait in it.",
                place=frame.place if frame else "",
            )
    for process in run.boot.stacks:
        frame = run.own(run.stack(process))
        if frame:
            return run.fail(
                frame.function,
                f"{waited}: {run.process(process)} was in `{frame.function}`, line {frame.line}; {run.last_call()}",
                f"Let `{frame.function}` return; bound every wait in it.",
                place=frame.place,
            )
    return None


def _died(run: Booted) -> Violation | None:
    """A process ended while a member ran, or by the platform's own code."""
    if run.boot.ended == "hung":
        return None
    for event in run.events("exit"):
        frame = run.own(frames_of(event["frames"]))
        if frame:
            return run.fail(
                frame.function,
                f"{run.process(event['process'])} ended with status {event['status']} by `os._exit` in "
                f"`{frame.function}`{_code(frame)}; {run.last_call()}",
                "Raise an exception there instead; the engine then says what is wrong and ends its other processes.",
                place=frame.place,
            )
    for event in reversed(run.open_calls()):
        name, process = event["name"], event["process"]
        frame = run.own(_printed(run))
        status = run.boot.status
        end = f" with status {status}" if process == FRONT_END and status is not None else ""
        return run.fail(
            name,
            f"{run.process(process)} ended{end} inside `{name}`",
            f"Let `{name}` raise where it cannot go on: no `os._exit`, no `sys.exit`, no crash.",
            place=frame.place if frame else "",
        )
    return None


def _lacking(run: Booted) -> Skip | None:
    """A library or a device that the vendor's code needs is not here."""
    for told in (run.error, *run.events("error", "raise")):
        if _LACKS.intersection(told.get("kinds", ())):
            return Skip(
                f"the engine needs what is not here: {told['text']}", "install it, or run the kit there"
            )
    for told in (run.error, *run.events("error")):
        top = str(told.get("missing") or "").partition(".")[0]
        own = run.ctx.platform_cls.__module__.partition(".")[0]
        if top and top not in (own, run.ctx.adapter.name) and importlib.util.find_spec(top) is None:
            return Skip(f"the engine run needs the package {top!r}, which is not installed", f"install {top}")
    return None


def _refused(run: Booted) -> Violation | None:
    """The engine itself refuses the platform."""
    said = "\n".join([*_texts(run), run.boot.output])
    for text, member, hint in _REFUSALS:
        if text in said:
            line = next((one for one in _texts(run) if text in one), text)
            return run.fail(member, f"the engine refused the platform: {line}", hint)
    return None


def _own_line(run: Booted) -> Violation | None:
    """An exception passed a line of the platform's own files, outside its members."""
    for told in (run.error, *run.events("error")[::-1]):
        frames = frames_of(told.get("frames", ()))
        frame = run.own(frames)
        if frame:
            cause, process = _cause(told["text"], str(told.get("process", FRONT_END)))
            return run.fail(
                frame.function,
                f"`{frame.function}` raised {cause}{run.inside(process)}{_code(frame)}"
                f"{_caller(run, frames, frame)}; {run.last_call()}",
                _mend(run, cause, process, below=frames[-1] != frame),
                place=frame.place,
            )
    frame = run.own(_printed(run))
    if frame:
        return run.fail(
            frame.function,
            f"the engine failed in `{frame.function}`: {_summary(run)}{_code(frame)}; {run.last_call()}",
            _mend(run, _summary(run), FRONT_END, below=False),
            place=frame.place,
        )
    return None


def _cause(text: str, process: str) -> tuple[str, str]:
    """What was raised first, and in which process, where an engine hands on what its processes raised."""
    handed_on = list(_HANDED_ON.finditer(text))
    return (text[handed_on[-1].end() :], handed_on[-1][1]) if handed_on else (text, process)


def _caller(run: Booted, frames: Sequence[Frame], frame: Frame) -> str:
    """The platform's own line that called the function of a frame, as a clause."""
    own = [one for one in frames[: frames.index(frame)] if run.own([one]) and one.function != frame.function]
    return f", called by `{own[-1].function}`{_code(own[-1])}" if own else ""


def _mend(run: Booted, raised: str, process: str, *, below: bool) -> str:
    """What to do with a line of the platform's own code, outside its members, that raises.

    Args:
        below: the line itself did not raise, but what it called.
    """
    if run.layout == MANY and process != FRONT_END:
        return _in_process(process)
    change = instead(raised)
    if change:
        return f"Change that line{change}."
    if below:
        return "Change what that line hands over, or the call: what it calls refuses it, for the reason that it gives."
    return "Change that line so that it does not raise there, or remove the call that leads to it."


def _declined(run: Booted) -> Violation | None:
    """The engine called a member that the platform leaves to a base that only raises."""
    for text in _texts(run):
        told = _NOT_SUPPORTED.search(text)
        if told and told[1] in run.ctx.adapter.members():
            return run.fail(
                told[1],
                f"the engine called `{told[1]}`, which only raises: {text}",
                f"Define `{told[1]}` in {run.ctx.platform_cls.__name__}: every run calls it.",
                place=run.ctx.locate(),
            )
    return None


def frames_of(told: Sequence[str]) -> list[Frame]:
    return [Frame(*one.rsplit(":", 2)) for one in told]


def _printed(run: Booted) -> list[Frame]:
    """The frames in what was printed; a crash prints its innermost one first."""
    return [Frame(*one) for one in _PRINTED.findall(run.boot.output)]


def _summary(run: Booted) -> str:
    """What the engine said in the end, in one line."""
    if run.error:
        return str(run.error["text"])
    if run.boot.ended in ("hung", "stuck"):
        return f"no end within {run.boot.seconds:g} s"
    lines = run.boot.output.splitlines()
    printed = f", it printed last: {short(lines[-1], 300)}" if lines else ""
    return f"the front end ended with status {run.boot.status}{printed}"


def _unexplained(run: Booted) -> Exception:
    """Nothing of the platform is to be seen: ask whether the engine runs here at all."""
    plan = run.ctx.adapter.boot(run.layout)
    module, _, qualname = plan.control.partition(":")
    control = Booted(run.ctx, run.layout, _boot(run.ctx, run.layout, module, qualname, ()))
    if control.boot.ended != "answered" or control.error:
        return Skip(
            f"the engine does not run here {run.how}, nor does it on its own {qualname}: {_summary(control)}",
            "run the kit where the engine itself generates",
        )
    return run.fail(
        run.ctx.platform_cls.__name__,
        f"the engine failed: {_summary(run)}; {run.last_call()}; on the engine's own {qualname} it generates",
        "Compare what the member asked last answers, and what the worker class does, with the base's: the engine "
        "fails over one of them.",
    )
