"""The documentation is true: its examples are the example's own lines, its options exist, its TOML is accepted."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib

import pytest

from tests.project.trees import ROOT, needs_tree, python

pytestmark = needs_tree

DOCS = ROOT / "docs"
EXAMPLE = ROOT / "examples" / "dummy_platform"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_every_piece_of_the_tutorial_is_in_the_example():
    """The tutorial shows lines of the package that it explains, not lines like them."""
    text = (DOCS / "tutorial.md").read_text()
    file = None
    seen = set()
    for line in re.split(
        r"(?m)^(`[\w./]+`:|```(?:python|toml)\n.*?^```)", text, flags=re.DOTALL | re.MULTILINE
    ):
        if re.fullmatch(r"`[\w./]+`:", line):
            file = EXAMPLE / line.strip("`:")
            assert file.exists(), line
        elif line.startswith(("```python", "```toml")):
            block = line.partition("\n")[2].removesuffix("```")
            assert file is not None
            assert block in file.read_text(), f"not in {file.name}:\n{block}"
            seen.add(file.name)
    assert {"pyproject.toml", "platform.py", "ops.py", "worker.py"} <= seen


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "tutorial.md"], ids=lambda p: p.name)
def test_python_and_toml_and_json_blocks_are_valid(page):
    """A block that a reader copies is at least well formed."""
    text = page.read_text()
    for language, parse in (("python", ast.parse), ("toml", tomllib.loads), ("json", json.loads)):
        blocks = _blocks(text, language)
        assert len(blocks) == len(re.findall(rf"^ *```{language}\b", text, re.MULTILINE)), (
            "a fence is not closed"
        )
        malformed = []
        for block in blocks:
            try:
                parse(block)
            except (SyntaxError, ValueError) as error:  # json's and tomllib's errors are ValueErrors
                malformed.append((block, error))
        assert malformed == []


def test_contract_page_defines_a_platform_that_python_accepts():
    """The class in `contract.md` is complete: defining it neither raises nor warns."""
    block = next(b for b in _blocks((DOCS / "contract.md").read_text(), "python") if "class MyPlatform" in b)
    told = python("-W", "error", "-c", block + "\nprint(MyPlatform().is_out_of_tree())")
    assert told.strip() == "True"


@pytest.mark.deep
@pytest.mark.torch
@pytest.mark.parametrize(
    ("has", "says"),
    [("def front_end", "work by DeviceWorker"), ("def watched", "['validate_environ', 'log_warnings']")],
)
def test_what_the_engines_page_shows_runs_and_passes_strict_checks(tmp_path, has, says):
    """Whoever copies it gets a worker class, or a trace, and no complaint of the type checker."""
    pytest.importorskip("mypy")
    block = next(b for b in _blocks((DOCS / "engine.md").read_text(), "python") if has in b)
    file = tmp_path / "start.py"
    file.write_text(block)
    told = python(str(file), env={"PLATFORM_ABC_TARGET_DEVICE": "cpu"})
    assert told.splitlines()[-1] == says
    arguments = ["--strict", "--no-incremental", "--cache-dir", os.devnull, str(file)]
    path = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments], env=path, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout


def test_settings_in_the_docs_are_accepted_by_the_kit(tmp_path):
    """The configuration that `kit.md` shows is one that the kit reads without complaint."""
    from conformance.settings import resolve

    block = next(b for b in _blocks((DOCS / "kit.md").read_text(), "toml") if "tool.platform-abc" in b)
    file = tmp_path / "pyproject.toml"
    file.write_text(block)
    settings = resolve({}, config=str(file), here=tmp_path)
    assert settings.platform == "mypkg.platform:MyPlatform"
    assert settings.expected


def test_expected_failures_in_the_docs_name_checks_that_exist(tmp_path):
    """The ids in examples of expected failures are real: an unknown one would be an error."""
    from conformance.expected import require_known
    from conformance.registry import all_checks
    from conformance.settings import resolve

    for page in ("kit.md", "expected-failures.md"):
        for block in _blocks((DOCS / page).read_text(), "toml"):
            file = tmp_path / "pyproject.toml"
            file.write_text(block)
            require_known(resolve({}, config=str(file), here=tmp_path).expected, set(all_checks()), page)


def test_every_option_in_the_docs_exists_and_every_option_is_documented():
    """The options named in the docs are the options that the kit registers."""
    told = python("-m", "pytest", "--pyargs", "conformance", "--help", "-p", "no:cacheprovider", cwd=None)
    real = set(re.findall(r"--conformance-[a-z-]+[a-z]", told))
    named = set()
    for page in PAGES:
        named |= set(re.findall(r"--conformance-[a-z-]+[a-z]", page.read_text()))
    assert named - real == set()
    assert real - set(re.findall(r"--conformance-[a-z-]+[a-z]", (DOCS / "kit.md").read_text())) == set()


def test_environment_variables_in_the_docs_are_the_ones_that_exist():
    """`resolution.md` documents every variable of ours, and no other."""
    from platform_abc import envs

    named = set(re.findall(r"PLATFORM_ABC_[A-Z_]+", (DOCS / "resolution.md").read_text()))
    assert named == set(envs.VARIABLES)


def test_list_of_members_is_what_the_contract_says():
    """`members.md` is generated; a changed contract without a new page is a lie."""
    done = subprocess.run([sys.executable, str(DOCS / "members.py"), "--check"], check=False)
    assert done.returncode == 0, "run: python docs/members.py"


@pytest.mark.slow
@pytest.mark.torch
def test_failure_in_the_readme_is_what_the_kit_prints(tmp_path):
    """The failure that the README explains is the kit's own output for such a platform, word for word."""
    package = tmp_path / "mypkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "attention.py").touch()
    (package / "platform.py").write_text(
        "from platforms.cpu import CpuPlatform\n\n\nclass MyPlatform(CpuPlatform):\n    @classmethod\n"
        "    def get_attn_backend_cls(cls, selected_backend, attn_selector_config, num_heads=None):\n"
        '        return "mypkg.attention.Backend"\n'
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--pyargs",
        "conformance",
        "--platform",
        "mypkg.platform:MyPlatform",
        "--conformance-select=pickers.*",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    shown = next(b for b in _blocks((ROOT / "README.md").read_text(), "text") if b.startswith("FAIL"))
    assert shown in done.stdout.replace(f"{tmp_path}/", "")
