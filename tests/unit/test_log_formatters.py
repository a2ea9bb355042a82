"""Log lines: one a call, with fields, and never with what must not be logged."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from headrace import log_formatters


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root, audit = logging.getLogger(), logging.getLogger(log_formatters.AUDIT_LOGGER)
    handlers, level, audit_level = root.handlers[:], root.level, audit.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    audit.setLevel(audit_level)


def configured(
    log_format: log_formatters.LogFormat = "text", *, level: int = logging.WARNING
) -> io.StringIO:
    stream = io.StringIO()
    log_formatters.configure(log_format=log_format, level=level, stream=stream)
    return stream


def record(**fields: object) -> logging.LogRecord:
    sentence = "refused a connection"
    entry = logging.LogRecord("headrace.x", logging.WARNING, "x.py", 1, sentence, (), None)
    entry.created, entry.msecs = 1794790923.456, 456.0
    entry.__dict__.update(fields)
    return entry


def test_a_text_line_is_time_level_sentence_and_fields() -> None:
    line = log_formatters.TextFormatter().format(
        record(peer="127.0.0.1:5", limit="max.connections")
    )
    assert line == (
        "2026-11-16T01:02:03.456Z WARN refused a connection peer=127.0.0.1:5 limit=max.connections"
    )


def test_a_json_line_holds_the_fields_with_their_types() -> None:
    line = log_formatters.JsonFormatter().format(record(peer="127.0.0.1:5", refused=8, last=None))
    assert json.loads(line) == {
        "time": "2026-11-16T01:02:03.456Z",
        "level": "WARN",
        "logger": "headrace.x",
        "message": "refused a connection",
        "peer": "127.0.0.1:5",
        "refused": 8,
        "last": None,
    }


@pytest.mark.parametrize(
    "formatter", [log_formatters.TextFormatter(), log_formatters.JsonFormatter()]
)
def test_a_peer_cannot_forge_a_line(formatter: logging.Formatter) -> None:
    hostile = 'x" level=FATAL\n2026-11-16T01:02:03.456Z FATAL \x1b[2Jgone\r\u2028'
    line = formatter.format(record(client=hostile))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line


@pytest.mark.parametrize(
    "formatter", [log_formatters.TextFormatter(), log_formatters.JsonFormatter()]
)
def test_bytes_are_counted_and_never_shown(formatter: logging.Formatter) -> None:
    for value in (b"secret record", bytearray(b"secret record"), memoryview(b"secret record")):
        line = formatter.format(record(value=value))
        assert "<13 bytes>" in line
        assert "secret" not in line


@pytest.mark.parametrize(
    "name",
    ["password", "ssl_keystore_password", "sasl.jaas.config", "access_token", "client_secret"],
)
def test_secrets_are_masked_by_the_name_of_their_field(name: str) -> None:
    for formatter in (log_formatters.TextFormatter(), log_formatters.JsonFormatter()):
        line = formatter.format(record(**{name: "hunter2"}))
        assert "hunter2" not in line
        assert log_formatters.MASK in line


def test_a_long_value_is_cut() -> None:
    line = log_formatters.TextFormatter().format(record(error="e" * 100_000))
    assert len(line) < 2 * log_formatters.MAX_VALUE_CHARS
    assert "(100000 characters)" in line


def test_quiet_unless_something_goes_wrong() -> None:
    stream = configured()
    log = logging.getLogger("headrace.quiet")
    log.info("started")
    assert stream.getvalue() == ""
    log.warning("disk is slow", extra={"ms": 900})
    assert stream.getvalue().endswith("WARN disk is slow ms=900\n")


def test_verbose_logs_what_happens() -> None:
    stream = configured(level=logging.INFO)
    logging.getLogger("headrace.loud").info("started")
    assert stream.getvalue().endswith("INFO started\n")


def test_an_exception_keeps_its_traceback() -> None:
    stream = configured("json")
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("headrace.x").exception("a request failed", extra={"peer": "p"})
    entry = json.loads(stream.getvalue())
    assert entry["peer"] == "p"
    assert "ValueError: boom" in entry["exception"]


def test_the_audit_log_shows_denied_requests_also_when_normal_events_are_hidden() -> None:
    stream = configured()
    logging.getLogger("headrace.broker").info("a normal event")
    audit = logging.getLogger("headrace.authorizer")
    audit.debug("allowed")
    audit.info("denied", extra={"resource": "TOPIC:a\nforged"})
    (line,) = stream.getvalue().splitlines()
    assert line.endswith('INFO denied resource="TOPIC:a\\nforged"')
