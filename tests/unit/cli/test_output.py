"""What commands print, and how their exit code follows from what became of the items."""

import io
import json

import pytest

from headrace.cli.exit_codes import ExitCode
from headrace.cli.output import Fields, Format, Output, Table, code_of, plain, progress, report
from headrace.cli.yaml_text import to_yaml
from headrace.client.results import Refusal
from headrace.protocol.errors import ErrorCode

EXISTS = Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'b' already exists.")
GONE = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")


def test_columns_are_aligned_numbers_to_the_right_and_nothing_is_cut_off() -> None:
    long = "x" * 300
    table = Table(("NAME", "N", "NOTE"), [("a", 5, None), (long, 123, [1, 2]), ("b", None, True)])
    lines = plain(table).splitlines()
    assert lines[0] == "NAME".ljust(300) + "    N  NOTE"
    assert lines[1] == "a".ljust(300) + "    5  -"
    assert lines[2] == long + "  123  1,2"
    assert lines[3] == "b".ljust(300) + "    -  yes"


def test_an_empty_table_still_has_its_headers() -> None:
    assert plain(Table(("A", "B"), [])) == "A  B\n"


def test_every_format_shows_the_same_facts(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"name": "a", "count": 1}
    Output(Format.JSON).show(facts, "text")
    assert json.loads(capsys.readouterr().out) == facts
    Output(Format.YAML).show(facts, "text")
    assert capsys.readouterr().out == "name: a\ncount: 1\n"
    Output(Format.TEXT).show(facts, Fields([("NAME", "a"), ("N", 1)]), "more")
    assert capsys.readouterr().out == "NAME  a\nN     1\n\nmore\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain words", "plain words"),
        ("", '""'),
        ("true", '"true"'),
        ("No", '"No"'),
        ("12", '"12"'),
        ("1e3", '"1e3"'),
        ("a: b", '"a: b"'),
        ("- x", '"- x"'),
        ("#x", '"#x"'),
        ("two\nlines", '"two\\nlines"'),
        ("~", '"~"'),
        ("2026-01-31", '"2026-01-31"'),
        (None, "null"),
        (True, "true"),
        (-1, "-1"),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_yaml_quotes_what_could_be_taken_for_something_else(value: object, text: str) -> None:
    assert to_yaml(value) == text + "\n"


def test_yaml_nests_lists_and_mappings() -> None:
    facts = [{"a": [1, [2, {"b": None}]], "c": {"d": []}}, "x"]
    assert to_yaml(facts) == ("- a:\n    - 1\n    - - 2\n      - b: null\n  c:\n    d: []\n- x\n")


def test_the_exit_code_tells_all_some_none_and_not_found_apart() -> None:
    assert code_of(2, []) is ExitCode.OK
    assert code_of(2, [EXISTS]) is ExitCode.PARTIAL
    assert code_of(1, [EXISTS]) is ExitCode.ERROR
    assert code_of(2, [GONE, GONE]) is ExitCode.NOT_FOUND
    assert code_of(2, [GONE, EXISTS]) is ExitCode.ERROR


def test_failures_go_to_stderr_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = {"a": None, "b": EXISTS, "ordrs": GONE}
    code = report(Output(Format.TEXT), "topic", "created", outcomes, ["orders"])
    shown = capsys.readouterr()
    assert code is ExitCode.PARTIAL
    assert shown.out == "created topic a\n"
    assert "topic 'b': Topic 'b' already exists (TOPIC_ALREADY_EXISTS)" in shown.err
    assert "no topic 'ordrs'. Did you mean 'orders'?" in shown.err


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_the_same_cells_and_no_markup_is_read_into_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    Output(Format.TEXT).show([], Table(("NAME", "N"), [("[bold]a[/]", 5)]))
    shown = screen.getvalue()
    assert "[bold]a[/]" in shown
    assert "NAME" in shown


def test_progress_is_for_terminals_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress("records", shown=True) as counter:
        counter.advance(5)
    assert capsys.readouterr() == ("", "")
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress("records", shown=False) as counter:
        counter.advance(5)
    assert screen.getvalue() == ""
    with progress("records", shown=True) as counter:
        counter.advance(7)
    assert "7 records" in screen.getvalue()
