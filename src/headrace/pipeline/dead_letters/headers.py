"""The headers of dead letters and of replayed records. Pure.

A dead letter has the record's own headers, unchanged, followed by headers for its source and its
error. The source is a topic, or a file if the dead letter was a line or a row. A replayed record
has its own headers, followed by the position of its dead letter and the number of attempts. If it
fails again, the new dead letter keeps these headers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.records.record import Headers

PREFIX: Final = "headrace.dlq."
SOURCE_TOPIC: Final = PREFIX + "source.topic"
SOURCE_PARTITION: Final = PREFIX + "source.partition"
SOURCE_OFFSET: Final = PREFIX + "source.offset"
SOURCE_TIMESTAMP: Final = PREFIX + "source.timestamp"
SOURCE_FILE: Final = PREFIX + "source.file"
SOURCE_LINE: Final = PREFIX + "source.line"
SOURCE_ROW: Final = PREFIX + "source.row"
SOURCE_VERSION: Final = PREFIX + "source.version"
ERROR_CLASS: Final = PREFIX + "error.class"
ERROR_MESSAGE: Final = PREFIX + "error.message"
PIPELINE: Final = PREFIX + "pipeline"
BATCH_ID: Final = PREFIX + "batch.id"
SCHEMA_VERSION: Final = PREFIX + "schema.version"

REPLAYED: Final = PREFIX + "replayed."
REPLAYED_TOPIC: Final = REPLAYED + "topic"
REPLAYED_PARTITION: Final = REPLAYED + "partition"
REPLAYED_OFFSET: Final = REPLAYED + "offset"
REPLAYED_TIMESTAMP: Final = REPLAYED + "timestamp"
"""The record's original time. Its timestamp is newer if the topic's retention is too short."""
REPLAYED_ATTEMPT: Final = REPLAYED + "attempt"

MAX_MESSAGE_BYTES: Final = 4096
"""The limit of a message: a parser may quote a whole record."""
_NO_NUMBER: Final = -1


@dataclass(frozen=True, slots=True)
class Facts:
    """The source and the error of a dead letter; -1 and "" stand for unknown values."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    error: str
    message: str
    pipeline: str
    batch_id: int
    schema_version: int
    attempts: int = 0
    """The number of replays of the record before this dead letter."""
    file: str = ""
    """The source file of a line (from 1) or a row (from 0); empty for a record of a topic."""
    line: int = _NO_NUMBER
    row: int = _NO_NUMBER
    version: int = _NO_NUMBER
    """The version of the Delta table that added the file."""

    @property
    def source(self) -> str:
        """The topic or the directory that it came from."""
        return self.file.rpartition("/")[0] if self.file else self.topic

    @property
    def place(self) -> str:
        """Its exact position in the source."""
        if not self.file:
            return f"{self.topic}-{self.partition} offset {self.offset}"
        numbers = (("line", self.line), ("row", self.row), ("of version", self.version))
        said = (f" {what} {number}" for what, number in numbers if number != _NO_NUMBER)
        return self.file + "".join(said)


def letter_headers(own: Headers, facts: Facts) -> Headers:
    """The record's own headers, followed by the facts as headers."""
    message = facts.message.encode("utf-8", "replace")[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore")
    said = {
        **_source_headers(facts),
        SOURCE_TIMESTAMP: str(facts.timestamp_ms),
        ERROR_CLASS: facts.error,
        ERROR_MESSAGE: message,
        PIPELINE: facts.pipeline,
        BATCH_ID: str(facts.batch_id),
    }
    if facts.schema_version != _NO_NUMBER:
        said[SCHEMA_VERSION] = str(facts.schema_version)
    return (*own, *((name, value.encode()) for name, value in said.items()))


def _source_headers(facts: Facts) -> dict[str, str]:
    if not facts.file:
        return {
            SOURCE_TOPIC: facts.topic,
            SOURCE_PARTITION: str(facts.partition),
            SOURCE_OFFSET: str(facts.offset),
        }
    numbers = {SOURCE_LINE: facts.line, SOURCE_ROW: facts.row, SOURCE_VERSION: facts.version}
    known = {name: str(number) for name, number in numbers.items() if number != _NO_NUMBER}
    return {SOURCE_FILE: facts.file, **known}


def facts_of(headers: Headers) -> Facts:
    """The facts in the headers. If a name occurs twice, the pipeline has added the last one."""
    said = {name: _text(value) for name, value in headers if name.startswith(PREFIX)}
    return Facts(
        topic=said.get(SOURCE_TOPIC, ""),
        partition=_number(said, SOURCE_PARTITION),
        offset=_number(said, SOURCE_OFFSET),
        timestamp_ms=_number(said, SOURCE_TIMESTAMP),
        error=said.get(ERROR_CLASS, ""),
        message=said.get(ERROR_MESSAGE, ""),
        pipeline=said.get(PIPELINE, ""),
        batch_id=_number(said, BATCH_ID),
        schema_version=_number(said, SCHEMA_VERSION),
        attempts=max(0, _number(said, REPLAYED_ATTEMPT)),
        file=said.get(SOURCE_FILE, ""),
        line=_number(said, SOURCE_LINE),
        row=_number(said, SOURCE_ROW),
        version=_number(said, SOURCE_VERSION),
    )


def own_headers(headers: Headers) -> Headers:
    """The record's own headers, without those that dead letters and replays have added."""
    return tuple((name, value) for name, value in headers if not name.startswith(PREFIX))


def replayed_headers(headers: Headers, topic: str, partition: int, offset: int) -> Headers:
    """The headers that a replay adds to a record: the position of its dead letter."""
    facts = facts_of(headers)
    said = {
        REPLAYED_TOPIC: topic,
        REPLAYED_PARTITION: str(partition),
        REPLAYED_OFFSET: str(offset),
        REPLAYED_TIMESTAMP: str(facts.timestamp_ms),
        REPLAYED_ATTEMPT: str(facts.attempts + 1),
    }
    return tuple((name, value.encode()) for name, value in said.items())


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def _number(said: Mapping[str, str], name: str) -> int:
    text = said.get(name, "")
    try:
        return int(text)
    except ValueError:
        return _NO_NUMBER
