"""The tree keeps its own rules: sizes, versions, typed markers, links, and commands that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.project.trees import PACKAGES, ROOT, needs_tree

pytestmark = needs_tree

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
MODULES = [
    path
    for folder in (*PACKAGES.values(), ROOT / "tests", ROOT / "benchmarks", ROOT / "examples")
    for path in sorted(folder.rglob("*.py"))
    if ".venv" not in path.parts
]


def _project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_is_typed(package):
    """A checker reads our annotations only where `py.typed` lies."""
    assert (PACKAGES[package] / "py.typed").is_file()


def test_no_module_is_longer_than_500_lines():
    """One idea a module: longer ones hide two."""
    long = {str(path.relative_to(ROOT)): n for path in MODULES if (n := path.read_text().count("\n")) > 500}
    assert long == {}


def test_changelog_starts_with_the_version_of_the_package():
    """Whoever installs a version finds what it changed."""
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == _project()["project"]["version"]
    assert len(set(versions)) == len(versions)


def test_changelog_names_the_contract_version():
    """The contract's version and the package's are told apart in the same place."""
    from platform_abc.errors import CONTRACT_VERSION

    assert f"contract {CONTRACT_VERSION}" in (ROOT / "CHANGELOG.md").read_text()


def test_extras_are_the_documented_ones():
    """The README's list of extras is the list in the metadata."""
    extras = set(_project()["project"]["optional-dependencies"])
    assert extras == {"torch", "conformance", "cuda", "rocm", "triton", "ray", "all", "dev"}
    readme = (ROOT / "README.md").read_text()
    assert all(f"`[{name}]`" in readme for name in extras)


def test_readme_has_the_two_commands_and_ci_runs_the_second():
    """A stranger's two commands stand in the README; CI runs the same test command."""
    commands = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    setup, test = commands[0].strip(), commands[1].strip()
    assert "\n" not in setup
    assert setup.endswith("--pyargs conformance --platform platforms.cpu:CpuPlatform")
    assert test.startswith(".venv/bin/")
    assert f"step {test.removeprefix('.venv/bin/')}\n" in (ROOT / ".ci" / "run").read_text()


def test_pins_satisfy_the_bounds_of_the_extras():
    """Every tool that the development extra asks for is pinned, inside its bound."""
    from packaging.requirements import Requirement

    lines = (ROOT / "constraints-dev.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    pins = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    project = _project()["project"]
    wanted = [
        *project["dependencies"],
        *(r for e in ("torch", "conformance", "dev") for r in project["optional-dependencies"][e]),
    ]
    for requirement in map(Requirement, wanted):
        if requirement.name != project["name"]:
            assert requirement.specifier.contains(pins[requirement.name.lower()]), requirement


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    """A relative link names a file that exists, and a heading in it if it has a fragment."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        path = (page.parent / name) if name else page
        assert path.exists(), f"{page.name} links to {target}"
        if fragment and path.suffix == ".md":
            assert fragment in _anchors(path), f"{page.name} links to {target}"


def _anchors(page: Path) -> set[str]:
    """The fragments that a page's headings answer to, as GitHub makes them, and its explicit anchors."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}
    return slugs | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
