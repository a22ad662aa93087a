"""The console script and the pytest entry point: loads the kit only when it is addressed."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the `platform-abc` command."""
    sys.stderr.write("platform-abc: the command line needs the kit: pip install 'platform-abc[conformance]'\n")
    return 2
