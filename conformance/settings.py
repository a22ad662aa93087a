"""The settings of a run: the command line first, then the configuration file, then defaults."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import attrs

from conformance.engines import require_known as require_known_engine
from conformance.engines.user_arguments import KEY
from conformance.expected import ExpectedFailure, read_expected
from conformance.model import DEFAULT_TIMEOUT, Level
from conformance.problems import UsageProblem, did_you_mean
from conformance.stubs import read as read_stubs
from conformance.stubs import require_other
from platform_abc.errors import CONTRACT_VERSION

_VERSION: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})*")


@attrs.frozen
class Settings:
    """What a run does.

    Args:
        platform: the platform's name as the user gave it; None if nobody gave one.
        level: the dearest level that is run; None for all.
        require: a skipped check of this level, or of a cheaper one, makes the run fail.
        select: globs of ids; empty for all.
        strict: a `should` that fails counts as a `must`.
        timeout: seconds for each child process.
        engine: the adapter's name; None to go by the class.
        contract: checks newer than this version are informative; None for the installed one.
        report: where the JSON report goes.
        html: where the HTML page goes.
        stub: modules that a stand-in is put in place for, where they do not import.
        engine_arguments: for the engine that level `engine` boots, over the kit's own.
        expected: expected failures by id.
        source: the configuration file that was read, for messages; empty if none.
    """

    platform: str | None = None
    level: Level | None = None
    require: Level | None = None
    select: tuple[str, ...] = ()
    strict: bool = False
    timeout: float = DEFAULT_TIMEOUT
    engine: str | None = None
    contract: str | None = None
    report: Path | None = None
    html: Path | None = None
    stub: tuple[str, ...] = ()
    engine_arguments: Mapping[str, object] = attrs.field(factory=dict[str, object])
    expected: Mapping[str, ExpectedFailure] = attrs.field(factory=dict[str, ExpectedFailure])
    source: str = ""


def resolve(given: Mapping[str, object], *, config: str | None, here: Path) -> Settings:
    """Merge what the command line gave with the configuration file.

    Args:
        given: values by the option's name without its prefix; None or False where not given.
        config: the file that the user named; None for the nearest `pyproject.toml`.
        here: the folder that relative paths start from.

    Raises:
        UsageProblem: a value is wrong, or the file is.
    """
    table, source = _read(config, here)
    expected = read_expected(table.pop("expected-failures", {}), source)
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in _READERS:
            raise UsageProblem(
                f"{source}: unknown key {name!r}{did_you_mean(name, [*_READERS, 'expected-failures'])};"
                f" known: {', '.join(_READERS)}, expected-failures"
            )
        values[name] = _READERS[name](value, f"{source}: {name}", False)
    for name, value in given.items():
        if value is not None and value is not False and value != []:
            values[name] = _READERS[name](value, f"--conformance-{name}", True)
    settings = Settings(
        expected=expected,
        source=source,
        **{name.replace("-", "_"): value for name, value in values.items()},
    )
    _check(settings)
    return attrs.evolve(
        settings,
        report=here / settings.report if settings.report else None,
        html=here / settings.html if settings.html else None,
    )


def resolve_level(level: Level | str | None) -> Level | None:
    """A level given as itself or by its label.

    Raises:
        UsageProblem: there is no such level.
    """
    return level if level is None or isinstance(level, Level) else _level(level, "level", True)


def version_key(version: str) -> tuple[int, ...]:
    """A contract version as something to compare: `1`, `1.0` and `1.0.0` are one.

    Raises:
        ValueError: it is not of the form `1.0`.
    """
    if not _VERSION.fullmatch(version):
        raise ValueError(f"{version!r} is no version")
    parts = [int(part) for part in version.split(".")]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return tuple(parts)


def _check(settings: Settings) -> None:
    if settings.engine is not None:
        require_known_engine(settings.engine)
    if settings.level is not None and settings.require is not None and settings.require > settings.level:
        raise UsageProblem(
            f"--conformance-require {settings.require.label} asks for more than "
            f"--conformance-level {settings.level.label} runs; raise the level or lower the requirement"
        )
    if settings.platform is not None:
        require_other(settings.stub, settings.platform)


def _read(config: str | None, here: Path) -> tuple[dict[str, object], str]:
    """The table of settings and how to call its file."""
    if config is not None:
        file = here / config
        if not file.is_file():
            raise UsageProblem(f"--conformance-config {config!r}: there is no such file")
        return _table(file, config, named=True), config
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            return _table(file, str(file), named=False), f"{file} [tool.platform-abc]"
    return {}, ""


def _table(file: Path, called: str, *, named: bool) -> dict[str, object]:
    try:
        data: dict[str, object] = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageProblem(f"{called} is not valid TOML: {error}") from error
    except OSError as error:
        raise UsageProblem(f"{called} cannot be read: {error.strerror}") from error
    tool: object = data.get("tool")
    inside = cast("dict[str, object]", tool).get("platform-abc") if isinstance(tool, dict) else None
    if inside is None:
        return data if named and file.name != "pyproject.toml" else {}
    if not isinstance(inside, dict):
        raise UsageProblem(f"{called}: tool.platform-abc must be a table, got {inside!r}")
    return dict(cast("dict[str, object]", inside))


def _text(value: object, where: str, from_line: bool) -> str:
    if not isinstance(value, str) or (not value.strip() and not from_line):
        raise UsageProblem(f"{where} must be a text that is not empty, got {value!r}")
    return value


def _file(value: object, where: str, from_line: bool) -> Path:
    text = _text(value, where, from_line)
    if not text.strip() or text == "-":
        raise UsageProblem(f"{where} must name a file, got {text!r}")
    return Path(text)


def _flag(value: object, where: str, from_line: bool) -> bool:
    if not isinstance(value, bool):
        raise UsageProblem(f"{where} must be true or false, got {value!r}")
    return value


def _level(value: object, where: str, from_line: bool) -> Level:
    known = {level.label: level for level in Level}
    text = _text(value, where, from_line)
    if text not in known:
        raise UsageProblem(
            f"{where} {text!r} is no level{did_you_mean(text, known)}; known, cheapest first: {', '.join(known)}"
        )
    return known[text]


def _globs(value: object, where: str, from_line: bool) -> tuple[str, ...]:
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    globs = [one for one in values if isinstance(one, str) and one.strip()]
    if len(globs) < len(values):
        raise UsageProblem(f"{where} must be a glob of check ids, or a list of them, got {value!r}")
    return tuple(globs)


def _stubs(value: object, where: str, from_line: bool) -> tuple[str, ...]:
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    names = [one for one in values if isinstance(one, str)]
    if len(names) < len(values):
        raise UsageProblem(f"{where} must be the name of a module, or a list of them, got {value!r}")
    return read_stubs(names, where)


def _seconds(value: object, where: str, from_line: bool) -> float:
    try:
        seconds = math.nan if isinstance(value, bool) else float(cast("str", value))
    except (TypeError, ValueError):
        seconds = math.nan
    if isinstance(value, str) and not from_line:
        seconds = math.nan
    if not 0 < seconds <= 86400:
        raise UsageProblem(f"{where} must be a number of seconds above 0, at most 86400, got {value!r}")
    return seconds


def _version(value: object, where: str, from_line: bool) -> str:
    text = _text(value, where, from_line).strip()
    try:
        key = version_key(text)
    except ValueError:
        raise UsageProblem(f"{where} must be a version such as {CONTRACT_VERSION!r}, got {text!r}") from None
    if key > version_key(CONTRACT_VERSION):
        raise UsageProblem(
            f"{where} {text} is newer than this kit knows ({CONTRACT_VERSION}); upgrade platform-abc"
        )
    return text


def _arguments(value: object, where: str, from_line: bool) -> Mapping[str, object]:
    table = dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else {}
    try:
        json.dumps(table)
    except (TypeError, ValueError):  # TOML has dates
        table.clear()
    if not table:
        raise UsageProblem(f"{where} must be a table of the engine's arguments by name, got {value!r}")
    return table


_READERS: Final[Mapping[str, Callable[[object, str, bool], object]]] = {
    "platform": _text,
    "level": _level,
    "require": _level,
    "select": _globs,
    "strict": _flag,
    "timeout": _seconds,
    "engine": _text,
    "contract": _version,
    "report": _file,
    "html": _file,
    "stub": _stubs,
    KEY: _arguments,
}
