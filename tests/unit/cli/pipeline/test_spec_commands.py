"""`headrace pipeline validate`: errors go to stderr, or with --format json to stdout."""

from pathlib import Path

import pytest

from headrace.cli.exit_codes import ExitCode
from support.cli.command import Cli

SPEC = """
version: 1
pipeline: orders_to_lake
source: {topics: [orders], value: {format: json}}
sink: {format: dleta, table: table}
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli("", tmp_path)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_text(SPEC)
    return path


def test_mistakes_go_to_stderr_with_their_line_and_fix(cli: Cli, spec: Path) -> None:
    ended = cli("pipeline", "validate", str(spec), "--no-spark")
    assert (ended.code, ended.stdout) == (ExitCode.USAGE, "")
    assert ended.stderr.startswith(f"headrace: the spec has 1 mistake\n{spec}:5:")
    assert "did you mean delta?" in ended.stderr


def test_a_missing_file_is_an_error_without_a_count(cli: Cli, tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    ended = cli("pipeline", "validate", str(missing), "--no-spark")
    assert (ended.code, ended.stdout) == (ExitCode.USAGE, "")
    assert ended.stderr.startswith(f"headrace: {missing}: No such file or directory\n")
    assert "fix: create a spec with: headrace pipeline init" in ended.stderr


def test_programs_get_the_mistakes_on_stdout(cli: Cli, spec: Path) -> None:
    ended = cli("pipeline", "validate", str(spec), "--no-spark", "--format", "json")
    assert (ended.code, ended.stderr) == (ExitCode.USAGE, "")
    assert isinstance(ended.facts, dict)
    assert ended.facts["valid"] is False
    assert [each["line"] for each in ended.facts["mistakes"]] == [5]
