"""Look inside a batch: is every record acceptable to the topic it is meant for?

The storage layer asks only when the header cannot answer (compacted topics, compressed batches
whose timestamps are bounded, a codec that must change). The answer lists each bad record by index,
as a Produce response reports them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from headrace.records.batch import NO_TIMESTAMP, BatchHeader, TimestampType, read_header
from headrace.records.buffer import Buffer
from headrace.records.record import Record, iter_records


class IssueKind(Enum):
    """What kind of rule a record breaks; each has its own Kafka error code."""

    INVALID_RECORD = "invalid record"
    INVALID_TIMESTAMP = "invalid timestamp"


@dataclass(frozen=True, slots=True)
class Issue:
    """One rule that one record breaks."""

    index: int
    kind: IssueKind
    reason: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What a topic asks of each record; None for a timestamp bound means there is none."""

    max_bytes: int
    now_ms: int
    needs_key: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int | None = None
    timestamp_after_max_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a look inside found; `max_timestamp` is that of the records, not the header's claim."""

    issues: tuple[Issue, ...]
    max_timestamp: int
    record_count: int


def inspect(batch: Buffer, rules: Rules) -> Inspection:
    """Check each record of one batch; raises `RecordError` if they cannot even be read."""
    header = read_header(batch)
    issues: list[Issue] = []
    max_timestamp = NO_TIMESTAMP
    index = -1
    for index, record in enumerate(iter_records(batch, max_bytes=rules.max_bytes)):
        issues.extend(_issues(index, record, header, rules))
        max_timestamp = max(max_timestamp, record.timestamp)
    return Inspection(tuple(issues), max_timestamp, index + 1)


def _issues(index: int, record: Record, header: BatchHeader, rules: Rules) -> Iterator[Issue]:
    """At most one issue: as in Kafka, the first rule that a record breaks is the one reported."""
    delta = record.offset - header.base_offset
    if delta != index:
        yield Issue(index, IssueKind.INVALID_RECORD, f"Offset delta is {delta}, not {index}")
    elif rules.needs_key and record.key is None:
        reason = "Compacted topic cannot accept message without key"
        yield Issue(index, IssueKind.INVALID_RECORD, reason)
    else:
        reason = _timestamp_reason(record, header, rules)
        if reason:
            yield Issue(index, IssueKind.INVALID_TIMESTAMP, reason)


def _timestamp_reason(record: Record, header: BatchHeader, rules: Rules) -> str:
    if rules.timestamp_type is TimestampType.CREATE_TIME and record.timestamp != NO_TIMESTAMP:
        age_ms = rules.now_ms - record.timestamp
        before, after = rules.timestamp_before_max_ms, rules.timestamp_after_max_ms
        if before is not None and age_ms > before:
            return f"Timestamp {record.timestamp} is more than {before} ms in the past"
        if after is not None and -age_ms > after:
            return f"Timestamp {record.timestamp} is more than {after} ms in the future"
    elif header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return "Producers may not set the timestamp type to LogAppendTime"
    return ""
