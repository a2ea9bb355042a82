"""Stray logs: not loaded, not lost, and deleted after a time."""

import pytest

from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import StaleMetadata
from headrace.storage.files.filesystem import write_file
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.cleaning import COMPACTED, LogCleaner
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

CONFIG = LogConfig()
LONG_NAME = "t" * 245
DAY_MS = 86_400_000


def written(manager: LogManager, topic: str = "t") -> Log:
    log = manager.get_or_create(topic, 0, TOPIC_ID, CONFIG)
    for value in (b"a", b"b", b"c"):
        append(log, batch(value))
    log.delete_before(1)
    return log


@pytest.mark.parametrize("topic", ["t", LONG_NAME], ids=["a name", "a name that must be cut"])
@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
def test_a_stray_log_is_restored_unchanged(topic: str, restarted: bool) -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    written(manager, topic)
    stray = manager.make_stray(topic, 0)
    assert stray is not None
    assert manager.get(topic, 0) is None
    if restarted:
        manager.close()
        manager = open_manager(fs.after_power_loss(None))
        assert len(manager) == 0
        assert [each.path for each in manager.stray_logs] == [stray.path]
        assert manager.unknown_directories == []
    log = manager.get_or_create(topic, 0, TOPIC_ID, CONFIG)
    log.load()
    assert (log.log_start_offset, values(log)) == (1, {1: b"b", 2: b"c"})
    assert append(log, batch(b"d")).first_offset == 3
    assert len(manager.stray_logs) == 0


def test_a_new_topic_of_the_same_name_begins_empty() -> None:
    manager = open_manager(MemoryFileSystem())
    written(manager)
    manager.make_stray("t", 0)
    assert manager.get_or_create("t", 0, b"\7" * 16, CONFIG).log_end_offset == 0
    assert len(manager.stray_logs) == 1


def test_stray_logs_expire_also_after_a_restart() -> None:
    fs, clock = MemoryFileSystem(), ManualClock()
    manager = open_manager(fs, clock=clock)
    written(manager)
    manager.make_stray("t", 0)
    clock.now_ms += DAY_MS - 1
    assert manager.expire_strays(DAY_MS) == 0
    manager.close()
    manager = open_manager(fs.after_kill(), clock=clock)
    clock.now_ms += 1
    assert manager.expire_strays(-1) == 0
    assert manager.expire_strays(DAY_MS) == 1
    assert manager.sweep() == 1
    assert len(manager.stray_logs) == 0


def test_a_stray_log_that_was_removed_by_hand_is_forgotten() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    written(manager)
    stray = manager.make_stray("t", 0)
    assert stray is not None
    fs.rename(stray.path, "data/elsewhere")
    assert manager.expire_strays(0) == 1
    assert len(manager.stray_logs) == 0


def test_a_stray_log_without_a_readable_note_is_left_alone() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    written(manager)
    stray = manager.make_stray("t", 0)
    assert stray is not None
    manager.close()
    write_file(fs, f"{stray.path}/stray.metadata", b"version: 0", sync=False)
    fs.mkdir("data/t-1.0123456789-stray")
    manager = open_manager(fs.after_kill())
    assert set(manager.unknown_directories) == {stray.path, "data/t-1.0123456789-stray"}
    assert manager.expire_strays(0) == 0


def test_directories_that_have_seen_later_metadata_are_not_opened() -> None:
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    manager.save_metadata_version(7)
    cluster_id = manager.cluster_id
    manager.close()

    def opened(version: int, cluster: str | None = cluster_id) -> LogManager:
        again = LogManager(
            ["data"],
            fs,
            ManualClock(),
            new_id=lambda: bytes(16),
            cluster_id=cluster,
            metadata_version=version,
        )
        again.open()
        again.close()
        return again

    with pytest.raises(StaleMetadata, match="data/metadata-version"):
        opened(6)
    assert not opened(7).accepts_any_metadata
    write_file(fs, "data/metadata-version", b"any\n", sync=False)
    assert opened(6).accepts_any_metadata


def test_a_restored_stray_log_that_was_compacted_has_no_holes() -> None:
    """Nobody knows any more that it was: its gaps are taken for what they are all the same."""
    fs = MemoryFileSystem()
    manager, log = open_log(fs, COMPACTED)
    for number in range(40):
        append(log, batch(b"v" * 20, key=b"%d" % (number if number % 7 == 1 else 100)))
    log.flush()
    LogCleaner(log).run(NOW_MS)
    manager.save_cleaner_offset(log, log.log_end_offset)
    kept = values(log)
    manager.make_stray("t", 0)
    manager.save_cleaner_offset(manager.get_or_create("u", 0, b"\7" * 16, COMPACTED), 0)
    manager.get_or_create("t", 0, TOPIC_ID, COMPACTED).load()
    manager.checkpoint()
    _, log = open_log(fs.after_kill(), CONFIG)
    assert not log.is_damaged
    assert values(log) == kept
