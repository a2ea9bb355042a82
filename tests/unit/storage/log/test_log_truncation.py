"""Deletion, retention, truncation: what is removed, what is kept, and offsets that only grow."""

import errno

import pytest

from headrace.storage.errors import DiskFull, OffsetOutOfRange
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import COMPACT, DELETE, LogConfig
from headrace.storage.state.producers import BatchOrigin
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.memory_log import (
    NOW_MS,
    TOPIC_ID,
    ManualClock,
    append,
    batch,
    marker,
    open_log,
    open_manager,
    values,
)

BATCH = 100
SIZE = len(batch(b"x" * BATCH))
THREE = LogConfig(segment_bytes=3 * SIZE, index_interval_bytes=1)


def filled(config: LogConfig, count: int = 9) -> tuple[MemoryFileSystem, Log]:
    fs = MemoryFileSystem()
    _, log = open_log(fs, config)
    for number in range(count):
        append(log, batch(b"x" * BATCH, timestamp=NOW_MS + number), leader_epoch=number // 4)
    return fs, log


def test_delete_before_moves_the_start_and_retention_removes_whole_segments() -> None:
    _fs, log = filled(THREE)
    log.delete_before(4)
    assert log.log_start_offset == 4
    assert log.delete_old_segments(NOW_MS) == 1
    assert min(values(log)) == 4
    for offset in (-1, 10):
        with pytest.raises(OffsetOutOfRange):
            log.delete_before(offset)
    log.delete_before(2)
    assert log.log_start_offset == 4


def test_the_start_survives_a_restart() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, THREE)
    for _ in range(5):
        append(log, batch(b"x"))
    log.delete_before(3)
    manager.close()
    _, log = open_log(fs.after_kill(), THREE)
    assert log.log_start_offset == 3
    log.load()
    assert log.log_start_offset == 3


def test_retention_by_size_keeps_at_least_that_much() -> None:
    config = LogConfig(segment_bytes=3 * SIZE, retention_bytes=5 * SIZE)
    _, log = filled(config)
    assert log.delete_old_segments(NOW_MS) == 1
    assert log.size_bytes == 6 * SIZE
    assert log.log_start_offset == 3
    assert log.delete_old_segments(NOW_MS) == 0


def test_retention_of_no_bytes_keeps_nothing() -> None:
    _, log = filled(LogConfig(segment_bytes=3 * SIZE, retention_bytes=0))
    assert log.delete_old_segments(NOW_MS, 8) == 2  # the last record may not be read yet
    assert log.delete_old_segments(NOW_MS, 9) == 1
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (9, 9, 0)


def test_retention_of_minus_one_keeps_everything() -> None:
    _, log = filled(LogConfig(segment_bytes=3 * SIZE, retention_bytes=-1, retention_ms=-1))
    assert log.delete_old_segments(2**62) == 0


def test_a_log_that_is_compacted_and_deleted_is_subject_to_retention() -> None:
    policy = frozenset({COMPACT, DELETE})
    _, log = filled(LogConfig(segment_bytes=3 * SIZE, retention_ms=1000, cleanup_policy=policy))
    assert log.delete_old_segments(NOW_MS + 2 + 1001) == 1


def test_retention_by_time_looks_at_the_newest_record_of_a_segment() -> None:
    config = LogConfig(segment_bytes=3 * SIZE, retention_ms=1000)
    _, log = filled(config)
    assert log.delete_old_segments(NOW_MS + 2 + 1000) == 0
    assert log.delete_old_segments(NOW_MS + 2 + 1001) == 1
    assert log.log_start_offset == 3


def test_retention_may_empty_the_log_but_never_reuses_an_offset() -> None:
    fs = MemoryFileSystem()
    config = LogConfig(segment_bytes=3 * SIZE, retention_ms=1000)
    _manager, log = open_log(fs, config)
    for _ in range(8):
        append(log, batch(b"x" * BATCH))
    assert log.delete_old_segments(NOW_MS + 1001) == 3
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (8, 8, 0)
    for after in (fs.after_power_loss(None), fs.after_kill()):
        assert append(open_log(after, config)[1], batch(b"y")).first_offset == 8


def test_nothing_past_the_high_watermark_is_deleted() -> None:
    config = LogConfig(segment_bytes=3 * SIZE, retention_ms=1000)
    _, log = filled(config)
    assert log.delete_old_segments(NOW_MS + 99_999, 5) == 1
    assert log.delete_old_segments(NOW_MS + 99_999, 8) == 1
    assert log.delete_old_segments(NOW_MS + 99_999, 9) == 1


def test_compacted_topics_are_not_subject_to_retention_but_to_delete_records() -> None:
    config = LogConfig(segment_bytes=3 * SIZE, retention_ms=0, cleanup_policy=frozenset({COMPACT}))
    _, log = filled(config)
    assert log.delete_old_segments(NOW_MS + 99_999) == 0
    log.delete_before(3)
    assert log.delete_old_segments(NOW_MS + 99_999) == 1


def test_a_follower_deletes_what_is_below_its_start_and_nothing_by_its_own_clock() -> None:
    config = LogConfig(segment_bytes=3 * SIZE, retention_ms=1000, retention_bytes=0)
    _, log = filled(config)
    assert log.delete_old_segments(2**62, is_follower=True) == 0
    log.delete_before(7)
    assert log.delete_old_segments(0, is_follower=True) == 2
    assert log.size_bytes == 3 * SIZE
    log.delete_before(9)
    assert log.delete_old_segments(0, is_follower=True) == 1
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (9, 9, 0)


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_retention_works_on_a_full_disk(producer_id: int) -> None:
    """A disk that is full of what is to be deleted must not stay so."""
    fs = MemoryFileSystem()
    _, log = open_log(fs, LogConfig(retention_ms=1000, index_interval_bytes=1))
    for number in range(5):
        append(log, batch(b"x" * BATCH, producer_id=producer_id, sequence=number))
    fs.capacity_bytes = fs.used_bytes()
    assert log.delete_old_segments(NOW_MS + 1001) == 1
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (5, 5, 0)
    fs.capacity_bytes = None
    for after in (fs.after_power_loss(None), fs.after_kill()):
        assert append(open_log(after)[1], batch(b"y")).first_offset == 5


def test_closed_segments_are_deleted_without_room_to_close_another() -> None:
    fs, log = filled(LogConfig(segment_bytes=3 * SIZE, retention_ms=1000))
    fs.fault_at, fs.fault_errno, fs.fault_lasts = fs.operations + 1, errno.ENOSPC, True
    fs.fault_on = lambda operation: operation == "create"
    assert log.delete_old_segments(NOW_MS + 99_999) == 2
    with pytest.raises(DiskFull):
        log.delete_old_segments(NOW_MS + 99_999)
    fs.fault_at = None
    assert log.delete_old_segments(NOW_MS + 99_999) == 1


def test_deleted_files_do_not_wait_longer_if_the_clock_is_set_back() -> None:
    class SetBack(ManualClock):
        back_ms = 0

        def wall_ms(self) -> int:
            return self.now_ms - self.back_ms

    clock, config = SetBack(), LogConfig(segment_bytes=3 * SIZE, file_delete_delay_ms=500)
    manager = open_manager(MemoryFileSystem(), clock=clock, config=config)
    log = manager.get_or_create("t", 0, TOPIC_ID, config)
    for _ in range(7):
        append(log, batch(b"x" * BATCH))
    log.delete_before(6)
    assert log.delete_old_segments(clock.wall_ms()) == 2
    clock.back_ms = 86_400_000
    clock.now_ms += 500
    assert manager.sweep() >= 4


def test_deleted_files_are_removed_by_a_sweep_after_their_delay() -> None:
    fs = MemoryFileSystem()
    clock = ManualClock()
    config = LogConfig(segment_bytes=3 * SIZE, file_delete_delay_ms=500)
    manager = open_manager(fs, clock=clock, config=config)
    log = manager.get_or_create("t", 0, TOPIC_ID, config)
    for _ in range(7):
        append(log, batch(b"x" * BATCH))
    log.delete_before(6)
    assert log.delete_old_segments(clock.now_ms) == 2
    assert manager.sweep() == 0
    clock.now_ms += 500
    assert manager.sweep() >= 4
    assert not [e.name for e in fs.list_dir("data/t-0") if e.name.endswith(".deleted")]


def test_truncation_removes_records_producers_epochs_and_aborted_transactions() -> None:
    fs = MemoryFileSystem()
    _manager, log = open_log(fs, THREE)
    for sequence in range(4):
        append(log, batch(b"x" * BATCH, producer_id=1, sequence=sequence))
    append(log, batch(b"t", producer_id=2, transactional=True), leader_epoch=1)
    append(log, marker(2, commit=False), leader_epoch=1, origin=BatchOrigin.COORDINATOR)
    append(log, batch(b"x" * BATCH, producer_id=1, sequence=4), leader_epoch=2)
    assert len(log.aborted_transactions(0, 99)) == 1
    log.truncate_to(4)
    assert (log.log_end_offset, log.latest_epoch) == (4, 0)
    assert log.aborted_transactions(0, 99) == []
    assert set(log.producers) == {1}
    assert append(log, batch(b"y" * BATCH, producer_id=1, sequence=4)).first_offset == 4
    log.flush()
    _, log = open_log(fs.after_power_loss(None), THREE)
    assert values(log)[4] == b"y" * BATCH
    assert log.log_end_offset == 5


def snapshots_in(fs: MemoryFileSystem) -> list[int]:
    return sorted(int(e.name[:20]) for e in fs.list_dir("data/t-0") if ".snapshot" in e.name)


def written_by(producer_id: int, log: Log, count: int) -> None:
    for sequence in range(count):
        append(log, batch(b"x" * BATCH, producer_id=producer_id, sequence=sequence))


def test_truncation_removes_producer_snapshots() -> None:
    """A snapshot of records that are gone would be taken for the state of those that replace them.

    One producer's records are cut, another's take their offsets; only the second is known after.
    """
    fs = MemoryFileSystem()
    manager, log = open_log(fs, THREE)
    written_by(1, log, 2)
    log.roll()
    written_by(2, log, 3)
    log.roll()
    assert snapshots_in(fs) == [2, 5]
    log.truncate_to(2)
    assert snapshots_in(fs) == [2]
    written_by(3, log, 3)
    log.roll()
    log.flush()
    manager.checkpoint()
    for after in (fs.after_power_loss(None), fs.after_kill()):
        _, log = open_log(after, THREE)
        log.load()
        assert set(log.producers) == {1, 3}
        assert append(log, batch(b"y", producer_id=3, sequence=3)).first_offset == 5


def test_full_truncation_removes_all_snapshots() -> None:
    fs = MemoryFileSystem()
    _, log = open_log(fs, THREE)
    written_by(1, log, 4)
    log.roll()
    assert snapshots_in(fs) == [3, 4]
    log.truncate_fully_and_start_at(2)
    assert snapshots_in(fs) == []
    written_by(2, log, 2)
    log.roll()
    log.flush()
    _, log = open_log(fs.after_power_loss(None), THREE)
    log.load()
    assert set(log.producers) == {2}


def test_deleting_segments_deletes_their_snapshots() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, THREE)
    written_by(1, log, 9)
    log.roll()
    assert snapshots_in(fs) == [3, 6, 9]
    log.delete_before(7)
    assert log.delete_old_segments(NOW_MS) == 2
    manager.sweep()
    assert [e.name for e in fs.list_dir("data/t-0") if e.name.endswith(".snapshot")] == [
        f"{offset:020d}.snapshot" for offset in (6, 9)
    ]


def test_truncation_inside_a_batch_removes_the_batch() -> None:
    _, log = open_log()
    append(log, batch(b"a", b"b"))
    append(log, batch(b"c", b"d", b"e"))
    log.truncate_to(3)
    assert log.log_end_offset == 2
    log.truncate_to(7)
    assert values(log) == {0: b"a", 1: b"b"}


def test_truncation_keeps_the_largest_timestamp_right() -> None:
    _, log = open_log(config=LogConfig(index_interval_bytes=1))
    for number in (5, 9, 7, 20, 3):
        append(log, batch(b"x" * 50, timestamp=NOW_MS + number))
    log.truncate_to(3)
    found = log.max_timestamp_offset()
    assert found is not None and found[:2] == (NOW_MS + 9, 1)


@pytest.mark.parametrize("offset", [3, 100])
def test_a_log_can_restart_at_any_offset(offset: int) -> None:
    fs, log = filled(THREE)
    log.truncate_fully_and_start_at(offset)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (offset, offset, 0)
    assert log.latest_epoch == -1
    assert append(log, batch(b"x")).first_offset == offset
    log.flush()
    _, log = open_log(fs.after_power_loss(None), THREE)
    assert values(log) == {offset: b"x"}
