"""The pytest entry point and the console script: loads the kit only when it is addressed.

A suite that never asks for the kit pays for a few option definitions and nothing else, and keeps its
own `--platform` if it has one.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import pytest

_EXTRA: Final = "pip install 'platform-abc[conformance]'"
_KIT: Final = "conformance"
_PREFIX: Final = "--conformance-"
_DEST: Final = "conformance_"
_PLATFORM: Final = "--platform"
_WINDOWS: Final = (
    "the conformance kit needs fork and process groups, which Windows lacks; run it under Linux, macOS or WSL "
    "(the contract, the platforms and `python -m platform_abc` work here)"
)

# Name, kind (text, list or flag), placeholder, help.
OPTIONS: Final = (
    ("platform", "text", "PKG:CLASS", "the platform class to judge, pkg.module:Class or pkg.module.Class"),
    ("report", "text", "FILE", "write the JSON report there"),
    ("html", "text", "FILE", "write an HTML page there"),
    (
        "level",
        "text",
        "LEVEL",
        "run this level and the cheaper ones: static, contract, device, components, engine",
    ),
    ("require", "text", "LEVEL", "fail when a check of this level or a cheaper one was skipped"),
    ("select", "list", "GLOB", "run only checks whose id matches; may be given more than once"),
    ("list", "flag", "", "list the checks and run none"),
    ("strict", "flag", "", "a failing check of severity 'should' counts as a failure"),
    (
        "config",
        "text",
        "FILE",
        "settings and expected failures, instead of [tool.platform-abc] of pyproject.toml",
    ),
    ("timeout", "text", "SECONDS", "limit of each child process (default 120)"),
    ("engine", "text", "NAME", "judge as a platform of this engine: native or vllm (default: by the class)"),
    ("contract", "text", "VERSION", "checks newer than this contract version decide nothing"),
    ("stub", "list", "NAME", "let a stand-in take the place of this module where it does not import"),
    ("checks-from", "text", "MODULE", "judge by the checks of this module alone; for tests of the kit"),
)

_F = TypeVar("_F", bound=Callable[..., object])


def _wrapper(function: _F) -> _F:
    """Mark a hook as the outermost wrapper; without pluggy there is no pytest to read the mark."""
    try:
        from pluggy import HookimplMarker
    except ImportError:
        return function
    return HookimplMarker("pytest")(wrapper=True, tryfirst=True)(function)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Define the prefixed options, whether or not the kit is used."""
    group = parser.getgroup(_KIT, "conformance kit (with --pyargs conformance)")
    for name, kind, placeholder, text in OPTIONS:
        flag = _PREFIX + name
        dest = _DEST + name.replace("-", "_")
        if kind == "flag":
            group.addoption(flag, action="store_true", default=False, dest=dest, help=text)
        elif kind == "list":
            group.addoption(flag, action="append", default=[], dest=dest, metavar=placeholder, help=text)
        else:
            group.addoption(flag, default=None, dest=dest, metavar=placeholder, help=text)


@_wrapper
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: Sequence[str]
) -> Generator[None]:
    """Attach the kit if it is addressed; define `--platform` after every conftest had its chance."""
    known = early_config.known_args_namespace
    wanted = getattr(known, f"{_DEST}list", False) or addressed(known.file_or_dir, bool(known.pyargs))
    if not wanted:
        typed = [arg for arg in early_config.invocation_params.args if arg.startswith(_PREFIX)]
        if typed and not known.help:
            early_config.pluginmanager.register(_Remark(_forgotten(typed[0])), "conformance-remark")
        return (yield)
    if sys.platform == "win32":
        raise _usage_error(_WINDOWS)
    ours = is_ours(_KIT)
    if ours:
        from conformance.plugin import attach

        attach(early_config)
    result = yield
    taken = _taken(parser, _PLATFORM)
    if not ours:
        theirs = taken or not any(arg.partition("=")[0] == _PLATFORM for arg in args)
        if theirs and not any(arg.startswith(_PREFIX) for arg in args):
            remark = f"{_KIT}: {_hidden(_KIT)}"
            early_config.pluginmanager.register(_Remark(remark), "conformance-remark")
            return result
        raise _usage_error(_hidden(_KIT))
    if not taken:
        group = parser.getgroup(_KIT)
        group.addoption(
            _PLATFORM, default=None, dest="conformance_platform_plain", metavar="PKG:CLASS",
            help=f"the same as {_PREFIX}platform, where no conftest defines it otherwise",
        )  # fmt: skip
    for name in ("platforms", "reference_model", "reference_engine"):
        if not is_ours(name):
            raise _usage_error(_hidden(name))
    return result


def addressed(arguments: Sequence[str], pyargs: bool) -> bool:
    """Say whether one of pytest's positional arguments is the kit.

    Args:
        arguments: the positional arguments.
        pyargs: they may be module names.
    """
    for argument in arguments:
        if pyargs and argument.partition("::")[0].split(".")[0] == _KIT:
            return True
        path = os.path.abspath(argument)
        if os.path.basename(path) == _KIT and _is_kit(path):
            return True
    return False


def is_ours(package: str) -> bool:
    """Say whether a package of ours is the one that an import would find; imports nothing."""
    place = _place(package)
    if package == _KIT:
        return _is_kit(place)
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.path.realpath(place) == os.path.realpath(os.path.join(home, package))


def main() -> int:
    """Run the `platform-abc` command; an interrupt ends it without a traceback, whenever it comes."""
    try:
        _open_standard_files()
        return _main()
    except KeyboardInterrupt:
        _tell("interrupted")
        return 2


def _open_standard_files() -> None:
    """Open what is closed of stdin, stdout and stderr on nowhere: the next file would take the number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, which is this one; what comes after us has it too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _main() -> int:
    try:
        import pytest  # noqa: F401  # pyright: ignore[reportUnusedImport]
        import typer  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        _tell(f"the command line needs {error.name}, which is not installed: {_EXTRA}")
        return 4
    if sys.platform == "win32":
        _tell(_WINDOWS)
        return 4
    if not is_ours(_KIT):
        _tell(_hidden(_KIT))
        return 4
    from conformance.cli import run

    return run(sys.argv[1:])


def _tell(line: str) -> None:
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]  it was closed at the start
        sys.stderr.write(f"platform-abc: {line}\n")


class _Remark:
    """A plugin that says one line in pytest's header."""

    def __init__(self, line: str) -> None:
        self._line = line

    def pytest_report_header(self) -> str:
        """The line."""
        return self._line


def _place(package: str) -> str:
    """The folder or file that an import of a top-level package would take; empty if there is none."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):
        return ""
    if spec is None:
        return ""
    if spec.origin and spec.origin not in ("built-in", "frozen", "namespace"):
        folder, file = os.path.split(spec.origin)
        return folder if file == "__init__.py" else spec.origin
    return next(iter(spec.submodule_search_locations or ()), "")


def _is_kit(place: str) -> bool:
    return os.path.isfile(os.path.join(place, "isolation", "entry.py")) and os.path.isfile(
        os.path.join(place, "engines", "base.py")
    )


def _hidden(package: str) -> str:
    place = _place(package)
    if not place:
        return f"the package {package} of platform-abc cannot be found; install it again: {_EXTRA}"
    return (
        f"{place} hides the package {package} of platform-abc, since its folder comes first on the import "
        "path; use `pytest` instead of `python -m pytest`, run from another folder, or rename it"
    )


def _forgotten(option: str) -> str:
    return f"{_KIT}: {option.partition('=')[0]} is given, but the kit is not; add --pyargs {_KIT}"


def _taken(parser: pytest.Parser, option: str) -> bool:
    """Say whether somebody has defined the option already."""
    known = getattr(parser, "_opt2dest", None)
    if known is not None:
        return option in known
    groups = [*getattr(parser, "_groups", ()), getattr(parser, "_anonymous", None)]  # before pytest 9
    return any(option in one.names() for group in groups if group is not None for one in group.options)


def _usage_error(line: str) -> Exception:
    import pytest

    return pytest.UsageError(line)
