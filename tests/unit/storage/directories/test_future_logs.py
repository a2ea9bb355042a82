"""Copies in other directories survive restarts, and a crash while they take over loses nothing."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from headrace.records.batch_header import whole_size
from headrace.storage.directories import directory_names
from headrace.storage.directories.future_logs import copy_start_offset, truncate_copy
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.directories.moved_logs import MOVED_LOGS, current_directory, write_note
from headrace.storage.errors import DiskError, StorageError
from headrace.storage.log.log import Log
from headrace.storage.state.leader_epochs import EpochEntry, LeaderEpochs
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import BatchOrigin
from headrace.testing.memory_files import MemoryFileSystem, PowerLoss
from support.storage.memory_log import (
    NOW_MS,
    TOPIC_ID,
    append,
    batch,
    file_in,
    open_manager,
    values,
)

DIRS = ("a", "b")
CONFIG = LogConfig(segment_bytes=200)
HELD = {number: b"%d" % number for number in range(8)}
CRASHES = 6  # ways in which one loss of power may end


def opened(fs: MemoryFileSystem, dirs: tuple[str, ...] = DIRS) -> LogManager:
    return open_manager(fs, dirs=dirs, config=CONFIG)


def original_of(manager: LogManager) -> Log:
    found = manager.get("t", 0)
    assert found is not None
    return found


def copy_of(manager: LogManager) -> Log:
    found = manager.futures.get("t", 0)
    assert found is not None
    return found


def filled(fs: MemoryFileSystem, *, count: int = len(HELD)) -> LogManager:
    """A log in the first directory, on disk, with some records."""
    manager = opened(fs)
    log = manager.get_or_create("t", 0, TOPIC_ID, CONFIG)
    assert log.directory is manager.directories[0].state
    for number in range(count):
        append(log, batch(b"%d" % number))
    log.flush()
    return manager


def fill_copy(original: Log, copy: Log, up_to: int | None = None) -> None:
    end = original.log_end_offset if up_to is None else up_to
    while copy.log_end_offset < end:
        data = original.read(copy.log_end_offset, max_bytes=1, max_offset=end).data
        piece = bytearray(data[: whole_size(data)])
        copy.append(piece, leader_epoch=0, now_ms=NOW_MS, origin=BatchOrigin.REPLICATION)


def begun(fs: MemoryFileSystem, up_to: int | None = None) -> LogManager:
    """A copy in the second directory that holds what is below `up_to`."""
    manager = filled(fs)
    copy = manager.futures.create_copy(original_of(manager), manager.directories[1], TOPIC_ID)
    fill_copy(original_of(manager), copy, up_to)
    return manager


def directories_in(fs: MemoryFileSystem, path: str) -> list[str]:
    return sorted(entry.name for entry in fs.list_dir(path) if entry.is_dir)


# --- epochs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs", "end", "shared"),
    [
        ([(0, 0)], [(0, 0)], 9, 9),
        ([], [], 9, 9),
        ([(0, 0), (5, 4)], [(0, 0), (6, 4)], 9, 4),
        ([(0, 0), (5, 4)], [(0, 0), (6, 7)], 9, 4),
        ([(0, 0), (6, 4)], [(0, 0), (5, 2), (6, 7)], 9, 9),
        ([(0, 0), (5, 4), (6, 6)], [(0, 0), (5, 4), (7, 5)], 9, 5),
        ([(3, 0)], [(4, 0)], 9, 0),
    ],
)
def test_two_logs_diverge_where_their_epochs_do(
    ours: list[tuple[int, int]], theirs: list[tuple[int, int]], end: int, shared: int
) -> None:
    """The same epoch at the same offset is the same record, and so is all before."""
    first = LeaderEpochs([EpochEntry(*each) for each in ours])
    second = LeaderEpochs([EpochEntry(*each) for each in theirs])
    assert first.shared_end(second, end) == shared == second.shared_end(first, end)


def test_a_copy_is_truncated_to_the_end_of_its_original() -> None:
    manager = begun(MemoryFileSystem())
    original, copy = original_of(manager), copy_of(manager)
    original.truncate_to(5)
    append(original, batch(b"other"), leader_epoch=3)
    append(original, batch(b"more"), leader_epoch=3)
    truncate_copy(copy, original)
    assert values(copy) == {number: HELD[number] for number in range(5)}
    fill_copy(original, copy)
    assert values(copy) == values(original)


def test_a_copy_begins_with_the_whole_batch_in_which_the_original_starts() -> None:
    manager = opened(MemoryFileSystem())
    log = manager.get_or_create("t", 0, TOPIC_ID, CONFIG)
    append(log, batch(b"x"))
    append(log, batch(b"0", b"1", b"2"))
    assert copy_start_offset(log) == 0
    log.delete_before(2)
    assert copy_start_offset(log) == 1


# --- restarts -----------------------------------------------------------------------------------


def stop(fs: MemoryFileSystem, manager: LogManager) -> MemoryFileSystem:
    manager.close()
    return fs.after_kill()


RESTARTS: list[Callable[[MemoryFileSystem, LogManager], MemoryFileSystem]] = [
    stop,
    lambda fs, _: fs.after_kill(),
]


@pytest.mark.parametrize("restart", RESTARTS, ids=["stop", "kill"])
@pytest.mark.parametrize("up_to", [0, 5, 8])
def test_a_copy_survives_a_restart_with_its_records(
    restart: Callable[[MemoryFileSystem, LogManager], MemoryFileSystem], up_to: int
) -> None:
    fs = MemoryFileSystem()
    manager = begun(fs, up_to)
    manager.checkpoint()
    manager = opened(restart(fs, manager))
    original, copy = original_of(manager), copy_of(manager)
    truncate_copy(copy, original)
    assert values(copy) == {number: HELD[number] for number in range(up_to)}
    fill_copy(original, copy)
    assert values(manager.finish_move(original)) == HELD
    assert (len(manager.directories[0].logs), len(manager.directories[1].logs)) == (0, 1)


def test_flushed_records_of_a_copy_are_not_scanned_after_a_crash() -> None:
    """Its recovery point is in its directory's checkpoint, under the partition's name."""
    fs = MemoryFileSystem()
    manager = begun(fs)
    copy_of(manager).flush()
    manager.checkpoint()
    manager = opened(fs.after_kill())
    assert manager.directories[1].checkpoints.recovery_points == {"t-0": 8}
    assert copy_of(manager).recovery_point == 8


def test_after_power_loss_a_copy_is_a_prefix_of_the_original() -> None:
    """Also where the copy was on disk and the end of the original was not."""
    for seed in range(30):
        fs = MemoryFileSystem()
        manager = begun(fs)
        original, copy = original_of(manager), copy_of(manager)
        for number in range(4):
            append(original, batch(b"late %d" % number))
        fill_copy(original, copy)
        copy.flush()
        manager = opened(fs.after_power_loss(Random(seed)))
        original, copy = original_of(manager), copy_of(manager)
        assert copy.log_end_offset <= original.log_end_offset
        append(original, batch(b"something else"))  # with the same epoch
        truncate_copy(copy, original)
        fill_copy(original, copy)
        assert values(copy) == values(original)


def test_a_damaged_copy_is_truncated_and_the_rest_copied_again() -> None:
    fs = MemoryFileSystem()
    manager = begun(fs)
    copy = copy_of(manager)
    path = copy.path
    manager.close()
    segment = sorted(e.name for e in fs.list_dir(path) if e.name.endswith(".log"))[1]
    fs.remove(f"{path}/{segment}")
    manager = opened(fs.after_kill())
    original, copy = original_of(manager), copy_of(manager)
    truncate_copy(copy, original)
    assert 0 < copy.log_end_offset < 8 and not manager.directories[1].state.damaged
    fill_copy(original, copy)
    assert values(copy) == HELD


@pytest.mark.parametrize("restart", RESTARTS, ids=["stop", "kill"])
def test_a_dropped_copy_does_not_return_after_a_restart(
    restart: Callable[[MemoryFileSystem, LogManager], MemoryFileSystem],
) -> None:
    fs = MemoryFileSystem()
    manager = begun(fs)
    assert manager.futures.drop("t", 0) and not manager.futures.drop("t", 0)
    manager = opened(restart(fs, manager))
    assert len(manager.futures) == 0
    manager.sweep()
    assert directories_in(fs, "b") == [] and values(original_of(manager)) == HELD


@pytest.mark.parametrize("how", ["delete", "make_stray"])
def test_a_copy_is_removed_with_its_partition_at_any_crash_point(how: str) -> None:
    """It must not be the only one that is left, else it would be taken for the partition's."""
    for operations in range(1, 30):
        fs = MemoryFileSystem()
        manager = begun(fs)
        fs.power_fails_at = fs.operations + operations
        try:
            getattr(manager, how)("t", 0)
        except PowerLoss:
            pass
        else:
            break
        after = opened(fs.after_kill())
        kept = [each.metadata.name for each in after.stray_logs]
        assert after.get("t", 0) is not None or kept in ([], ["t-0"])
        if how == "delete":
            assert kept == []
    else:
        raise AssertionError("it never ended")
    assert len(manager.futures) == 0 and not manager.directories[1].futures


def test_a_copy_of_another_topic_with_the_same_name_is_discarded() -> None:
    fs = MemoryFileSystem()
    manager = begun(fs)
    (name,) = directories_in(fs, "b")
    fs.remove(f"b/{name}/partition.metadata")
    manager = opened(fs.after_kill())
    assert len(manager.futures) == 0 and manager.sweep() == 1
    assert values(original_of(manager)) == HELD


def test_a_copy_in_a_failed_directory_continues_when_the_directory_works_again() -> None:
    fs = MemoryFileSystem()
    manager = begun(fs, 5)
    manager.directories[1].state.fail("a test pulled the plug")
    manager.futures.drop("t", 0)
    assert len(manager.futures) == 0
    manager.close()
    manager = opened(fs.after_kill())
    assert copy_of(manager).log_end_offset == 5


def test_a_copy_of_a_topic_with_a_long_name_is_found_again() -> None:
    """Its directory's name must not become too long, nor lose the partition."""
    for name in ("t-0", "x" * 230 + "-12", "x" * 244 + "-0"):
        found = directory_names.future(name, "0" * 32)
        assert len(found) <= directory_names.MAX_NAME_BYTES
        topic, _, partition = name.rpartition("-")
        assert directory_names.original_of(found) == (topic, int(partition))


# --- without an original ------------------------------------------------------------------------


def test_a_copy_without_an_original_becomes_the_partitions_log() -> None:
    """It may be all that is left: the disk with the original was lost."""
    fs = MemoryFileSystem()
    manager = begun(fs, 5)
    manager.close()
    manager = opened(fs.after_kill(), ("b", "c"))
    assert len(manager.futures) == 0 and len(manager) == 0
    assert [each.metadata.name for each in manager.stray_logs] == ["t-0"]
    found = manager.get_or_create("t", 0, TOPIC_ID, CONFIG)
    found.load()
    assert values(found) == {number: HELD[number] for number in range(5)}


def test_a_copy_waits_for_an_original_that_may_be_in_a_failed_directory() -> None:
    fs = MemoryFileSystem()
    begun(fs, 5).close()
    fs = fs.after_kill()
    first = fs.root.names["a"]
    fs.root.names["a"] = type(fs.root.names["a"].names["meta.properties"])()  # type: ignore[union-attr,call-arg]
    manager = opened(fs)
    assert not manager.directories[0].is_online
    assert len(manager.stray_logs) == len(manager.futures) == 0
    manager.close()
    fs = fs.after_kill()
    fs.root.names["a"] = first
    assert copy_of(opened(fs)).log_end_offset == 5


# --- taking over --------------------------------------------------------------------------------


def moved(fs: MemoryFileSystem) -> int:
    """Moves a log; returns how many operations its last step took."""
    manager = begun(fs)
    copy_of(manager).flush()
    before = fs.operations
    assert values(manager.finish_move(original_of(manager))) == HELD
    return fs.operations - before


def test_a_crash_at_any_point_of_taking_over_leaves_the_partition_once_and_whole() -> None:
    steps = moved(MemoryFileSystem())
    ends = set()
    for step in range(1, steps + 1):
        for crash in range(CRASHES):
            fs = MemoryFileSystem()
            manager = begun(fs)
            copy_of(manager).flush()
            fs.power_fails_at = fs.operations + step
            with pytest.raises(PowerLoss):
                manager.finish_move(original_of(manager))
            fs = fs.after_kill() if crash == 0 else fs.after_power_loss(Random(crash))
            manager = opened(fs)
            assert len(manager) == 1 and values(original_of(manager)) == HELD
            ends.add(f"{original_of(manager).directory.path} {len(manager.futures)}")
            if len(manager.futures):
                truncate_copy(copy_of(manager), original_of(manager))
                fill_copy(original_of(manager), copy_of(manager))
                manager.finish_move(original_of(manager))
            append(original_of(manager), batch(b"8"))
            manager.close()
            manager = opened(fs.after_kill())
            manager.sweep()
            assert values(original_of(manager)) == HELD | {8: b"8"}
            assert directories_in(fs, "a") == [] and directories_in(fs, "b") == ["t-0"]
            assert not [each for each in fs.list_dir("b") if each.name == MOVED_LOGS]
    assert ends == {"a 1", "b 0"}


def test_a_crash_while_a_start_removes_the_original_loses_nothing() -> None:
    fs = MemoryFileSystem()
    both_have_it(fs)
    for step in range(1, 60):
        again = fs.after_power_loss(None)
        again.power_fails_at = step
        try:
            opened(again)
        except PowerLoss:
            for crash in range(CRASHES):
                after = again.after_power_loss(Random(crash)) if crash else again.after_kill()
                assert values(original_of(opened(after))) == HELD
        else:
            return
    raise AssertionError("it never ended")


def both_have_it(fs: MemoryFileSystem) -> None:
    """A crash has come between the two renames of a move from `a` to `b`."""
    manager = begun(fs)

    def fail(*_: object) -> bool:
        raise PowerLoss

    manager.delete = fail  # type: ignore[method-assign,assignment]
    with pytest.raises(PowerLoss):
        manager.finish_move(original_of(manager))
    assert directories_in(fs, "a") == directories_in(fs, "b") == ["t-0"]


@pytest.mark.parametrize("kind", [errno.EIO, errno.ENOSPC])
def test_a_disk_error_at_any_point_of_taking_over_loses_nothing(kind: int) -> None:
    """Whichever of the two logs goes on then, it is found by the next start with what it took."""
    steps = moved(MemoryFileSystem())
    for step in range(1, steps + 1):
        for lasts in (False, True):
            fs = MemoryFileSystem()
            manager = begun(fs)
            copy_of(manager).flush()
            fs.fault_at, fs.fault_errno, fs.fault_lasts = fs.operations + step, kind, lasts
            current = original = original_of(manager)
            try:
                current = manager.finish_move(original)
            except StorageError:
                assert manager.futures.get("t", 0) is None
            fs.fault_at = None
            held = dict(HELD)
            if current.failure is None:
                append(current, batch(b"8"))
                held[8] = b"8"
            manager = opened(fs.after_kill())
            assert values(original_of(manager)) == held, (step, lasts)


def test_the_later_of_two_moves_wins_when_a_failed_directory_returns() -> None:
    """`a` failed while its log moved to `b`, which then moved to `c`."""
    fs = MemoryFileSystem()
    dirs = ("a", "b", "c")
    manager = opened(fs, dirs)
    log = manager.get_or_create("t", 0, TOPIC_ID, CONFIG)
    append(log, batch(b"0"))
    manager.futures.create_copy(log, manager.directories[1], TOPIC_ID)
    fill_copy(log, copy_of(manager))
    fs.fault_errno, fs.fault_lasts, fs.fault_at = errno.EIO, True, None
    real = fs.rename

    def rename(source: str, target: str) -> None:
        if source == "a/t-0":
            raise OSError(errno.EIO, "the disk is gone")
        real(source, target)

    fs.rename = rename  # type: ignore[method-assign]
    second = manager.finish_move(log)
    assert not manager.directories[0].is_online
    append(second, batch(b"1"))
    manager.futures.create_copy(second, manager.directories[2], TOPIC_ID)
    fill_copy(second, copy_of(manager))
    append(manager.finish_move(second), batch(b"2"))
    assert directories_in(fs, "a") == ["t-0"]
    fs = fs.after_kill()
    manager = opened(fs, dirs)
    assert values(original_of(manager)) == {0: b"0", 1: b"1", 2: b"2"}
    manager.sweep()
    assert [directories_in(fs, each) for each in dirs] == [[], [], ["t-0"]]


def test_without_a_note_the_operator_decides_which_log_is_current() -> None:
    assert current_directory({"a": 0, "b": 0}) is current_directory({"a": 2, "b": 2}) is None
    assert current_directory({"a": 1, "b": 2}) == "b"
    fs = MemoryFileSystem()
    both_have_it(fs)
    file_in(fs, f"b/{MOVED_LOGS}")[:] = b"torn"
    fs = fs.after_kill()
    with pytest.raises(DiskError, match="move one of them"):
        opened(fs)
    assert directories_in(fs, "a") == directories_in(fs, "b") == ["t-0"]


def test_the_old_log_is_kept_if_the_current_one_does_not_open() -> None:
    fs = MemoryFileSystem()
    both_have_it(fs)
    for entry in fs.list_dir("b/t-0"):
        if entry.name.endswith(".log"):
            file_in(fs, f"b/t-0/{entry.name}")[20:40] = bytes(20)
    fs = fs.after_kill()
    with pytest.raises(DiskError, match="move one of them"):
        opened(fs)
    assert directories_in(fs, "a") == directories_in(fs, "b") == ["t-0"]


def test_the_cleaner_checkpoint_moves_with_the_log() -> None:
    manager = begun(MemoryFileSystem())
    manager.save_cleaner_offset(original_of(manager), 5)
    assert manager.cleaner_offset(manager.finish_move(original_of(manager))) == 5


def test_notes_of_finished_moves_are_removed_at_the_next_start() -> None:
    fs = MemoryFileSystem()
    filled(fs).close()
    write_note(fs, "a", "t-0", 4)
    opened(fs.after_kill())
    assert not [each for each in fs.list_dir("a") if each.name == MOVED_LOGS]
