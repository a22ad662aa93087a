"""`python -m reference_engine`: generate from the command line."""

from __future__ import annotations

import sys

from reference_engine.cli import main

if __name__ == "__main__":
    sys.exit(main())
