"""Full and failing disks: the right error, and no loss of acknowledged records."""

import errno
from random import Random

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import (
    DiskError,
    DiskFull,
    LogClosed,
    LogDirFailed,
    OutOfOrderSequence,
)
from headrace.storage.files.filesystem import PIECE_BYTES
from headrace.storage.log.clean_shutdown import write_epochs
from headrace.storage.log.log import Log
from headrace.storage.segment.index_file import MAX_ENTRIES_IN_MEMORY
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import BatchOrigin
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.memory_log import (
    NOW_MS,
    TOPIC_ID,
    ManualClock,
    append,
    batch,
    open_log,
    open_manager,
    values,
)

SMALL = LogConfig(segment_bytes=900, index_interval_bytes=150)


def test_a_full_disk_refuses_appends_serves_reads_and_recovers_without_a_restart() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, SMALL)
    sent = {}
    fs.capacity_bytes = fs.used_bytes() + 2000
    refusals = 0
    for number in range(60):
        value = b"%d" % number * 40
        try:
            sent[append(log, batch(value)).first_offset] = value
        except DiskFull as error:
            assert error.code is ErrorCode.KAFKA_STORAGE_ERROR and error.code.retriable
            refusals += 1
        assert values(log) == sent
        if refusals == 20:
            fs.capacity_bytes = None
    assert refusals == 20 and len(sent) == 40
    manager.close()
    _, log = open_log(fs.after_kill(), SMALL)
    assert values(log) == sent


def test_a_partially_written_batch_is_truncated() -> None:
    fs = MemoryFileSystem()
    _, log = open_log(fs)
    append(log, batch(b"first"))
    fs.capacity_bytes = fs.used_bytes() + 30
    with pytest.raises(DiskFull):
        append(log, batch(b"second" * 50))
    assert log.size_bytes == fs.stat("data/t-0/00000000000000000000.log").size
    fs.capacity_bytes = None
    append(log, batch(b"third"))
    assert values(log) == {0: b"first", 1: b"third"}


def append_gently(log: Log, data: bytearray) -> None:
    log.append(data, leader_epoch=0, now_ms=NOW_MS, origin=BatchOrigin.COORDINATOR, in_pieces=True)


def test_a_gentle_write_is_made_in_pieces_and_all_or_nothing() -> None:
    fs = MemoryFileSystem()
    _, log = open_log(fs)
    append(log, batch(b"first"))
    large = bytes(5 * PIECE_BYTES // 2)
    fs.capacity_bytes = fs.used_bytes() + 2 * PIECE_BYTES
    with pytest.raises(DiskFull):
        append_gently(log, batch(large))
    assert log.size_bytes == fs.stat("data/t-0/00000000000000000000.log").size
    fs.capacity_bytes = None
    append_gently(log, batch(large))
    assert values(log, max_bytes=4 * PIECE_BYTES) == {0: b"first", 1: large}


def test_batches_after_one_that_a_full_disk_refused_are_not_out_of_order() -> None:
    """A producer that hears of a gap gives up its sequence; one that hears of the disk waits."""
    fs = MemoryFileSystem()
    _, log = open_log(fs)
    append(log, batch(b"first", producer_id=1, sequence=0))
    fs.capacity_bytes = fs.used_bytes() + 30
    with pytest.raises(DiskFull):
        append(log, batch(b"second" * 50, producer_id=1, sequence=1))
    with pytest.raises(DiskFull):
        append(log, batch(b"third", producer_id=1, sequence=2))
    fs.capacity_bytes = None
    with pytest.raises(DiskFull):
        append(log, batch(b"third", producer_id=1, sequence=2))
    append(log, batch(b"second", producer_id=1, sequence=1))
    append(log, batch(b"third", producer_id=1, sequence=2))
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(b"fifth", producer_id=1, sequence=4))
    assert values(log) == {0: b"first", 1: b"second", 2: b"third"}


def test_batches_after_one_that_found_no_room_for_a_segment_are_refused_too() -> None:
    """There is room in the segment, and none for the files that a new one needs."""
    fs = MemoryFileSystem()
    _, log = open_log(fs, SMALL)
    append(log, batch(b"first" * 120, producer_id=1, sequence=0))
    fs.capacity_bytes = fs.used_bytes()
    with pytest.raises(DiskFull):
        append(log, batch(b"second" * 80, producer_id=1, sequence=1))
    with pytest.raises(DiskFull):
        append(log, batch(b"third", producer_id=1, sequence=2))
    fs.capacity_bytes = None
    append(log, batch(b"second", producer_id=1, sequence=1))
    append(log, batch(b"third", producer_id=1, sequence=2))
    assert list(values(log)) == [0, 1, 2]


def test_later_batches_are_refused_until_the_refused_one_returns() -> None:
    """A few bytes are left, which another producer's batch fills."""
    fs = MemoryFileSystem()
    _, log = open_log(fs)
    append(log, batch(b"first", producer_id=1, sequence=0))
    fs.capacity_bytes = fs.used_bytes() + 200
    with pytest.raises(DiskFull):
        append(log, batch(b"second" * 50, producer_id=1, sequence=1))
    append(log, batch(b"other", producer_id=2, sequence=0))
    with pytest.raises(DiskFull):
        append(log, batch(b"third", producer_id=1, sequence=2))
    fs.capacity_bytes = None
    append(log, batch(b"second", producer_id=1, sequence=1))
    append(log, batch(b"third", producer_id=1, sequence=2))
    assert list(values(log).values()) == [b"first", b"other", b"second", b"third"]


def test_a_new_producers_second_batch_is_not_appended_before_its_first() -> None:
    fs = MemoryFileSystem()
    _, log = open_log(fs)
    append(log, batch(b"zero"))
    fs.capacity_bytes = fs.used_bytes() + 200
    with pytest.raises(DiskFull):
        append(log, batch(b"first" * 50, producer_id=1, sequence=0))
    with pytest.raises(DiskFull):
        append(log, batch(b"second", producer_id=1, sequence=1))
    fs.capacity_bytes = None
    append(log, batch(b"first", producer_id=1, sequence=0))
    append(log, batch(b"second", producer_id=1, sequence=1))
    assert list(values(log).values()) == [b"zero", b"first", b"second"]


def test_a_producer_that_gives_up_a_refused_batch_continues_in_a_new_epoch() -> None:
    fs = MemoryFileSystem()
    _, log = open_log(fs)
    append(log, batch(b"first", producer_id=1, sequence=0))
    fs.capacity_bytes = fs.used_bytes() + 30
    with pytest.raises(DiskFull):
        append(log, batch(b"second" * 50, producer_id=1, sequence=1))
    fs.capacity_bytes = None
    append(log, batch(b"third", producer_id=1, epoch=1, sequence=0))
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(b"fifth", producer_id=1, epoch=1, sequence=2))


def test_a_log_opens_after_a_crash_on_a_full_disk() -> None:
    """It is read, and not scanned again at each try to."""
    fs = MemoryFileSystem()
    config = LogConfig(index_interval_bytes=1)
    _, log = open_log(fs, config)
    for number in range(MAX_ENTRIES_IN_MEMORY + 10):
        append(log, batch(b"%d" % number))
    after = fs.after_kill()
    after.capacity_bytes = 0
    _, log = open_log(after, config)
    assert len(values(log, max_bytes=1 << 20)) == MAX_ENTRIES_IN_MEMORY + 10
    with pytest.raises(DiskFull):
        append(log, batch(b"x"))
    after.capacity_bytes = None
    append(log, batch(b"x"))
    assert len(values(log, max_bytes=1 << 20)) == MAX_ENTRIES_IN_MEMORY + 11


def test_a_full_disk_at_the_end_of_a_copy_takes_no_directory_offline() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs, dirs=("a", "b"))
    log = manager.get_or_create("t", 0, TOPIC_ID, LogConfig())
    append(log, batch(b"x"))
    copy = manager.futures.create_copy(log, manager.directories[1], TOPIC_ID)
    append(copy, batch(b"x"), origin=BatchOrigin.REPLICATION)
    copy.flush()
    fs.capacity_bytes = 0
    with pytest.raises(DiskFull):
        manager.finish_move(log)
    assert all(directory.is_online for directory in manager.directories)
    fs.capacity_bytes = None
    manager.sweep()
    assert not [entry.name for entry in fs.list_dir("b") if entry.is_dir]
    assert values(log) == {0: b"x"}


def test_a_stop_that_finds_no_room_for_leader_epochs_does_not_lose_them() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs)
    append(log, batch(b"x"), leader_epoch=3)
    log.roll()
    log.flush()
    manager.checkpoint()
    append(log, batch(b"y"), leader_epoch=5)
    fs.capacity_bytes = 0
    with pytest.raises(OSError, match="No space"):
        write_epochs(log.local)
    _, log = open_log(fs.after_kill())
    assert [log.epoch_at(offset) for offset in (0, 1)] == [3, 5]


def test_missing_leader_epochs_are_rebuilt_from_the_records() -> None:
    """Below the recovery point, too, from where a start after a crash scans."""
    fs = MemoryFileSystem()
    manager, log = open_log(fs)
    append(log, batch(b"x"), leader_epoch=3)
    append(log, batch(b"y"), leader_epoch=5)
    log.roll()
    log.flush()
    manager.checkpoint()
    after = fs.after_kill()
    after.truncate(after.open("data/t-0/leader-epoch-checkpoint"), 0)
    _, log = open_log(after)
    assert [log.epoch_at(offset) for offset in (0, 1)] == [3, 5]


def test_a_lack_of_descriptors_does_not_take_the_directory_offline() -> None:
    fs = MemoryFileSystem()
    _, log = open_log(fs)
    fs.fault_at, fs.fault_errno = fs.operations + 1, errno.EMFILE
    with pytest.raises(DiskError) as caught:
        append(log, batch(b"x"))
    assert not isinstance(caught.value, LogDirFailed)
    append(log, batch(b"x"))
    assert values(log) == {0: b"x"}


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
def test_a_failed_write_takes_the_directory_offline_and_no_other(code: int) -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs, dirs=("one", "two"))
    logs = [manager.get_or_create("t", n, TOPIC_ID, LogConfig()) for n in range(4)]
    for log in logs:
        append(log, batch(b"x"))
    fs.fault_at, fs.fault_errno = fs.operations + 1, code
    with pytest.raises(LogDirFailed):
        append(logs[0], batch(b"y"))
    sick = [log for log in logs if log.directory is logs[0].directory]
    well = [log for log in logs if log.directory is not logs[0].directory]
    assert len(sick) == len(well) == 2
    for log in sick:
        with pytest.raises(LogDirFailed):
            append(log, batch(b"z"))
        with pytest.raises(LogDirFailed):
            log.read(0, max_bytes=100)
        with pytest.raises(LogDirFailed):
            log.flush()
    for log in well:
        append(log, batch(b"z"))
        assert values(log) == {0: b"x", 1: b"z"}
    with pytest.raises(LogDirFailed):
        manager.get_or_create("t", 9, TOPIC_ID, LogConfig())
    made = manager.get_or_create("t", 9, TOPIC_ID, LogConfig(), is_new=True)
    assert made.directory is well[0].directory
    manager.close()
    assert not any(
        name == ".kafka_cleanshutdown" for name, _ in fs.list_dir(sick[0].directory.path)
    )


def test_nothing_is_flushed_after_a_failed_fsync() -> None:
    """The second fsync might succeed without the first one's bytes: it must not be tried."""
    fs = MemoryFileSystem()
    _, log = open_log(fs, LogConfig(flush_messages=1))
    append(log, batch(b"x"))
    fs.fault_on = lambda operation: operation == "fsync"
    fs.fault_at = fs.operations + 1
    with pytest.raises(LogDirFailed):
        log.flush()
    fs.fault_at = None
    with pytest.raises(LogDirFailed):
        log.flush()
    assert log.recovery_point == 0
    with pytest.raises(LogDirFailed):
        append(log, batch(b"y"))


def test_a_flush_without_room_for_the_leader_epochs_is_refused_and_tried_again() -> None:
    """The records are on disk, and nothing is in doubt: the directory goes on."""
    fs = MemoryFileSystem()
    _, log = open_log(fs, LogConfig(flush_messages=1))
    append(log, batch(b"x"))
    fs.capacity_bytes = fs.used_bytes()
    for _ in range(2):
        with pytest.raises(DiskFull):
            log.flush()
    assert log.recovery_point == 0
    assert log.has_overdue_flush and log.flush_is_due(NOW_MS)
    assert values(log) == {0: b"x"}
    fs.capacity_bytes = None
    log.flush()
    assert log.recovery_point == 1
    assert not log.flush_is_due(NOW_MS)
    assert fs.stat("data/t-0/leader-epoch-checkpoint").size


def test_deleting_a_log_during_a_flush_takes_no_directory_offline() -> None:
    """The flush runs in a thread; the files that it looks for may have another name by then."""
    fs = MemoryFileSystem()
    manager, log = open_log(fs, LogConfig(flush_messages=1))
    append(log, batch(b"x"))

    def delete(operation: str) -> bool:
        if operation == "fsync" and len(manager):
            manager.delete("t", 0)
        return False

    fs.fault_on, fs.fault_at, fs.fault_lasts = delete, 0, True
    with pytest.raises(LogClosed):
        log.flush()
    assert manager.failure is None
    other = manager.get_or_create("t", 1, TOPIC_ID, LogConfig())
    append(other, batch(b"y"))
    other.flush()
    assert values(other) == {0: b"y"}


def test_the_manager_reports_when_no_directory_is_left() -> None:
    fs = MemoryFileSystem()
    told: list[bool] = []
    ids = Random(1)
    manager = LogManager(
        ("one", "two"),
        fs,
        ManualClock(),
        new_id=lambda: ids.randbytes(16),
        on_failure=lambda: told.append(manager.failure is not None),
    )
    manager.open()
    for directory in manager.directories:
        directory.state.fail("the disk is gone")
        directory.state.fail("it is still gone")
    assert told == [False, True]
    assert "log directory one is offline: the disk is gone" in str(manager.failure)
    assert "two" in str(manager.failure)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_fault_at_any_operation_raises_storage_errors_and_loses_nothing(code: int) -> None:
    """Runs a small script with a fault at each operation in turn."""
    point, finished = 0, False
    while not finished:
        point += 1
        fs = MemoryFileSystem()
        manager, log = open_log(fs, LogConfig(segment_bytes=400, flush_messages=1))
        fs.fault_at, fs.fault_errno = fs.operations + point, code
        acked: dict[int, bytes] = {}
        finished = True
        while len(acked) < 12:
            value = b"%d" % len(acked) * 10  # the same again, if it was refused
            try:
                first = append(log, batch(value, producer_id=1, sequence=len(acked))).first_offset
                log.flush()
                acked[first] = value
            except DiskError:
                finished = False
                if log.directory.failure is not None:
                    break
        fs.fault_at = None
        manager.close()
        _, log = open_log(fs.after_kill(), LogConfig(segment_bytes=400))
        found = values(log)
        assert all(found.get(offset) == value for offset, value in acked.items())
    assert point > 20


def test_a_directory_that_cannot_be_opened_leaves_the_others_working() -> None:
    fs = MemoryFileSystem()
    fs.mkdir("good")
    fs.open("bad", create=True)  # a file where a directory should be
    manager = open_manager(fs, dirs=("bad", "good"))
    assert [directory.is_online for directory in manager.directories] == [False, True]
    log = manager.get_or_create("t", 0, TOPIC_ID, LogConfig(), is_new=True)
    append(log, batch(b"x"), now_ms=NOW_MS)
    assert log.directory.path == "good"


def test_no_working_directory_at_all_is_an_error() -> None:
    fs = MemoryFileSystem()
    fs.open("bad", create=True)
    with pytest.raises(LogDirFailed):
        open_manager(fs, dirs=("bad",))
