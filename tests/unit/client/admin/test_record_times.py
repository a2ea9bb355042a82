"""The time of the first unread record: markers are no records, and batches may be cut."""

from headrace.client.admin.record_times import time_of_first_record
from headrace.records.record import Record, build_batch


def two_batches() -> bytes:
    first = build_batch([Record(0, 1_000, None, b"a"), Record(1, 2_000, None, b"b")])
    second = build_batch([Record(2, 3_000, None, b"c")])
    return bytes(first) + bytes(second)


def test_the_first_record_at_or_after_the_offset_counts() -> None:
    data = two_batches()
    assert [time_of_first_record(data, offset) for offset in range(3)] == [1_000, 2_000, 3_000]


def test_there_is_no_time_behind_the_last_record() -> None:
    assert time_of_first_record(two_batches(), 3) is None
    assert time_of_first_record(b"", 0) is None


def test_a_cut_batch_at_the_end_is_ignored() -> None:
    data = two_batches()
    assert time_of_first_record(data[:-1], 2) is None
