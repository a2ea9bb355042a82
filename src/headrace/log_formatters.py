"""Log formats for people and machines, on the standard library's logging.

A log call has a fixed sentence and fields: `log.warning("refused a connection", extra={...})`.
Guarantees: a call without a traceback writes exactly one line, whatever the fields contain (a peer
cannot forge a line); `logfmt` and `json` write one line with a traceback, too; a field has at most
`MAX_VALUE_CHARS`; bytes are counted, never printed; a field whose name suggests a secret is
masked.
"""

import logging
import sys
from collections.abc import Iterator, Mapping
from time import gmtime, strftime
from typing import Final, Literal, TextIO

LogFormat = Literal["text", "logfmt", "json"]

MAX_VALUE_CHARS: Final = 512  # enough for an error's text, too little for a record's contents
SECRET_WORDS: Final = ("password", "secret", "token", "credential", "jaas", "private.key")
MASK: Final = "***"
AUDIT_LOGGER: Final = "headrace.authorizer"

_LEVELS: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """`2026-11-16T01:02:03.456Z WARN refused a connection peer=10.0.0.7:5 limit=max.connections`"""

    def format(self, record: logging.LogRecord) -> str:
        words = [_time(record), _level(record), _one_line(record.getMessage())]
        words += (f"{name}={_quoted(value)}" for name, value in _log_fields(record))
        line = " ".join(words)
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


class LogfmtFormatter(logging.Formatter):
    """`time=... level=warn logger=headrace.broker.network msg="refused a connection" peer=...`"""

    def format(self, record: logging.LogRecord) -> str:
        words = [
            f"time={_time(record)}",
            f"level={_level(record).lower()}",
            f"logger={record.name}",
            f"msg={_quoted(record.getMessage())}",
        ]
        words += (f"{name}={_quoted(value)}" for name, value in _log_fields(record))
        if record.exc_info:
            words.append(f"exception={_quoted(self.formatException(record.exc_info))}")
        return " ".join(words)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        import json  # imported late: text logs do not need it

        entry: dict[str, str | int | float | bool | None] = {
            "time": _time(record),
            "level": _level(record),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry.update(_log_fields(record))
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


_FORMATTERS: Final[Mapping[str, type[logging.Formatter]]] = {
    "text": TextFormatter,
    "logfmt": LogfmtFormatter,
    "json": JsonFormatter,
}


def configure(
    *,
    log_format: LogFormat = "text",
    level: int = logging.WARNING,
    stream: TextIO | None = None,
) -> None:
    """Sends this process's log to `stream` (default stderr), from `level` on.

    The audit log is there in any case: a log of denied requests that has to be turned on first is
    missing when it is needed.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_FORMATTERS[log_format]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger(AUDIT_LOGGER).setLevel(logging.INFO)


def _time(record: logging.LogRecord) -> str:
    seconds = strftime("%Y-%m-%dT%H:%M:%S", gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _level(record: logging.LogRecord) -> str:
    return _LEVELS.get(record.levelname, record.levelname)


def _log_fields(record: logging.LogRecord) -> Iterator[tuple[str, str | int | float | bool | None]]:
    for name, value in vars(record).items():
        if name not in _STANDARD:
            yield name, _field_value(name, value)


def _field_value(name: str, value: object) -> str | int | float | bool | None:
    lower = name.lower().replace("_", ".")
    if any(word in lower for word in SECRET_WORDS):
        return MASK
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    text = str(value)
    if len(text) > MAX_VALUE_CHARS:
        return f"{text[:MAX_VALUE_CHARS]}... ({len(text)} characters)"
    return text


def _quoted(value: str | int | float | bool | None) -> str:
    if not isinstance(value, str):
        return str(value)
    if value and value.isprintable() and not any(mark in value for mark in ' "='):
        return value
    escaped = _one_line(value).replace('"', '\\"')
    return f'"{escaped}"'


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
