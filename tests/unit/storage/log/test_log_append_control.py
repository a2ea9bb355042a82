"""The broker's own records: one batch like a client's, refused only for its size."""

import pytest

from headrace.records.batch_header import headers
from headrace.records.record import Record, build_batch
from headrace.records.small_batch_builder import plain_records
from headrace.storage.errors import (
    InvalidProducerEpoch,
    MessageTooLarge,
    RecordListTooLarge,
    StorageError,
)
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import COMPACT, LOG_APPEND_TIME, LogConfig
from support.storage.memory_log import NOW_MS, append, open_log, values

RECORDS = [(b"k1", b"a"), (b"k2", b"b"), (b"k3", None)]


def own(log: Log, *, epoch: int = 3, **options: int) -> tuple[int, int]:
    first_offset, _ = log.append_plain_records(
        plain_records(RECORDS), len(RECORDS), leader_epoch=epoch, now_ms=NOW_MS, **options
    )
    return first_offset, log.log_end_offset - 1


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(),
        LogConfig(cleanup_policy=frozenset({COMPACT})),
        LogConfig(compression_type="uncompressed"),
        LogConfig(compression_type="gzip"),
        LogConfig(message_timestamp_type=LOG_APPEND_TIME),
    ],
    ids=["plain", "compacted", "uncompressed", "compressed", "append-time"],
)
def test_own_records_are_appended_under_any_topic_configuration(config: LogConfig) -> None:
    _, log = open_log(config=config)
    assert [own(log), own(log)] == [(0, 2), (3, 5)]
    assert values(log) == {0: b"a", 1: b"b", 2: b"", 3: b"a", 4: b"b", 5: b""}
    found = [header for _, header in headers(log.read(0, max_bytes=1 << 20).data)]
    assert [header.partition_leader_epoch for header in found] == [3, 3]
    assert log.latest_epoch == 3


def test_own_records_change_the_log_as_a_client_batch_does() -> None:
    _, ours = open_log()
    _, theirs = open_log()
    for epoch in (1, 1, 2):
        own(ours, epoch=epoch)
        made = build_batch([Record(n, NOW_MS, *record) for n, record in enumerate(RECORDS)])
        append(theirs, bytearray(made), leader_epoch=epoch)
    for question in (
        lambda log: log.read(0, max_bytes=1 << 20),
        lambda log: log.size_bytes,
        lambda log: [log.epoch_at(offset) for offset in range(9)],
        lambda log: log.max_timestamp_offset(),
        lambda log: log.offset_for_timestamp(NOW_MS),
    ):
        assert question(ours) == question(theirs)


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (LogConfig(max_message_bytes=80), MessageTooLarge),
        (LogConfig(segment_bytes=80), RecordListTooLarge),
    ],
)
def test_own_records_that_are_too_large_are_refused_without_a_trace(
    config: LogConfig, error: type[StorageError]
) -> None:
    _, log = open_log(config=config)
    with pytest.raises(error):
        own(log)
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_records_of_a_producer_are_part_of_its_transaction() -> None:
    _, log = open_log()
    own(log)
    assert own(log, producer_id=7, producer_epoch=2) == (3, 5)
    assert own(log, producer_id=7, producer_epoch=2) == (6, 8)
    assert log.last_stable_offset == 3
    with pytest.raises(InvalidProducerEpoch):
        own(log, producer_id=7, producer_epoch=1)
    assert log.log_end_offset == 9
