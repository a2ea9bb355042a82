"""What a share fetch makes of the batches it has read."""

import pytest

from headrace.records.control import end_txn_marker
from headrace.records.record import Record, build_batch
from headrace.share.fetched_batches import (
    AbortedTransaction,
    aborted_ranges,
    offset_ranges,
    slice_acquired,
    whole_batches,
)
from headrace.share.record_state import Acquired
from headrace.share.start_offset import reset_age_ms


def data(base: int, count: int, *, producer_id: int = -1) -> bytes:
    return build_batch(
        [Record(base + place, 1, None, b"v") for place in range(count)],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    return end_txn_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=1,
        base_offset=offset,
    )


def test_an_incomplete_batch_at_the_end_is_skipped() -> None:
    log = data(0, 3) + data(3, 2)
    assert offset_ranges(whole_batches(log)) == [(0, 2), (3, 4)]
    assert offset_ranges(whole_batches(log[:-1])) == [(0, 2)]


def test_only_batches_of_aborted_transactions_are_found() -> None:
    log = (
        data(0, 2, producer_id=7)
        + data(2, 2, producer_id=8)
        + data(4, 2)
        + marker(6, 7, commit=False)
        + data(7, 2, producer_id=7)
        + marker(9, 7, commit=True)
        + marker(10, 8, commit=True)
        + data(11, 2, producer_id=8)
        + marker(13, 8, commit=False)
    )
    aborted = [AbortedTransaction(8, 11), AbortedTransaction(7, 0)]
    assert aborted_ranges(whole_batches(log), aborted) == [(0, 1), (11, 12)]


def test_only_the_batches_with_acquired_records_are_sent() -> None:
    parts = [data(0, 2), data(2, 2), data(4, 2), data(6, 2)]
    log = memoryview(b"".join(parts))
    batches = whole_batches(log)
    acquired = [Acquired(3, 3, 1), Acquired(4, 4, 2)]
    assert bytes(slice_acquired(log, batches, acquired)) == parts[1] + parts[2]


@pytest.mark.parametrize(
    ("strategy", "age_ms"),
    [
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P1DT2H3M4.5S", 93_784_500),
        ("by_duration:PT0.001S", 1),
        ("latest", None),
        ("earliest", None),
    ],
)
def test_durations_are_read_as_iso_8601(strategy: str, age_ms: int | None) -> None:
    assert reset_age_ms(strategy) == age_ms
