"""Rows of the zoo's table about detectors, the order of imports, and what an import or an activation leaves behind."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

_LOOKS: Final = ("chip_looks.platform:Looks", "looks")
_ODD: Final = ("chip_odd.platform:Odd", "odd")
_REGISTERING: Final = ("chip_registering:Registering", "registering")
_STEADY: Final = ("chip_steady:Steady", "steady")


def _site(name: str, check: str, site: str, twin: tuple[str, str] = _STEADY) -> Mutant:
    return Mutant(name, check, twin[0], site=site, twin_site=twin[1])


def _plugin(name: str, check: str, site: str) -> Mutant:
    """One whose general plugin is at fault, which the process that holds a platform tries."""
    return Mutant(name, check, _REGISTERING[0], site=site, twin_site=_REGISTERING[1], host=True)


ROWS: Final[tuple[Mutant, ...]] = (
    _site("chip_crowded:Crowded", "detection.detector", "crowded", _ODD),
    _site("chip_unpackaged:Unpackaged", "detection.detector", "unpackaged", _ODD),
    _site("chip_misnamed:Misnamed", "detection.detector", "misnamed", _ODD),
    _site("chip_misplaced:Misplaced", "detection.detector", "misplaced", _ODD),
    _site("chip_badname:Badname", "detection.resolves", "badname", _ODD),
    _site("chip_double:Double", "detection.resolves", "double", _ODD),
    _site("chip_claims.platform:Claims", "detection.says-no", "claims", _LOOKS),
    _site("chip_unguarded:Unguarded", "detection.says-no", "unguarded", _LOOKS),
    _site("chip_brittle:Brittle", "detection.broken-library", "brittle", _LOOKS),
    _site("chip_banner.platform:Banner", "import-order.plugin-first", "banner", _ODD),
    _site("chip_busy:Busy", "activation.engine-imports", "busy", _ODD),
    _site("chip_patching:Patching", "activation.patches", "patching", _ODD),
    _site("chip_methodic:Methodic", "activation.patches", "methodic", _ODD),
    _site("chip_logging:Logs", "activation.logging", "logging", _ODD),
    _site("chip_loud:Loud", "activation.logging", "loud", _ODD),
    _site("chip_setting:Setting", "activation.environment", "setting", _ODD),
    _site("chip_meddling:Meddling", "activation.environment", "meddling", _ODD),
    _site("chip_quieting:Quieting", "activation.process-settings", "quieting", _ODD),
    _site("chip_writing:Writing", "activation.process-settings", "writing", _ODD),
    _site("chip_spawning:Spawning", "activation.process-settings", "spawning", _ODD),
    _site("chip_opening:Opening", "device.untouched-by-import", "opening", _LOOKS),
    _site("chip_cached.platform:Cached", "device.untouched-by-import", "cached", _LOOKS),
    _plugin("chip_failing:Failing", "activation.general-plugins", "failing"),
    _plugin("chip_starting:Starting", "device.untouched-by-plugins", "starting"),
    _site("chip_watching:Watching", "import-order.fork-safe", "watching", _ODD),
    Mutant("chip_bare:Bare", "import-order.side-effects", site="bare"),
    Mutant("chip_blocking:Blocking", "import-order.engine-entries", site="blocking"),
    Mutant("early:HookAsksRuntime", "device.untouched-by-hooks", "early:HookCounts"),
    Mutant("early:HookAllocates", "device.untouched-by-hooks", "early:HookCounts"),
    Mutant("early:NameByRuntime", "device.untouched-by-questions"),
    Mutant("early:KeyByEngine", "import-order.early-questions", "early:KeyPlainly"),
)
