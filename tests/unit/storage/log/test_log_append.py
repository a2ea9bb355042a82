"""Appending: offsets, refused batches, and no trace of a refused append."""

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.records.batch_header import (
    TimestampType,
    crc_of,
    headers,
    pack_header,
    read_header,
    stamp,
)
from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch
from headrace.storage.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordListTooLarge,
    StorageError,
    UnexpectedOffset,
    UnsupportedCompression,
)
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import COMPACT, LOG_APPEND_TIME, LogConfig
from headrace.storage.state.producers import BatchOrigin
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.memory_log import NOW_MS, append, batch, marker, open_log, values


def test_offsets_continue_from_batch_to_batch_and_are_stamped_in_place() -> None:
    _, log = open_log()
    first, second = batch(b"a", b"b"), batch(b"c")
    assert append(log, first, leader_epoch=4)[:2] == (0, 1)
    assert append(log, second, leader_epoch=4)[:2] == (2, 2)
    ((_, header),) = headers(second)
    assert (header.base_offset, header.partition_leader_epoch) == (2, 4)
    assert values(log) == {0: b"a", 1: b"b", 2: b"c"}


def test_several_batches_in_one_append_are_one_append() -> None:
    _, log = open_log()
    assert append(log, batch(b"a", b"b") + batch(b"c"), origin=BatchOrigin.COORDINATOR)[:2] == (
        0,
        2,
    )
    assert values(log) == {0: b"a", 1: b"b", 2: b"c"}


def refused(log: Log, data: bytearray, **options: object) -> StorageError:
    """The error; asserts that the log did not change."""
    before = (log.log_end_offset, log.size_bytes, values(log))
    with pytest.raises(StorageError) as caught:
        append(log, data, **options)  # type: ignore[arg-type]
    assert (log.log_end_offset, log.size_bytes, values(log)) == before
    return caught.value


def test_damaged_bytes_are_refused_with_the_right_error() -> None:
    _, log = open_log()
    append(log, batch(b"a"))
    flipped = batch(b"value")
    flipped[-1] ^= 1
    assert isinstance(refused(log, flipped), CorruptMessage)
    assert isinstance(refused(log, batch(b"x")[:-3]), InvalidRecord)
    assert isinstance(refused(log, bytearray()), InvalidRecord)
    assert isinstance(refused(log, batch(b"x") + bytearray(b"\0" * 20)), StorageError)
    old_format = batch(b"x")
    old_format[16] = 1
    assert refused(log, old_format).code is ErrorCode.INVALID_RECORD
    moved = batch(b"x")
    stamp(moved, 0, 7, 0)
    assert isinstance(refused(log, moved), InvalidRecord)


def test_a_valid_batch_before_an_invalid_one_is_not_appended() -> None:
    _, log = open_log()
    bad = batch(b"value")
    bad[-1] ^= 1
    assert isinstance(refused(log, batch(b"a") + bad), CorruptMessage)


def test_sizes_are_limited_by_message_and_by_segment() -> None:
    _, log = open_log(config=LogConfig(max_message_bytes=200, segment_bytes=400))
    assert isinstance(refused(log, batch(b"x" * 200)), MessageTooLarge)
    assert isinstance(refused(log, batch(b"x" * 500)), RecordListTooLarge)
    append(log, batch(b"x" * 100))


def test_clients_may_not_write_control_batches_but_coordinators_may() -> None:
    _, log = open_log()
    assert isinstance(refused(log, marker(3, commit=True)), InvalidRecord)
    append(log, marker(3, commit=True), origin=BatchOrigin.COORDINATOR)
    assert log.log_end_offset == 1


def test_an_unknown_codec_is_refused() -> None:
    data = batch(b"x")
    header = read_header(data)._replace(attributes=7)
    pack_header(data, 0, header)
    pack_header(data, 0, header._replace(crc=crc_of(data, 0, len(data))))
    _, log = open_log()
    assert isinstance(refused(log, data), UnsupportedCompression)


def test_timestamps_out_of_bounds_are_refused_by_record() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)
    _, log = open_log(config=config)
    for timestamp in (NOW_MS - 1001, NOW_MS + 1001):
        records = [Record(0, NOW_MS, b"k", b"ok"), Record(1, timestamp, b"k", b"bad")]
        error = refused(log, bytearray(build_batch(records)))
        assert isinstance(error, InvalidTimestamp)
        assert [fault.index for fault in error.record_errors] == [1]
    append(log, batch(b"x", timestamp=NOW_MS - 1000))


def test_future_timestamps_are_bounded_by_default() -> None:
    _, log = open_log()
    error = refused(log, batch(b"x", timestamp=NOW_MS + 3_600_001))
    assert isinstance(error, InvalidTimestamp)
    append(log, batch(b"x", timestamp=0))


def test_a_header_with_a_wrong_future_timestamp_is_corrected() -> None:
    data = batch(b"x")
    header = read_header(data)._replace(max_timestamp=NOW_MS + 10**9)
    pack_header(data, 0, header)
    pack_header(data, 0, header._replace(crc=crc_of(data, 0, len(data))))
    _, log = open_log()
    append(log, data)
    ((_, stored),) = headers(log.read(0, max_bytes=1000).data)
    assert stored.max_timestamp == NOW_MS
    assert values(log) == {0: b"x"}


def test_a_compacted_topic_refuses_records_without_a_key() -> None:
    _, log = open_log(config=LogConfig(cleanup_policy=frozenset({COMPACT})))
    records = [Record(0, NOW_MS, b"k", b"x"), Record(1, NOW_MS, None, b"y")]
    error = refused(log, bytearray(build_batch(records, codec=Codec.LZ4)))
    assert isinstance(error, InvalidRecord)
    assert [fault.index for fault in error.record_errors] == [1]
    append(log, batch(b"x"))


def test_log_append_time_replaces_the_producers_time() -> None:
    _, log = open_log(config=LogConfig(message_timestamp_type=LOG_APPEND_TIME))
    data = batch(b"x", timestamp=5)
    assert append(log, data).log_append_time_ms == NOW_MS
    ((_, header),) = headers(log.read(0, max_bytes=1000).data)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == NOW_MS
    assert values(log) == {0: b"x"}  # the checksum was renewed
    assert append(open_log()[1], batch(b"x")).log_append_time_ms == -1


def test_a_topics_codec_replaces_the_producers() -> None:
    _, log = open_log(config=LogConfig(compression_type="zstd"))
    append(log, batch(b"x" * 100, b"y", producer_id=4, sequence=0, codec=Codec.GZIP))
    ((_, header),) = headers(log.read(0, max_bytes=1000).data)
    assert (header.codec, header.producer_id, header.base_sequence) == (Codec.ZSTD, 4, 0)
    assert values(log) == {0: b"x" * 100, 1: b"y"}


def test_a_follower_keeps_the_leaders_offsets_and_epochs() -> None:
    _, leader = open_log()
    for number in range(5):
        append(leader, batch(b"%d" % number), leader_epoch=number // 2)
    _, follower = open_log()
    data = bytearray(leader.read(0, max_bytes=1 << 20).data)
    append(follower, data, origin=BatchOrigin.REPLICATION)
    assert values(follower) == values(leader)
    assert follower.latest_epoch == 2
    assert isinstance(refused(follower, data, origin=BatchOrigin.REPLICATION), UnexpectedOffset)


def test_an_append_writes_to_the_log_file_only() -> None:
    fs = MemoryFileSystem()
    _, log = open_log(fs)
    append(log, batch(b"x"))
    before = fs.operations
    for _ in range(10):
        append(log, batch(b"x" * 5000))
    assert fs.operations - before == 10
