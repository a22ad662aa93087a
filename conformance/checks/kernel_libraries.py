"""Which compiled libraries `import_kernels` takes: one that is missing keeps no other from being imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Final

from conformance.context import ApartFailed, CheckContext, unrun
from conformance.model import Finding, Violation
from conformance.registry import check

_HOOK: Final = "import_kernels"
_MOST: Final = 6


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes after every other finder: notes what nobody else found, and makes all of it but one.

    What a library that is here misses for itself stays missing.

    Args:
        folder: of the platform's package, which asks.
        missing: what stays missing, with all that is in it.
    """

    def __init__(self, folder: str, missing: str = "") -> None:
        self.folder = folder
        self.missing = missing
        self.asked: dict[str, None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return an empty package, or nothing for what is missing."""
        if not _asks().startswith(self.folder):
            return None
        self.asked[fullname] = None
        if self.missing and (fullname == self.missing or fullname.startswith(f"{self.missing}.")):
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Let Python make it."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty; a name that is imported from it is there."""
        module.__dict__["__getattr__"] = _anything


def _asks() -> str:
    """The file of the code that imports, from within a finder."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_code.co_filename if frame is not None else ""


def _nothing(*args: object, **kwargs: object) -> None:
    return None


def _anything(name: str) -> object:
    """A function for every name that somebody imports from the stand-in."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _nothing


def _imported(ctx: CheckContext, missing: str = "") -> list[str]:
    """Call the hook with the stand-ins; what it asked for and nobody else has, in order."""
    home = inspect.getfile(ctx.owner(_HOOK) or ctx.platform_cls)
    finder = _Absent(str(Path(home).parent), missing)
    sys.meta_path.append(finder)
    try:
        with ctx.adapter.active(ctx.platform):
            unrun(getattr(ctx.platform, _HOOK)())
    finally:
        sys.meta_path.remove(finder)
    return list(finder.asked)


@check(
    "kernels.libraries",
    group="kernel_hooks",
    severity="should",
    needs=("kernels.imports",),
    asks=(_HOOK,),
    why="Builds rename and split their compiled libraries; one that is missing must not hide the others.",
    hint="Give each import a try of its own.",
)
def libraries(ctx: CheckContext) -> None:
    """Where one of several libraries is missing, `import_kernels` still imports the others."""
    if not ctx.overridden(_HOOK):
        return
    try:
        wanted = ctx.apart(lambda: _imported(ctx))
    except ApartFailed as broken:
        ctx.details["not tried"] = str(broken)
        return
    tops = [one for one in wanted if not any(one.startswith(f"{other}.") for other in wanted if other != one)]
    tops = [one for one in wanted if "." in one or one in tops][:_MOST]
    findings: list[Finding] = []
    for missing in tops:
        others = [one for one in tops if not one.startswith(missing) and not missing.startswith(f"{one}.")]
        try:
            got = ctx.apart(lambda missing=missing: _imported(ctx, missing))  # type: ignore[misc]
        except ApartFailed as broken:
            ctx.details[f"without {missing}"] = str(broken)
            continue
        hidden = [one for one in others if one not in got]
        # What comes after a missing one of the same package may need it.
        hidden = [
            one for one in hidden if one.rpartition(".")[0] != missing.rpartition(".")[0] or "." not in one
        ]
        if hidden:
            findings.append(
                ctx.finding(
                    _HOOK,
                    contract_says=f"`{_HOOK}` imports every library that is there, whichever other one is missing.",
                    platform_did=f"with {missing} missing it did not try {', '.join(hidden)}",
                    hint=f"Write one `try: import … except ImportError` for {missing} and another for {hidden[0]}.",
                )
            )
    if findings:
        raise Violation(*findings[:2])
