"""`python -m platform_abc`: print how the platform is chosen on this machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from platform_abc._folder import without_implied_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run the detection.

    Args:
        arguments: those of the command line by default.

    Returns:
        The exit status, as `run_detect`; 2 also for a wrong command line.
    """
    # Imported here, when the current folder is off the import path: it may hold a `platform.py`.
    import argparse

    from platform_abc.detect import DEFAULT_TIMEOUT, ENGINES, run_detect

    def seconds(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value < 1e6:
            raise argparse.ArgumentTypeError(
                f"expected a number of seconds above 0 and below 1e6, got {text!r}"
            )
        return value

    parser = argparse.ArgumentParser(
        prog="python -m platform_abc",
        description="Print which platform is chosen here, which detectors were asked, and why.",
    )
    parser.add_argument(
        "--engine", choices=sorted(ENGINES), default="native", help="whose platform; default native"
    )
    parser.add_argument("--traceback", action="store_true", help="show also tracebacks of built-in detectors")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help="how long it may take; 120",
    )
    given = parser.parse_args(arguments)
    return run_detect(given.engine, as_json=given.json, tracebacks=given.traceback, timeout=given.timeout)


if __name__ == "__main__":
    sys.path[:] = without_implied_folder(sys.path)
    sys.exit(main())
