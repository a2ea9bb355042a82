"""Both readers of `headrace up`'s command line agree, because they read one table."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import app as full
from headrace.cli.broker.options import UP_OPTIONS, UpOptions, parse_up

PLAIN = [
    [],
    ["--port", "0"],
    ["--port=19092", "--host", "0.0.0.0"],
    ["--ephemeral", "--verbose"],
    ["--secure", "--ephemeral"],
    ["--data", "some/where", "--log-format", "json"],
    ["--data=some/where", "--log-format=text"],
    ["--log-format", "logfmt"],
    ["--config", "server.properties", "--set", "a=b", "--set=c=d=e", "--set", "f="],
    ["--port", "1", "--port", "2"],
    ["--http", "9644"],
    ["--http=0.0.0.0:0"],
    ["--http", "[::1]:9644"],
]
FOR_THE_FULL_ONE = [
    ["--help"],
    ["--nope"],
    ["--port"],
    ["--port", "x"],
    ["--port", "-1"],
    ["--port", "65536"],
    ["--port", "²"],
    ["--http", "host"],
    ["--http", ":9644"],
    ["--http", "127.0.0.1:65536"],
    ["--http", "http://127.0.0.1:9644"],
    ["--log-format", "xml"],
    ["--ephemeral=yes"],
    ["--ephemeral", "--data", "d"],
    ["stray"],
    ["--set", "--ephemeral"],
    ["--set", "name"],
    ["--set", "=value"],
    ["--data", ""],
    ["--host="],
]


def full_parse(words: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[UpOptions | None, int]:
    seen: list[UpOptions] = []

    def remember(options: UpOptions) -> int:
        seen.append(options)
        return 0

    monkeypatch.setattr("headrace.cli.broker.up.up", remember)
    code = CliRunner().invoke(full.app, ["up", *words]).exit_code
    return (seen[0] if seen else None), code


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_both_readers_see_the_same_options(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = parse_up(words)
    assert fast is not None
    assert full_parse(words, monkeypatch) == (fast, 0)


@pytest.mark.parametrize("words", FOR_THE_FULL_ONE, ids=" ".join)
def test_mistakes_and_help_go_to_the_full_reader(words: list[str]) -> None:
    assert parse_up(words) is None


@pytest.mark.parametrize("words", FOR_THE_FULL_ONE[1:], ids=" ".join)
def test_a_mistake_is_a_usage_error(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert full_parse(words, monkeypatch) == (None, full.USAGE_ERROR)


def test_help_names_every_option_and_its_default() -> None:
    result = CliRunner().invoke(full.app, ["up", "--help"], env={"COLUMNS": "200"})
    text = re.sub(r"\x1b\[[0-9;]*m", "", result.output)
    for option in UP_OPTIONS:
        assert option.flag in text
        assert option.shown_default is None or option.shown_default in text


def test_values_have_the_types_of_the_options_class() -> None:
    options = parse_up(["--data", "d", "--port", "7", "--set", "a=b"])
    assert options == UpOptions(data=Path("d"), port=7, set=("a=b",))
