"""Settings: the command line before the file before the defaults; what is wrong is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.expected import ExpectedFailure, require_known
from conformance.model import IMPORTABLE, Level
from conformance.problems import UsageProblem
from conformance.settings import Settings, resolve, version_key


def _resolve(
    folder: Path, text: str | None = None, *, config: str | None = None, **given: object
) -> Settings:
    if text is not None:
        (folder / (config or "pyproject.toml")).write_text(text)
    return resolve(given, config=config, here=folder)


def _refused(folder: Path, text: str | None = None, *, config: str | None = None, **given: object) -> str:
    with pytest.raises(UsageProblem) as caught:
        _resolve(folder, text, config=config, **given)
    assert "\n" not in caught.value.line
    return caught.value.line


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    """Nothing given: every level, 120 s, nothing expected."""
    settings = _resolve(tmp_path)
    assert (settings.level, settings.timeout, settings.select) == (None, 120.0, ())
    assert (settings.strict, settings.expected, settings.report) == (False, {}, None)


def test_every_setting_may_stand_in_pyproject(tmp_path: Path) -> None:
    """`[tool.platform-abc]` has the options by name, and the expected failures."""
    settings = _resolve(
        tmp_path,
        """
        [tool.platform-abc]
        platform = "acme:Acme"
        level = "device"
        require = "contract"
        select = ["identity.*", "pickers.*"]
        strict = true
        timeout = 5
        engine = "native"
        contract = "1.0"
        report = "out/report.json"
        html = "page.html"
        [tool.platform-abc.expected-failures]
        "identity.a" = { reason = "known" }
        "identity.b" = { reason = " flaky ", strict = false }
        """,
    )
    assert settings.platform == "acme:Acme"
    assert (settings.level, settings.require) == (Level.DEVICE, Level.CONTRACT)
    assert settings.select == ("identity.*", "pickers.*")
    assert (settings.strict, settings.timeout, settings.engine, settings.contract) == (
        True,
        5.0,
        "native",
        "1.0",
    )
    assert (settings.report, settings.html) == (tmp_path / "out/report.json", tmp_path / "page.html")
    assert settings.expected == {
        "identity.a": ExpectedFailure("known"),
        "identity.b": ExpectedFailure("flaky", strict=False),
    }


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    """A value given on the command line replaces that of the file; one not given does not."""
    text = '[tool.platform-abc]\nlevel = "device"\ntimeout = 5\nselect = "a.*"\nstrict = true\n'
    settings = _resolve(tmp_path, text, level="static", timeout=None, select=[], strict=False)
    assert (settings.level, settings.timeout, settings.select, settings.strict) == (
        Level.STATIC,
        5.0,
        ("a.*",),
        True,
    )


def test_the_nearest_pyproject_upwards_is_read(tmp_path: Path) -> None:
    """A run in a folder below finds the file above; the nearest one wins, even without a table."""
    (tmp_path / "pyproject.toml").write_text("[tool.platform-abc]\ntimeout = 7\n")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert resolve({}, config=None, here=deep).timeout == 7.0
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert resolve({}, config=None, here=deep).timeout == 120.0


def test_a_named_file_replaces_pyproject(tmp_path: Path) -> None:
    """`--conformance-config` reads that file alone, with or without the table's prefix."""
    (tmp_path / "pyproject.toml").write_text("[tool.platform-abc]\ntimeout = 7\n")
    assert _resolve(tmp_path, "level = 'static'\n", config="kit.toml").timeout == 120.0
    assert _resolve(tmp_path, "[tool.platform-abc]\ntimeout = 9\n", config="kit.toml").timeout == 9.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tool.platform-abc\n", "is not valid TOML"),
        ("[tool]\nplatform-abc = 3\n", "tool.platform-abc must be a table, got 3"),
        ("[tool.platform-abc]\nlevle = 'static'\n", "unknown key 'levle'; did you mean 'level'?"),
        ("[tool.platform-abc]\nlevel = 'statik'\n", "level 'statik' is no level; did you mean 'static'?"),
        ("[tool.platform-abc]\nlevel = 3\n", "level must be a text"),
        ("[tool.platform-abc]\nstrict = 'yes'\n", "strict must be true or false, got 'yes'"),
        ("[tool.platform-abc]\ntimeout = '5'\n", "timeout must be a number of seconds above 0"),
        ("[tool.platform-abc]\ntimeout = true\n", "timeout must be a number of seconds above 0"),
        ("[tool.platform-abc]\ntimeout = nan\n", "timeout must be a number of seconds above 0"),
        ("[tool.platform-abc]\ntimeout = inf\n", "timeout must be a number of seconds above 0"),
        ("[tool.platform-abc]\nselect = [1]\n", "select must be a glob of check ids"),
        ("[tool.platform-abc]\nplatform = ''\n", "platform must be a text that is not empty"),
        ("[tool.platform-abc]\nengine = 'vlm'\n", "did you mean 'vllm'?"),
        ("[tool.platform-abc]\ncontract = 'one'\n", "contract must be a version"),
        ("[tool.platform-abc]\ncontract = '9.0'\n", "is newer than this kit knows"),
        ("[tool.platform-abc]\nexpected-failures = ['a.b']\n", "expected-failures must be a table"),
        ("[tool.platform-abc.expected-failures]\n'a.b' = 'why'\n", "'a.b' must be a table"),
        ("[tool.platform-abc.expected-failures]\n'a.b' = {}\n", "'a.b' has no reason"),
        ("[tool.platform-abc.expected-failures]\n'a.b' = {reason = ' '}\n", "reason must be a text"),
        ("[tool.platform-abc.expected-failures]\n'a.b' = {reason = 3}\n", "reason must be a text"),
        (
            "[tool.platform-abc.expected-failures]\n'a.b' = {reason = 'x', strict = 1}\n",
            "strict must be true",
        ),
        ("[tool.platform-abc.expected-failures]\n'a.b' = {reasn = 'x'}\n", "did you mean 'reason'?"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, told: str) -> None:
    """Bad TOML, unknown keys, wrong types, missing reasons: told with the file and the key."""
    line = _refused(tmp_path, text)
    assert told in line
    assert "pyproject.toml" in line or "conformance-engine" in line


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"level": "all"}, "--conformance-level 'all' is no level"),
        ({"require": "devise"}, "did you mean 'device'?"),
        ({"timeout": "soon"}, "--conformance-timeout must be a number of seconds"),
        ({"timeout": "0"}, "--conformance-timeout must be a number of seconds"),
        ({"timeout": "-3"}, "--conformance-timeout must be a number of seconds"),
        ({"engine": "torch"}, "--conformance-engine 'torch' is unknown"),
        ({"contract": ""}, "--conformance-contract must be a version"),
        ({"contract": "-1.0"}, "--conformance-contract must be a version"),
        ({"contract": "١.٠"}, "--conformance-contract must be a version"),
        ({"contract": "1.0.1"}, "is newer than this kit knows"),
        ({"report": ""}, "--conformance-report must name a file"),
        ({"report": "-"}, "--conformance-report must name a file, got '-'"),
        ({"select": [""]}, "--conformance-select must be a glob"),
        ({"level": "static", "require": "device"}, "raise the level or lower the requirement"),
    ],
)
def test_a_wrong_option_is_one_line(tmp_path: Path, given: dict[str, object], told: str) -> None:
    """A wrong value of an option is told with the option's name and what is known."""
    assert told in _refused(tmp_path, None, config=None, **given)


def test_a_contract_version_has_one_meaning_in_every_spelling() -> None:
    """`1`, `1.0` and `1.0.0` are one version, so that a short spelling does not make checks look newer."""
    assert version_key("1") == version_key("1.0") == version_key("1.0.0")
    assert version_key("1") < version_key("1.1") < version_key("1.10") < version_key("2")


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    """`--conformance-config` of a file that is not there is told."""
    with pytest.raises(UsageProblem, match="'gone.toml': there is no such file"):
        resolve({}, config="gone.toml", here=tmp_path)


def test_expected_failures_must_name_checks() -> None:
    """An unknown id is an error with a near one; the import itself cannot be expected to fail."""
    entry = ExpectedFailure("why")
    with pytest.raises(
        UsageProblem, match=r"'identity.nam', which is no check; did you mean 'identity.name'\?"
    ):
        require_known({"identity.nam": entry}, ["identity.name"], "kit.toml")
    with pytest.raises(UsageProblem, match="cannot be an expected failure"):
        require_known({IMPORTABLE: entry}, [IMPORTABLE], "kit.toml")
    require_known({"identity.name": entry}, ["identity.name"], "kit.toml")


def test_engine_arguments_are_a_table_as_the_engine_takes_them(tmp_path: Path) -> None:
    """Names and values go to the engine as they stand; what JSON cannot carry is refused."""
    text = '[tool.platform-abc.engine-arguments]\nmodel = "/models/tiny"\nmax_num_seqs = 2\n'
    assert _resolve(tmp_path, text).engine_arguments == {"model": "/models/tiny", "max_num_seqs": 2}
    said = "engine-arguments must be a table of the engine's arguments by name"
    assert said in _refused(tmp_path, '[tool.platform-abc]\nengine-arguments = "model"\n')
    assert said in _refused(tmp_path, "[tool.platform-abc.engine-arguments]\nsince = 2020-01-01\n")
