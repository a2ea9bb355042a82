"""Whatever goes wrong, a person reads one sentence and a script gets an exit code."""

from pathlib import Path

import pytest

from headrace.cli.app import run
from headrace.cli.command import guard
from headrace.cli.error_messages import explain
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.group.seek import goal_of, read_offsets
from headrace.cli.session import parse_partitions
from headrace.cli.sigterm import Terminated
from headrace.client.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ConnectionLost,
    DeadlineExceeded,
    RequestRefused,
    RequestTimedOut,
    TlsFailed,
)
from headrace.client.login.security import InvalidSecurity
from headrace.client.results import TopicPartition
from headrace.protocol.errors import ErrorCode


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (ConnectionFailed("no"), ExitCode.UNREACHABLE, "--bootstrap-server"),
        (ConnectionFailed("x closed the connection"), ExitCode.UNREACHABLE, "security.protocol"),
        (ConnectionLost("gone"), ExitCode.UNREACHABLE, "security.protocol"),
        (RequestTimedOut("slow"), ExitCode.UNREACHABLE, "--timeout"),
        (TlsFailed("not trusted"), ExitCode.UNREACHABLE, "ssl.ca.location"),
        (DeadlineExceeded("x", 1, 2, ConnectionFailed("no")), ExitCode.UNREACHABLE, "no"),
        (AuthenticationFailed("refused"), ExitCode.ERROR, "password"),
        (InvalidSecurity("PLAIN needs sasl.username"), ExitCode.USAGE, "HEADRACE_SASL_USERNAME"),
        (RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, "g"), ExitCode.NOT_FOUND, "GROUP_ID"),
        (RequestRefused(ErrorCode.NON_EMPTY_GROUP, "g"), ExitCode.ERROR, "NON_EMPTY_GROUP"),
        (FileNotFoundError(2, "No such file", "x.txt"), ExitCode.ERROR, "x.txt"),
        (RuntimeError("bug"), ExitCode.ERROR, "unexpected error"),
    ],
)
def test_each_error_has_a_code_and_says_what_to_do(
    error: Exception, code: ExitCode, hint: str
) -> None:
    failure = explain(error)
    assert failure.code is code
    assert hint in str(failure)


def test_nothing_ends_in_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ZeroDivisionError("oops")

    assert guard(fail) == ExitCode.ERROR
    assert capsys.readouterr().err == (
        "headrace: unexpected error: ZeroDivisionError: oops; "
        "HEADRACE_DEBUG=1 shows the traceback\n"
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (Terminated(), 143),
        (CommandFailed("x", ExitCode.PARTIAL), 3),
    ],
)
def test_signals_and_failures_have_the_codes_that_shells_expect(
    error: BaseException, code: int
) -> None:
    def end() -> None:
        raise error

    assert guard(end) == code


def test_partitions_are_numbers_and_ranges() -> None:
    assert parse_partitions(None) is None
    assert parse_partitions("0,2-4") == [0, 2, 3, 4]
    for wrong in ("", "a", "1-", "-1"):
        with pytest.raises(CommandFailed, match="0,2-4"):
            parse_partitions(wrong)


def test_offsets_are_read_from_commas_and_from_blanks(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_text("# saved\norders,0,5\norders 1 6  # more\n\n")
    assert read_offsets(path) == {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 6}


@pytest.mark.parametrize("text", ["orders,0", "orders,x,1", "", "orders 0 y"])
def test_a_line_that_is_no_offset_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_text(text)
    with pytest.raises(CommandFailed, match="offsets"):
        read_offsets(path)


def test_a_group_moves_to_exactly_one_place() -> None:
    for given in ((None, None, None, None), ("end", 1, None, None)):
        with pytest.raises(CommandFailed, match="one of --to"):
            goal_of(*given)
    assert goal_of(None, -3, None, None).shift == -3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["topic", "creat"], "no such command 'creat'. Did you mean 'create'? See headrace topic"),
        (["topic", "create"], "missing argument 'TOPIC'; see headrace topic create --help"),
        (["topic", "list", "--bogus"], "no such option: --bogus; see headrace topic list --help"),
        (["topic", "create", "x", "-p", "y"], "it must be a whole number; see"),
        (["demo", "--orders", "0"], "it must be at least 1; see headrace demo --help"),
        (["broker", "start"], "headrace: --config FILE is required; see"),
        (["version", "more"], "headrace: unexpected argument more; see headrace version --help"),
        (["config", "get", "disk", "x"], "'disk' is not one of 'topic', 'broker'"),
    ],
    ids=" ".join,
)
def test_an_invalid_command_line_is_explained_in_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == ExitCode.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("headrace: ") and shown.err.count("\n") == 1
    assert sentence in shown.err


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topic"]) == ExitCode.USAGE
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("Usage: headrace topic")


@pytest.mark.parametrize("option", ["--compression", "--acks"])
def test_a_value_that_is_not_a_choice_is_refused_before_anything_is_sent(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["produce", "orders", option, "7", "-v", "a", "-b", "127.0.0.1:1"]) == 2
    assert f"{option} takes " in capsys.readouterr().err


def test_a_wrong_setting_of_the_connection_does_not_ask_for_credentials() -> None:
    wrong = explain(InvalidSecurity("security.protocol must be PLAINTEXT, not 'XX'"))
    assert wrong.code is ExitCode.USAGE and "HEADRACE_SASL" not in str(wrong)
    lacking = explain(InvalidSecurity("sasl.password is missing"))
    assert "HEADRACE_SASL_PASSWORD" in str(lacking)
