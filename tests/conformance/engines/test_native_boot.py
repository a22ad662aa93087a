"""Facts about what the kit has the reference engine generate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from conformance.engines import user_arguments
from conformance.numeric.llama import write_folder

SCRIPT = "import json; from conformance.engines import native_boot; print(json.dumps(native_boot.drive('one-process')))"


def test_a_model_of_the_user_has_its_own_vocabulary(tmp_path: Path) -> None:
    """What counts as a token is said by the model that runs, not by the toy's size."""
    write_folder(tmp_path)
    wanted = json.loads((tmp_path / "config.json").read_text())["vocab_size"]
    assert wanted != 128
    environment = {
        **os.environ,
        **user_arguments.variables({"model": str(tmp_path)}),
        "PLATFORM_ABC_TARGET_DEVICE": "cpu",
    }
    ended = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["vocabulary"] == wanted
