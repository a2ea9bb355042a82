"""Validation of records: each invalid record is reported by its index."""

import pytest

from headrace.records.batch_header import TimestampType, read_header, stamp_log_append_time
from headrace.records.codec import Codec
from headrace.records.errors import DecompressedTooLarge
from headrace.records.record import Record, build_batch
from headrace.records.record_validation import Inspection, IssueKind, Rules, inspect

RULES = Rules(max_bytes=10_000, now_ms=1_000)


def _kinds(inspection: Inspection) -> list[tuple[int, IssueKind]]:
    return [(issue.index, issue.kind) for issue in inspection.issues]


@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_has_no_issues_and_its_true_max_timestamp(codec: Codec) -> None:
    records = [Record(0, 5, b"k", b""), Record(1, 9, b"k", b""), Record(2, 7, b"k", b"")]
    batch = build_batch(records, codec=codec, max_timestamp=99_999)
    assert inspect(batch, RULES) == Inspection((), 9, 3)


def test_each_record_without_a_key_is_named_in_a_compacted_topic() -> None:
    batch = build_batch([Record(0, 5, None, b""), Record(1, 5, b"", b""), Record(2, 5, None, b"")])
    rules = Rules(max_bytes=10_000, now_ms=0, needs_key=True)
    assert _kinds(inspect(batch, rules)) == [
        (0, IssueKind.INVALID_RECORD),
        (2, IssueKind.INVALID_RECORD),
    ]
    assert _kinds(inspect(batch, RULES)) == []


def test_offset_deltas_must_count_from_zero_without_gaps() -> None:
    batch = build_batch([Record(1, 5, b"", b""), Record(2, 5, b"", b"")], base_offset=0)
    assert _kinds(inspect(batch, RULES)) == [
        (0, IssueKind.INVALID_RECORD),
        (1, IssueKind.INVALID_RECORD),
    ]


def test_timestamps_must_lie_within_the_bounds() -> None:
    times = [-1, 899, 900, 1_000, 1_050, 1_051]
    batch = build_batch([Record(i, time, b"", b"") for i, time in enumerate(times)])
    rules = Rules(
        max_bytes=10_000, now_ms=1_000, timestamp_before_max_ms=100, timestamp_after_max_ms=50
    )
    assert _kinds(inspect(batch, rules)) == [
        (1, IssueKind.INVALID_TIMESTAMP),
        (5, IssueKind.INVALID_TIMESTAMP),
    ]
    by_leader = Rules(
        max_bytes=10_000,
        now_ms=1_000,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        timestamp_before_max_ms=100,
    )
    assert _kinds(inspect(batch, by_leader)) == []


def test_a_producer_may_not_claim_log_append_time() -> None:
    batch = bytearray(build_batch([Record(0, 5, b"", b"")]))
    stamp_log_append_time(batch, 0, read_header(batch), 7)
    rules = Rules(max_bytes=10_000, now_ms=7, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert _kinds(inspect(batch, rules)) == [(0, IssueKind.INVALID_TIMESTAMP)]


def test_record_validation_is_limited() -> None:
    batch = build_batch([Record(0, 5, b"", bytes(20_000))], codec=Codec.ZSTD)
    with pytest.raises(DecompressedTooLarge):
        inspect(batch, RULES)
