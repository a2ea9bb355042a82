"""Look inside a batch: is every record acceptable to the topic it is meant for?

The storage layer asks only when the header cannot answer (compacted topics, compressed batches
whose timestamps are bounded, a codec that must change). The answer lists each bad record by index,
as a Produce response reports them.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum

from headrace.records.batch import NO_TIMESTAMP, BatchHeader, TimestampType, read_header
from headrace.records.buffer import Buffer
from headrace.records.record_outline import Outline, iter_outlines

MAX_RECORDS = 1 << 17
"""In one batch that must be looked into."""
RECORDS_PER_SLICE = 2048
"""A few milliseconds of an event loop."""
MAX_ISSUES = 1000
"""A batch with so many bad records is refused without a look at the rest."""


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
    look = inspect_in_slices(batch, rules)
    while True:
        try:
            next(look)
        except StopIteration as done:
            found: Inspection = done.value
            return found


def inspect_in_slices(batch: Buffer, rules: Rules) -> Generator[None, None, Inspection]:
    """`inspect` with a pause after every few thousand records, for the event loop to serve others.

    The batch must not change meanwhile.
    """
    header = read_header(batch)
    issues: list[Issue] = []
    max_timestamp = NO_TIMESTAMP
    index = -1
    oldest, newest = _usual_times(rules)
    needs_key = rules.needs_key
    outlines = iter_outlines(batch, max_bytes=rules.max_bytes, max_records=MAX_RECORDS)
    for index, record in enumerate(outlines):
        delta, timestamp, has_key = record
        if delta != index or not oldest <= timestamp <= newest or (needs_key and not has_key):
            issue = _issue(index, record, header, rules)
            if issue is not None:
                issues.append(issue)
                if len(issues) == MAX_ISSUES:
                    break
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if not index % RECORDS_PER_SLICE and index:
            yield
    return Inspection(tuple(issues), max_timestamp, index + 1)


def _usual_times(rules: Rules) -> tuple[float, float]:
    """Between these a timestamp breaks no rule; outside, `_issue` must look."""
    if rules.timestamp_type is not TimestampType.CREATE_TIME:
        return math.inf, -math.inf
    before, after = rules.timestamp_before_max_ms, rules.timestamp_after_max_ms
    return (
        -math.inf if before is None else rules.now_ms - before,
        math.inf if after is None else rules.now_ms + after,
    )


def _issue(index: int, record: Outline, header: BatchHeader, rules: Rules) -> Issue | None:
    """As in Kafka, the first rule that a record breaks is the one reported."""
    delta = record.offset_delta
    if delta != index:
        return Issue(index, IssueKind.INVALID_RECORD, f"Offset delta is {delta}, not {index}")
    if rules.needs_key and not record.has_key:
        reason = "Compacted topic cannot accept message without key"
        return Issue(index, IssueKind.INVALID_RECORD, reason)
    reason = _timestamp_reason(record, header, rules)
    return Issue(index, IssueKind.INVALID_TIMESTAMP, reason) if reason else None


def _timestamp_reason(record: Outline, header: BatchHeader, rules: Rules) -> str:
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
