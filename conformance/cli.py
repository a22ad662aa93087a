"""The `platform-abc` command: `check` becomes a pytest that runs the kit, `detect` explains resolution."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Final, NoReturn

import typer

from conformance.catalogue import checks_of
from conformance.facts import kit_version
from conformance.listing import listing_lines
from conformance.plan import make_plan
from conformance.problems import FRONT, UsageProblem, as_typed
from conformance.settings import Settings, resolve_level
from platform_abc.errors import CONTRACT_VERSION

USAGE: Final = 4
_PYTEST: Final = """
import sys
try:
    import pytest
    status = pytest.main()
except KeyboardInterrupt:  # while it was still being imported
    status = 2
    sys.stderr.write("platform-abc: interrupted\\n")
sys.exit(status)
"""
"""What `python -m pytest` does, but for an interrupt before there is anything that minds it."""
_PASSED_ON: Final = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    name="platform-abc",
    help="Judge an accelerator platform against the contract, and explain how one is chosen.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, help="Print versions and leave.")
    ] = False,
) -> None:
    """Judge an accelerator platform against the contract, and explain how one is chosen."""
    if version:
        print(f"platform-abc {kit_version()}, contract {CONTRACT_VERSION}")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(USAGE)


@app.command(context_settings=_PASSED_ON)
def check(
    context: typer.Context,
    platform: Annotated[
        str | None,
        typer.Argument(metavar="PKG:CLASS", help="The class: pkg.module:Class or pkg.module.Class."),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL", help="Run this level and the cheaper ones: static, contract, device, …"
        ),
    ] = None,
    require: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="Fail when a check of this level or a cheaper one was skipped."),
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Run only checks whose id matches; repeatable.")
    ] = None,
    report: Annotated[str | None, typer.Option(metavar="FILE", help="Write the JSON report there.")] = None,
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write an HTML page there.")] = None,
    # Without a metavar the help would show a value that a flag does not take.
    strict: Annotated[
        bool, typer.Option("--strict", metavar="", help="A failing 'should' counts as a failure.")
    ] = False,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="TOML with settings and expected failures.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Limit of each child process.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(metavar="NAME", help="native or vllm; by the class if left out.")
    ] = None,
    contract: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Checks newer than this decide nothing.")
    ] = None,
    stub: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Let a stand-in take a module's place if it does not import."),
    ] = None,
    show: Annotated[
        bool, typer.Option("--list", metavar="", help="List the checks that would run, and run none.")
    ] = False,
) -> None:
    """Judge a platform class; exit status 0 conformant or partial, 1 not, 2 interrupted, 3 undetermined, 4 usage.

    Further options are passed on to pytest, for example -x or -v.
    """
    options = {
        "level": level, "require": require, "report": report, "html": html, "config": config,
        "timeout": timeout, "engine": engine, "contract": contract, "platform": platform,
    }  # fmt: skip
    arguments = [f"--conformance-{name}={value}" for name, value in options.items() if value is not None]
    arguments += [f"--conformance-select={one}" for one in select or ()]
    arguments += [f"--conformance-stub={one}" for one in stub or ()]
    arguments += ["--conformance-strict"] if strict else []
    arguments += ["--conformance-list"] if show else []
    become_pytest([*arguments, *context.args])


@app.command()
def detect(
    engine: Annotated[str, typer.Option(metavar="NAME", help="Whose platform: native or vllm.")] = "native",
    traceback: Annotated[bool, typer.Option("--traceback", metavar="", help="Show every traceback.")] = False,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print the report as JSON.")] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.001, help="How long it may take.")
    ] = 120.0,
) -> None:
    """Print which platform is chosen here, which detectors were asked, and why."""
    from platform_abc.detect import run_detect

    raise typer.Exit(run_detect(engine, as_json=as_json, tracebacks=traceback, timeout=timeout))


@app.command("list")
def list_checks(
    level: Annotated[str | None, typer.Option(help="This level and the cheaper ones.")] = None,
    select: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Only ids that match.")] = None,
    engine: Annotated[str | None, typer.Option(help="Only checks of this engine.")] = None,
) -> None:
    """List the checks: id, severity, level, contract version, why."""
    settings = Settings(level=resolve_level(level), select=tuple(select or ()), engine=engine)
    plan = make_plan(checks_of(None), settings, engine)
    print("\n".join(listing_lines([one for one in plan.scope if one.id in plan.chosen])))


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status; what the user got wrong is one line."""
    try:
        status = app(args=list(arguments), prog_name="platform-abc", standalone_mode=False)
    except UsageProblem as problem:
        return _refuse(as_typed(problem.line.replace("--conformance-list", "platform-abc list")))
    except (typer.Abort, KeyboardInterrupt):
        return 2
    except Exception as error:
        # The parser's errors come from a library that typer may or may not carry within itself.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        return _refuse(f"{message()} (platform-abc --help shows what there is)")
    return status if isinstance(status, int) else 0


def become_pytest(arguments: Sequence[str]) -> NoReturn:
    """Let this process become a pytest that runs the kit: its signals and its exit status are ours.

    The suite around it takes no part: its conftest files, its options and its cache stay out.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"} | {FRONT: "1"}
    command = [
        sys.executable, "-P", "-c", _PYTEST, "-p", "platform_abc._shim", "-p", "no:cacheprovider",
        "--noconftest", "-o", "addopts=", "--pyargs", "conformance", *arguments,
    ]  # fmt: skip
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # it was closed when this process started
            stream.flush()
    os.execve(command[0], command, env)  # noqa: S606  a list, and no shell, is what is wanted


def _refuse(line: str) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"platform-abc: {line}\n")
    return USAGE
