"""Judge real, published platforms, each beside a vLLM that it loads with, and compare with what is known of them.

    python tests/real_plugins/run.py [--only NAME] [--out docs/real-plugins.md] [--work FOLDER]

Builds one environment with vLLM, unless this one has it, and a thin one for each plugin. Ends with 0 if the kit
says of each plugin what `plugins.toml` says, no more and no less. A plugin that the package index does not have for
this machine is left out, with a line that says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # in the place of this folder: run as a file, it is no part of a package

from tests.real_plugins import environments, weights  # noqa: E402
from tests.real_plugins.judged import Judged, judge  # noqa: E402
from tests.real_plugins.page import page  # noqa: E402
from tests.real_plugins.table import Plugin, read  # noqa: E402


def run(plugins: list[Plugin], work: Path, out: Path | None, reports: Path | None) -> int:
    """Judge them one after the other; the exit status.

    Args:
        plugins: which.
        work: a folder for the environments.
        out: where the page goes; None for no page.
        reports: a folder for the kit's reports; None to keep none.
    """
    try:
        python = environments.fat(work)
    except environments.NotThere as missing:
        _say(f"skipped: the package index has no {missing} for this machine")
        return 0
    except environments.NotInstalled as failed:
        _say(f"the environment with vLLM could not be made: {failed}")
        return 1
    results: list[tuple[Plugin, Judged]] = []
    failed = False
    for plugin in plugins:
        started = time.monotonic()
        try:
            own = environments.thin(plugin, python, work)
            model = work / "model"
            if plugin.weights and not (model / "model.safetensors").exists():
                environments.call(python, weights.__file__, str(model))
        except environments.NotThere as missing:
            _say(f"{plugin.name}: skipped, the package index has no {missing} for this machine")
            continue
        except environments.NotInstalled as problem:
            _say(f"{plugin.name}: its environment could not be made: {problem}")
            failed = True
            continue
        built = time.monotonic() - started
        judged = judge(plugin, own, model)
        if reports is not None:
            _keep(reports, plugin, judged)
        failed |= bool(judged.wrong)
        _tell(plugin, judged, built)
        results.append((plugin, judged))
    if out is not None and results and all(judged.report for _, judged in results):
        out.write_text(page(results), encoding="utf-8")
        _say(f"wrote {out}")
    return 1 if failed else 0


def _tell(plugin: Plugin, judged: Judged, built: float) -> None:
    counts = judged.report.get("counts", {})
    numbers = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    _say(
        f"{plugin.name}: {'as known' if not judged.wrong else 'NOT as known'}"
        f" ({numbers}; environment {built:.0f} s, kit {judged.seconds:.0f} s)"
    )
    for sentence in judged.wrong:
        _say(f"  {sentence}")
    if judged.wrong and not judged.report:
        _say("\n".join(judged.output.splitlines()[-30:]))


def _keep(folder: Path, plugin: Plugin, judged: Judged) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{plugin.name}.txt").write_text(judged.output, encoding="utf-8")
    (folder / f"{plugin.name}.json").write_text(json.dumps(judged.report, indent=1), encoding="utf-8")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    plugins = read()
    parser.add_argument("--only", action="append", choices=sorted(plugins), help="may be repeated")
    parser.add_argument("--out", type=Path, help="write the page of results there")
    parser.add_argument(
        "--work", type=Path, help="a folder to keep the environments in; default: a temporary one"
    )
    parser.add_argument("--reports", type=Path, help="a folder for the kit's reports and what it printed")
    asked = parser.parse_args()
    chosen = [plugin for name, plugin in plugins.items() if asked.only is None or name in asked.only]
    if asked.work is not None:
        asked.work.mkdir(parents=True, exist_ok=True)
        return run(chosen, asked.work.resolve(), asked.out, asked.reports)
    with tempfile.TemporaryDirectory(prefix="plugins-") as folder:
        return run(chosen, Path(folder), asked.out, asked.reports)


if __name__ == "__main__":
    sys.exit(main())
