"""The child that runs all kernel cases in Triton's interpreter and prints what went wrong as JSON."""

from __future__ import annotations

import json
import sys
import traceback

import torch

from platforms.triton_state import interpreted
from tests.platforms.components.kernel_cases import CASES


def main() -> None:
    torch.set_num_threads(1)
    assert interpreted()
    found: dict[str, str] = {}
    for name, body in CASES.items():
        try:
            body(torch.device("cpu"))
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
