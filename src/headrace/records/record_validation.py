"""Validation of every record in a batch against the topic's rules.

The storage layer needs it only if the header is not enough (compacted topics, compressed batches
with bounded timestamps, a codec that must change). The result lists each invalid record by its
index, as in a Produce response.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from headrace.records.batch_header import NO_TIMESTAMP, BatchHeader, TimestampType, read_header
from headrace.records.buffer import Buffer
from headrace.records.record_outline import Outline, iter_outlines

MAX_RECORDS = 1 << 17
"""In one batch whose records must be validated."""
RECORDS_PER_SLICE = 2048
"""This takes a few milliseconds of the event loop."""
MAX_ISSUES = 1000
"""A batch with this many invalid records is refused; its other records are not checked."""


class IssueKind(Enum):
    """The kind of rule that a record breaks; each kind has its own Kafka error code."""

    INVALID_RECORD = "invalid record"
    INVALID_TIMESTAMP = "invalid timestamp"


@dataclass(frozen=True, slots=True)
class Issue:
    """One rule that one record breaks."""

    index: int
    kind: IssueKind
    reason: str


class Rules(NamedTuple):
    """A topic's rules for each record; None means that a timestamp is not bounded."""

    max_bytes: int
    now_ms: int
    needs_key: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int | None = None
    timestamp_after_max_ms: int | None = None


class Inspection(NamedTuple):
    """The result of a validation; `max_timestamp` is the records', not the header's."""

    issues: tuple[Issue, ...]
    max_timestamp: int
    record_count: int


def inspect(batch: Buffer, rules: Rules) -> Inspection:
    """Validates each record of one batch; raises `RecordError` if they cannot be read."""
    slices = inspect_in_slices(batch, rules)
    while True:
        try:
            next(slices)
        except StopIteration as done:
            found: Inspection = done.value
            return found


def inspect_in_slices(batch: Buffer, rules: Rules) -> Generator[None, None, Inspection]:
    """`inspect` with a pause after each slice of records, so that the event loop can serve others.

    The batch must not change meanwhile.
    """
    header = read_header(batch)
    issues: list[Issue] = []
    max_timestamp = NO_TIMESTAMP
    index = -1
    oldest, newest = _valid_timestamp_range(rules)
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


def _valid_timestamp_range(rules: Rules) -> tuple[float, float]:
    """Timestamps between these bounds are valid; `_issue` decides about others."""
    if rules.timestamp_type is not TimestampType.CREATE_TIME:
        return math.inf, -math.inf
    before, after = rules.timestamp_before_max_ms, rules.timestamp_after_max_ms
    return (
        -math.inf if before is None else rules.now_ms - before,
        math.inf if after is None else rules.now_ms + after,
    )


def _issue(index: int, record: Outline, header: BatchHeader, rules: Rules) -> Issue | None:
    """The first rule that the record breaks, as in Kafka; None if it breaks none."""
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
