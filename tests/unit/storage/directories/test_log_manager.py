"""All the logs of a broker: directories, names, locks, descriptors."""

import errno
import os

import pytest

from headrace.protocol.types import encode_uuid
from headrace.storage.directories import directory_names
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import (
    DiskError,
    DiskFull,
    InconsistentLogDir,
    InconsistentTopicId,
    LogClosed,
    LogDirFailed,
    LogDirLocked,
)
from headrace.storage.state.checkpoint_file import CorruptCheckpoint, read_offsets, write_offsets
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.partition_metadata import decode_topic_id
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.memory_log import (
    TOPIC_ID,
    ManualClock,
    append,
    batch,
    open_manager,
    values,
)

CONFIG = LogConfig()


def names_in(fs: MemoryFileSystem, path: str) -> set[str]:
    return {entry.name for entry in fs.list_dir(path)}


def test_a_new_partition_goes_to_the_directory_with_the_fewest() -> None:
    manager = open_manager(MemoryFileSystem(), dirs=("one", "two", "three"))
    for partition in range(9):
        manager.get_or_create("t", partition, TOPIC_ID, CONFIG)
    assert [len(directory.logs) for directory in manager.directories] == [3, 3, 3]


class Unreadable(MemoryFileSystem):
    """The broker's user may not read the directory of one partition."""

    unreadable = "one/t-0/"

    def open(self, path: str, *, create: bool = False) -> int:
        if path.startswith(self.unreadable):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return super().open(path, create=create)


def test_an_unreadable_partition_takes_its_log_directory_offline_not_the_broker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs = Unreadable()
    fs.unreadable = "nothing"
    manager = open_manager(fs, dirs=("one", "two"))
    for partition in range(4):
        append(manager.get_or_create("t", partition, TOPIC_ID, CONFIG), batch(b"x"))
    manager.close()
    fs.unreadable = "one/t-0/"
    manager = open_manager(fs, dirs=("one", "two"))
    assert [directory.is_online for directory in manager.directories] == [False, True]
    assert "one/t-0/partition.metadata" in caplog.records[-1].reason
    assert os.strerror(errno.EACCES) in str(manager.directories[0].state.failure)
    kept = manager.get("t", 1)
    assert kept is not None and values(kept) == {0: b"x"}
    with pytest.raises(LogDirFailed):
        manager.get_or_create("t", 0, TOPIC_ID, CONFIG)


def test_a_broker_whose_last_log_directory_is_unreadable_does_not_start() -> None:
    fs = Unreadable()
    fs.unreadable = "nothing"
    manager = open_manager(fs, dirs=("one",))
    append(manager.get_or_create("t", 0, TOPIC_ID, CONFIG), batch(b"x"))
    manager.close()
    fs.unreadable = "one/t-0/"
    with pytest.raises(LogDirFailed, match="Permission denied"):
        open_manager(fs, dirs=("one",))


def test_a_partition_has_one_log() -> None:
    manager = open_manager(MemoryFileSystem())
    log = manager.get_or_create("t", 0, TOPIC_ID, CONFIG)
    assert manager.get_or_create("t", 0, TOPIC_ID, CONFIG) is log is manager.get("t", 0)
    assert manager.get("t", 1) is None
    assert [each.name for each in manager] == ["t-0"]


def test_another_topic_of_the_same_name_is_refused() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    append(manager.get_or_create("t", 0, TOPIC_ID, CONFIG), batch(b"x"))
    manager.close()
    manager = open_manager(fs.after_kill())
    with pytest.raises(InconsistentTopicId):
        manager.get_or_create("t", 0, b"\7" * 16, CONFIG)
    assert manager.get_or_create("t", 0, TOPIC_ID, CONFIG).log_end_offset == 1


def test_an_empty_partition_takes_the_id_it_is_given_and_keeps_it() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    manager.get_or_create("t", 0, TOPIC_ID, CONFIG)
    manager.close()
    fs = fs.after_kill()
    manager = open_manager(fs)
    log = manager.get_or_create("t", 0, TOPIC_ID, CONFIG)
    append(log, batch(b"x"))
    manager.close()
    assert encode_uuid(TOPIC_ID).encode() in read(fs, "data/t-0/partition.metadata")
    assert [each.topic_id for each in open_manager(fs.after_kill())] == [TOPIC_ID]


def read(fs: MemoryFileSystem, path: str) -> bytes:
    fd = fs.open(path)
    return fs.pread(fd, 1 << 20, 0)


def test_topic_ids_are_written_as_kafka_writes_them() -> None:
    text = "AAECAwQFBgcICQoLDA0ODw"
    assert encode_uuid(TOPIC_ID) == text
    assert decode_topic_id(text) == TOPIC_ID
    with pytest.raises(ValueError, match="16"):
        decode_topic_id("AAAA")


def test_a_deleted_log_is_renamed_closed_and_swept_later() -> None:
    fs, clock = MemoryFileSystem(), ManualClock()
    manager = open_manager(fs, clock=clock)
    log = manager.get_or_create("t", 0, TOPIC_ID, LogConfig(file_delete_delay_ms=1000))
    append(log, batch(b"x"))
    assert manager.delete("t", 0)
    assert not manager.delete("t", 0)
    with pytest.raises(LogClosed):
        append(log, batch(b"y"))
    (renamed,) = [name for name in names_in(fs, "data") if name.endswith("-delete")]
    assert renamed.startswith("t-0.")
    assert manager.sweep() == 0
    clock.now_ms += 1000
    assert manager.sweep() == 1
    assert renamed not in names_in(fs, "data")


def test_deletions_that_a_crash_interrupted_are_completed_by_the_next_sweep() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    append(manager.get_or_create("t", 0, TOPIC_ID, CONFIG), batch(b"x"))
    manager.delete("t", 0)
    manager = open_manager(fs.after_kill())
    assert manager.sweep() == 1
    assert len(manager) == 0


def test_a_recreated_topic_starts_at_zero_whatever_the_checkpoints_said() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    log = manager.get_or_create("t", 0, TOPIC_ID, CONFIG)
    for _ in range(5):
        append(log, batch(b"x"))
    log.delete_before(3)
    log.flush()
    manager.checkpoint()
    manager.delete("t", 0)
    log = manager.get_or_create("t", 0, b"\5" * 16, CONFIG)
    assert append(log, batch(b"new")).first_offset == 0
    log.flush()
    for after in (fs.after_power_loss(None), fs.after_kill()):
        manager = open_manager(after)
        again = manager.get("t", 0)
        assert again is not None and again.failure is None
        assert values(again) == {0: b"new"}


def test_unknown_directories_are_reported_and_left_alone() -> None:
    fs = MemoryFileSystem()
    open_manager(fs).close()
    for name in ("lost+found", "t-0.abc-future", "t-1-stray", "t-01", "-3", "t-"):
        fs.mkdir(f"data/{name}")
    manager = open_manager(fs.after_kill())
    assert len(manager.unknown_directories) == 6
    assert len(manager) == 0
    assert "lost+found" in names_in(fs, "data")


def test_an_unfinished_copy_beside_its_original_is_removed() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    append(manager.get_or_create("t", 0, TOPIC_ID, CONFIG), batch(b"x"))
    manager.close()
    fs.mkdir("data/t-0.0123-future")
    fs.mkdir("data/t-1.0123-future")
    manager = open_manager(fs.after_kill())
    assert manager.sweep() == 1
    assert manager.unknown_directories == ["data/t-1.0123-future"]


def test_a_directory_in_use_is_refused() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    with pytest.raises(LogDirLocked):
        open_manager(fs)
    manager.close()
    open_manager(fs)


def test_a_directory_of_another_node_or_cluster_is_refused() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    manager.close()
    for wrong in ({"node_id": 7}, {"cluster_id": "other"}):
        other = LogManager(
            ["data"],
            fs,
            ManualClock(),
            new_id=lambda: bytes(16),
            **wrong,  # type: ignore[arg-type]
        )
        with pytest.raises(InconsistentLogDir):
            other.open()
    assert open_manager(fs).cluster_id == manager.cluster_id


def test_the_same_partition_in_two_directories_is_an_error() -> None:
    fs = MemoryFileSystem()
    open_manager(fs, dirs=("one", "two")).close()
    fs.mkdir("one/t-0")
    fs.mkdir("two/t-0")
    with pytest.raises(DiskError, match="move one"):
        open_manager(fs.after_kill(), dirs=("one", "two"))


def test_few_descriptors_serve_many_logs() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs, max_open_files=8)
    logs = [
        manager.get_or_create("t", n, TOPIC_ID, LogConfig(segment_bytes=300)) for n in range(40)
    ]
    for number in range(6):
        for log in logs:
            append(log, batch(b"%d" % number * 30))
            assert manager.open_files <= 8
    for log in logs:
        assert list(values(log).values()) == [b"%d" % number * 30 for number in range(6)]
        log.flush()
    manager.close()
    manager = open_manager(fs.after_kill(), max_open_files=8)
    assert all(len(values(log)) == 6 for log in manager)


def test_many_logs_close_with_one_sync_and_survive_power_loss() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    for partition in range(100):
        append(manager.get_or_create("t", partition, TOPIC_ID, CONFIG), batch(b"%d" % partition))
    manager.close()
    manager = open_manager(fs.after_power_loss(None))
    assert len(manager) == 100
    for log in manager:
        assert not log.is_loaded
        assert values(log) == {0: b"%d" % log.partition}
        assert log.latest_epoch == 0


def test_flushes_are_due_by_time_and_for_closed_segments() -> None:
    manager = open_manager(MemoryFileSystem())
    log = manager.get_or_create("t", 0, TOPIC_ID, LogConfig(flush_ms=100))
    append(log, batch(b"x"), now_ms=1000 + 1_700_000_000_000)
    now = 1000 + 1_700_000_000_000
    assert manager.logs_due_for_flush(now + 99) == []
    assert manager.logs_due_for_flush(now + 100) == [log]
    assert manager.logs_due_for_flush(now - 86_400_000) == [log], (
        "the clock was set back: who knows"
    )
    log.flush()
    assert manager.logs_due_for_flush(now + 100) == []
    other = manager.get_or_create("t", 1, TOPIC_ID, CONFIG)
    append(other, batch(b"x"))
    assert manager.logs_due_for_flush(now) == []
    other.roll()
    assert manager.logs_due_for_flush(now) == [other]
    other.flush()
    assert other.recovery_point == 1


def test_high_watermarks_are_kept() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    append(manager.get_or_create("t", 0, TOPIC_ID, CONFIG), batch(b"x", b"y"))
    manager.close(high_watermarks={"t-0": 1, "gone-3": 9})
    manager = open_manager(fs.after_kill())
    assert manager.high_watermark("t", 0) == 1
    assert manager.high_watermark("gone", 3) is None


def test_checkpoints_round_trip_and_damage_is_detected() -> None:
    fs = MemoryFileSystem()
    write_offsets(fs, "c", {"a-b-0": 5, "x-12": 0})
    assert read(fs, "c") == b"0\n2\na-b 0 5\nx 12 0\n"
    assert read_offsets(fs, "c") == {"a-b-0": 5, "x-12": 0}
    assert read_offsets(fs, "none") == {}
    for text in (b"1\n0\n", b"0\n1\n", b"0\nx\n", b"0\n1\na b\n", b"0\n1\na 0 x\n", b"\xff\xfe"):
        fd = fs.open("bad", create=True)
        fs.truncate(fd, 0)
        fs.pwrite(fd, text, 0)
        with pytest.raises(CorruptCheckpoint):
            read_offsets(fs, "bad")


def test_long_names_still_fit_when_deleted() -> None:
    name = "t" * 249 + "-0"
    renamed = directory_names.deleted(name, "0" * 32)
    assert len(renamed) == 255 and renamed.endswith("-delete")
    assert directory_names.parse(name) == ("t" * 249, 0)
    assert directory_names.parse(renamed) is None


def test_a_checkpoint_without_watermarks_claims_no_more_than_the_last_one() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    append(manager.get_or_create("t", 0, TOPIC_ID, CONFIG), batch(b"x", b"y", b"z"))
    manager.checkpoint({"t-0": 1})
    manager.checkpoint()
    manager.checkpoint_high_watermarks({"t-0": 2, "gone-0": 7})
    manager.checkpoint()
    written = read_offsets(fs, f"{manager.directories[0].path}/replication-offset-checkpoint")
    assert written == {"t-0": 2}


class OneIsFull(MemoryFileSystem):
    """Two disks, of which one has no room for anything new."""

    full = "nothing"

    def open(self, path: str, *, create: bool = False) -> int:
        if create and path.startswith(self.full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().open(path, create=create)


def test_a_full_directory_does_not_prevent_checkpoints_in_another() -> None:
    fs = OneIsFull()
    manager = open_manager(fs, dirs=("a", "b"))
    for partition in range(2):
        append(manager.get_or_create("t", partition, TOPIC_ID, LogConfig()), batch(b"x"))
    fs.full = "a/"
    for write in (
        lambda: manager.checkpoint({"t-0": 1, "t-1": 1}),
        lambda: manager.checkpoint_high_watermarks({"t-0": 1, "t-1": 1}),
        lambda: manager.save_metadata_version(7),
    ):
        with pytest.raises(DiskFull):
            write()
    names = {entry.name for entry in fs.list_dir("b")}
    assert {"recovery-point-offset-checkpoint", "replication-offset-checkpoint"} <= names
    assert "metadata-version" in names


def test_a_copy_on_a_full_disk_leaves_no_files() -> None:
    fs = OneIsFull()
    manager = open_manager(fs, dirs=("a", "b"))
    log = manager.get_or_create("t", 0, TOPIC_ID, LogConfig())
    append(log, batch(b"x"))
    source, target = manager.directories
    assert log.directory is source.state
    fs.full = "b/"
    with pytest.raises(DiskFull):
        manager.futures.create_copy(log, target, TOPIC_ID)
    manager.sweep()
    assert not [entry.name for entry in fs.list_dir("b") if entry.is_dir]
