"""One row of the zoo's table: a broken platform, the check that names it, and its twin that is right."""

from __future__ import annotations

from typing import Final

import attrs

GOOD: Final = "good:Good"


@attrs.frozen
class Mutant:
    """A broken platform.

    Args:
        name: `module:Class` below `tests.mutants`, or in the folder `site`.
        check: the id of the check that names the fault.
        twin: the same platform without the fault.
        site: a folder below `tests/mutants/sites` to put on the import path, with the package's metadata.
        twin_site: the same for the twin.
        host: it has to be imported in a process of its own, for what its import does.
    """

    name: str
    check: str
    twin: str = GOOD
    site: str = ""
    twin_site: str = ""
    host: bool = False
