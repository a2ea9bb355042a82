"""Finding records by timestamp and leader epochs by offset."""

from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch
from headrace.storage.log.log import Log
from headrace.storage.state.leader_epochs import EpochEntry, LeaderEpochs
from headrace.storage.state.log_config import LOG_APPEND_TIME, LogConfig
from support.storage.memory_log import NOW_MS, append, batch, open_log

TIMES = [10, 12, 11, 30, 30, 25, 31, 5, 40, 39, 38, 37, 36, 35, 60, 20]


def log_of(times: list[int]) -> Log:
    _, log = open_log(config=LogConfig(segment_bytes=500, index_interval_bytes=100))
    for time in times:
        append(log, batch(b"x" * 20, timestamp=NOW_MS + time))
    return log


def test_the_first_record_at_least_as_new_is_found() -> None:
    log = log_of(TIMES)
    for wanted in range(62):
        expected = next((o for o, time in enumerate(TIMES) if time >= wanted), None)
        found = log.offset_for_timestamp(NOW_MS + wanted)
        if expected is None:
            assert found is None
        else:
            assert found is not None
            assert found == (NOW_MS + TIMES[expected], expected, 0)


def test_records_below_the_start_are_not_found() -> None:
    log = log_of(TIMES)
    log.delete_before(5)
    for wanted in range(62):
        expected = next((o for o, t in enumerate(TIMES) if t >= wanted and o >= 5), None)
        found = log.offset_for_timestamp(NOW_MS + wanted)
        assert (found.offset if found else None) == expected


def test_the_record_inside_a_compressed_batch_is_found() -> None:
    _, log = open_log()
    records = [Record(n, NOW_MS + n * 10, b"k", b"v") for n in range(10)]
    append(log, bytearray(build_batch(records, codec=Codec.ZSTD)))
    found = log.offset_for_timestamp(NOW_MS + 35)
    assert found is not None and found[:2] == (NOW_MS + 40, 4)


def test_the_largest_timestamp_is_found_in_any_segment() -> None:
    found = log_of(TIMES).max_timestamp_offset()
    assert found is not None and found[:2] == (NOW_MS + 60, 14)
    found = log_of([50, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).max_timestamp_offset()
    assert found is not None and found[:2] == (NOW_MS + 50, 0)
    assert open_log()[1].max_timestamp_offset() is None


def test_log_append_time_counts_for_every_record() -> None:
    _, log = open_log(config=LogConfig(message_timestamp_type=LOG_APPEND_TIME))
    append(log, batch(b"a", b"b", timestamp=1), now_ms=NOW_MS)
    append(log, batch(b"c", timestamp=1), now_ms=NOW_MS + 5)
    found = log.offset_for_timestamp(NOW_MS + 1)
    assert found is not None and found[:2] == (NOW_MS + 5, 2)


def test_epochs_end_where_the_next_begins() -> None:
    _, log = open_log()
    for epoch in (1, 1, 3, 3, 6):
        append(log, batch(b"x"), leader_epoch=epoch)
    assert [log.epoch_at(offset) for offset in range(5)] == [1, 1, 3, 3, 6]
    assert log.end_offset_for_epoch(6) == (6, 5)
    assert log.end_offset_for_epoch(3) == (3, 4)
    assert log.end_offset_for_epoch(4) == (3, 4)
    assert log.end_offset_for_epoch(1) == (1, 2)
    assert log.end_offset_for_epoch(0) == (0, 0)
    assert log.end_offset_for_epoch(7) == (-1, -1)
    assert log.end_offset_for_epoch(-1) == (-1, -1)


def test_epoch_entries_shrink_with_the_log() -> None:
    epochs = LeaderEpochs([EpochEntry(1, 0), EpochEntry(2, 10), EpochEntry(5, 20)])
    epochs.truncate_from_end(20)
    assert epochs.latest == 2
    epochs.truncate_from_start(12)
    assert epochs.entries == [EpochEntry(2, 12)]
    epochs.assign(1, 15)  # an older leader after all: what contradicts it goes
    assert epochs.entries == [EpochEntry(1, 15)]


def test_an_epoch_that_goes_on_after_one_without_records_keeps_its_beginning() -> None:
    # Found by the simulator: a broker led without writing, and then copied what an earlier leader
    # had written. Its log seemed to be damaged, and to agree with logs that had gone another way.
    epochs = LeaderEpochs([EpochEntry(2, 71), EpochEntry(3, 138), EpochEntry(4, 149)])
    epochs.assign(3, 149)
    assert epochs.entries == [EpochEntry(2, 71), EpochEntry(3, 138)]
    assert epochs.end_offset(2, 150) == (2, 138)
    assert epochs.changed
