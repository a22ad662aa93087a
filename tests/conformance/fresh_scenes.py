"""What the tests of fresh interpreters run: `main` asks for them, the other functions run in them."""

from __future__ import annotations

import json
import multiprocessing.shared_memory
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from conformance.isolation import ChildDied, Starter
from conformance.isolation.environment import import_path

HERE = "tests.conformance.fresh_scenes"
SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(600)  # outlives its parent"]


def ours(folder: str) -> int:
    """Note that this ran, take a moment, and say in which process it was."""
    mark = Path(folder, f"ran-{os.getpid()}")
    mark.touch()
    beside = len(list(Path(folder).glob("ran-*")))
    time.sleep(0.3)
    mark.rename(mark.with_name(f"done-{os.getpid()}"))
    return beside


def leave() -> int:
    """Leave a process with a session of its own."""
    return subprocess.Popen(SLEEPER, start_new_session=True).pid


def leave_memory(name: str) -> None:
    """Leave a segment of shared memory that no tracker knows of."""
    Path("/dev/shm", name).write_bytes(b"x")


def hang_with_children(file: str) -> None:
    """Hang beside a process with a session of its own and a segment that Python's tracker knows of."""
    pid = subprocess.Popen(SLEEPER, start_new_session=True).pid
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=8)
    Path(file).write_text(json.dumps([pid, memory.name]))
    time.sleep(600)


def refuse() -> None:
    """Raise, a little later."""
    time.sleep(0.2)
    raise LookupError("no")


def asking(folder: str, scratch: str) -> int:
    """Ask for `ours` from a process that is a check's, as it were."""
    code = (
        "import os, sys; from pathlib import Path; from conformance.isolation import Starter;"
        "from conformance.isolation.environment import import_path;"
        "starter = Starter(import_path(), dict(os.environ), Path(sys.argv[2]), 30.0);"
        f"print(starter.fresh('{HERE}:ours', sys.argv[1]))"
    )
    return int(subprocess.check_output([sys.executable, "-c", code, folder, scratch]))


def main(folder: str) -> dict[str, Any]:
    """Play every scene and say what came of it."""
    scratch = Path(tempfile.mkdtemp(dir=folder))
    starter = Starter(import_path(), dict(os.environ), scratch, 30.0)
    said: dict[str, Any] = {"limit": len(os.sched_getaffinity(0))}

    checks = said["limit"] + 2
    with ThreadPoolExecutor(checks) as pool:
        asked = [pool.submit(asking, folder, str(scratch)) for _ in range(checks)]
        said["beside"] = [one.result() for one in asked]

    starter.left.clear()
    said["pid"] = starter.fresh(f"{HERE}:leave")
    said["left"], said["outlived"] = list(starter.left), Path(f"/proc/{said['pid']}").exists()

    starter.left.clear()
    name = f"conformance-test-{os.getpid()}"
    starter.fresh(f"{HERE}:leave_memory", name)
    Path("/dev/shm", name).unlink()
    said["memory"], said["memory-name"] = list(starter.left), name

    starter.left.clear()
    file = scratch / "hanging"
    try:
        starter.fresh(f"{HERE}:hang_with_children", str(file), timeout=3.0)
    except ChildDied as died:
        said["hung"] = str(died)
    pid, segment = json.loads(file.read_text())
    said["after-hang"] = [Path(f"/proc/{pid}").exists(), Path("/dev/shm", segment).exists(), starter.left]

    said["shared"] = []
    for _ in range(2):
        start = time.monotonic()
        try:
            starter.fresh(f"{HERE}:refuse", shared=True)
        except ChildDied as died:
            said["shared"].append([str(died), died.kinds[0], time.monotonic() - start])
    return said


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
