"""Records handed to commands, and what is said about those that fail."""

from headrace.cli.records.exec_dead_letters import (
    CommandFailure,
    dead_letter_headers,
    environment_of,
    run_command,
)
from headrace.cli.records.format_string import PrintableRecord

RECORD = PrintableRecord(
    "orders", 3, 42, 1000, b"k\0ey", b"value", [("trace-id", b"x"), ("n", None)]
)


def test_a_command_gets_the_value_on_stdin_and_the_rest_in_its_environment() -> None:
    checks = (
        'test "$(cat)" = value && test "$HEADRACE_TOPIC" = orders && '
        'test "$HEADRACE_PARTITION" = 3 && test "$HEADRACE_OFFSET" = 42 && '
        'test "$HEADRACE_TIMESTAMP" = 1000 && test "$HEADRACE_KEY" = key && '
        'test "$HEADRACE_HEADER_TRACE_ID" = x && test "$HEADRACE_GROUP" = g'
    )
    assert run_command(checks, RECORD, "g") is None


def test_a_failure_says_how_the_command_ended_and_what_it_said() -> None:
    assert run_command("echo broken >&2; exit 7", RECORD, None) == CommandFailure(
        7, "exit code 7: broken"
    )
    assert run_command("kill -9 $$", RECORD, None) == CommandFailure(-9, "signal 9")


def test_a_command_that_reads_nothing_is_fine() -> None:
    big = PrintableRecord("t", 0, 0, 0, None, b"x" * 1_000_000)
    assert run_command("true", big, None) is None


def test_a_tombstone_differs_from_an_empty_value() -> None:
    assert environment_of(RECORD, None)["HEADRACE_VALUE_IS_NULL"] == ""
    gone = PrintableRecord("t", 0, 0, 0, None, None)
    assert environment_of(gone, None)["HEADRACE_VALUE_IS_NULL"] == "1"
    assert "HEADRACE_KEY" not in environment_of(gone, None)


def test_a_dead_letter_keeps_its_headers_and_says_where_it_came_from_and_why() -> None:
    headers = dict(dead_letter_headers(RECORD, CommandFailure(1, "exit code 1"), "g"))
    assert headers["trace-id"] == b"x"
    assert headers["n"] is None
    assert headers["__dlq.errors.topic"] == b"orders"
    assert headers["__dlq.errors.partition"] == b"3"
    assert headers["__dlq.errors.offset"] == b"42"
    assert headers["__dlq.errors.group"] == b"g"
    assert headers["__dlq.errors.message"] == b"exit code 1"


def test_a_record_that_died_before_says_only_why_it_died_last() -> None:
    again = PrintableRecord("t", 0, 1, 0, None, b"v", [("__dlq.errors.message", b"old")])
    headers = dead_letter_headers(again, CommandFailure(1, "new"), None)
    assert [value for name, value in headers if name == "__dlq.errors.message"] == [b"new"]


def test_a_long_complaint_is_cut() -> None:
    headers = dict(dead_letter_headers(RECORD, CommandFailure(1, "ä" * 5000), None))
    assert len(headers["__dlq.errors.message"] or b"") <= 1000
