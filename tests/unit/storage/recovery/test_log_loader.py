"""Opening after an unclean stop, and after damage."""

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.storage.errors import LogCorrupt
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import BatchOrigin
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.memory_log import (
    append,
    batch,
    file_in,
    marker,
    open_log,
    open_manager,
    values,
)

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=150)
LAST = "data/t-0/{:020d}.log"


def fill(log: Log, count: int = 12) -> dict[int, bytes]:
    for number in range(count):
        append(
            log,
            batch(b"%d" % number * 30, producer_id=1, sequence=number),
            leader_epoch=number // 5,
        )
    return values(log)


def reopen(fs: MemoryFileSystem) -> Log:
    return open_log(fs.after_kill(), SMALL)[1]


def bases(fs: MemoryFileSystem) -> list[int]:
    return sorted(int(e.name[:20]) for e in fs.list_dir("data/t-0") if e.name.endswith(".log"))


def test_a_torn_end_is_truncated_at_the_first_bad_batch() -> None:
    fs = MemoryFileSystem()
    _, log = open_log(fs, SMALL)
    written = fill(log)
    last = file_in(fs, LAST.format(bases(fs)[-1]))
    del last[-5:]
    log = reopen(fs)
    assert log.log_end_offset == 11
    assert values(log) == {offset: v for offset, v in written.items() if offset < 11}
    assert append(log, batch(b"new", producer_id=1, sequence=11)).first_offset == 11


def test_zeros_at_the_end_are_truncated() -> None:
    fs = MemoryFileSystem()
    _, log = open_log(fs, SMALL)
    written = fill(log)
    file_in(fs, LAST.format(bases(fs)[-1])).extend(bytes(5000))
    assert values(reopen(fs)) == written


def test_damage_in_the_middle_ends_the_log_there_and_removes_what_follows() -> None:
    fs = MemoryFileSystem()
    _, log = open_log(fs, SMALL)
    fill(log)
    base = bases(fs)[1]
    file_in(fs, LAST.format(base))[70] ^= 1
    log = reopen(fs)
    assert log.log_end_offset == base
    assert bases(fs)[-1] == base
    assert append(log, batch(b"new", producer_id=1, sequence=base)).first_offset == base


def test_damage_below_the_recovery_point_is_never_truncated() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, SMALL)
    fill(log)
    log.flush()
    manager.checkpoint()
    append(log, batch(b"more", producer_id=1, sequence=12))
    path = LAST.format(bases(fs)[-1])
    file_in(fs, path)[70] ^= 1
    before = bytes(file_in(fs, path))
    for _ in range(2):  # and a restart does not make it better
        manager = open_manager(fs.after_kill(), config=SMALL)
        damaged = manager.get("t", 0)
        assert damaged is not None
        assert isinstance(damaged.failure, LogCorrupt)
        assert damaged.failure.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert "offline" in str(damaged.failure)
        with pytest.raises(LogCorrupt):
            damaged.read(0, max_bytes=100)
        with pytest.raises(LogCorrupt):
            append(damaged, batch(b"x"))
        assert bytes(file_in(fs, path)) == before
        manager.close()


def test_bytes_missing_below_the_recovery_point_take_the_log_offline() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, SMALL)
    fill(log)
    manager.close()
    last = file_in(fs, LAST.format(bases(fs)[-1]))
    whole = bytes(last)
    del last[:]
    manager, log = open_log(fs.after_kill(), SMALL)
    with pytest.raises(LogCorrupt):
        log.load()
    last[:] = whole  # the operator restores the file
    manager.close(clean=False)
    assert len(values(reopen(fs))) == 12


def test_rebuilt_indexes_equal_the_lost_ones() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, SMALL)
    append(log, batch(b"a", producer_id=5, transactional=True))
    append(log, marker(5, commit=False), origin=BatchOrigin.COORDINATOR)
    fill(log)
    manager.close()
    suffixes = (".index", ".timeindex", ".txnindex")
    names = [e.name for e in fs.list_dir("data/t-0") if e.name.endswith(suffixes)]
    assert {name[20:] for name in names} == set(suffixes)
    original = {name: bytes(file_in(fs, f"data/t-0/{name}")) for name in names}
    for name in names:
        fs.remove(f"data/t-0/{name}")
    manager, log = open_log(fs.after_kill(), SMALL)
    log.load()
    manager.close()
    assert {name: bytes(file_in(fs, f"data/t-0/{name}")) for name in names} == original


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["cut", "zeros", "noise", "empty", "huge"])
def test_damaged_indexes_are_detected_and_rebuilt(suffix: str, damage: str) -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, SMALL)
    written = fill(log, 40)
    manager.close()
    for base in bases(fs):
        index = file_in(fs, f"data/t-0/{base:020d}{suffix}")
        if damage == "cut":
            del index[-3:]
        elif damage == "zeros":
            index[:] = bytes(len(index))
        elif damage == "noise":
            index[:] = b"\xa5" * len(index)
        elif damage == "empty":
            index.clear()
        else:
            index.extend(bytes(10 << 10))
    log = reopen(fs)
    assert values(log, max_bytes=1) == written
    for offset in range(log.log_end_offset):
        assert log.read(offset, max_bytes=1).first_offset == offset


def test_damaged_epochs_and_snapshots_are_rebuilt_from_the_log() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, SMALL)
    fill(log)
    epochs = [log.epoch_at(offset) for offset in range(12)]
    manager.close()
    file_in(fs, "data/t-0/leader-epoch-checkpoint")[:] = b"0\n9\n"
    for entry in fs.list_dir("data/t-0"):
        if entry.name.endswith(".snapshot"):
            file_in(fs, f"data/t-0/{entry.name}")[3] ^= 1
    log = reopen(fs)
    assert [log.epoch_at(offset) for offset in range(12)] == epochs
    for sequence in range(7, 12):
        assert append(log, batch(b"%d" % sequence * 30, producer_id=1, sequence=sequence)).duplicate


def test_damaged_checkpoints_only_cost_a_scan() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, SMALL)
    written = fill(log)
    manager.close()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        file_in(fs, f"data/{name}")[:] = b"0\n1\nnonsense"
    assert values(reopen(fs)) == written


def test_an_empty_directory_starts_at_the_checkpointed_start() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, SMALL)
    fill(log)
    log.delete_before(9)
    manager.close()
    fs.remove("data/headrace-segments")  # as in a directory of Kafka's
    for entry in list(fs.list_dir("data/t-0")):
        fs.remove(f"data/t-0/{entry.name}")
    log = reopen(fs)
    assert append(log, batch(b"x")).first_offset >= 9


def test_leftovers_of_deletion_are_removed() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, SMALL)
    written = fill(log)
    manager.close()
    fs.open("data/t-0/00000000000000000000.log.deleted", create=True)
    fs.open("data/t-0/00000000000000000007.index", create=True)  # no log beside it
    log = reopen(fs)
    assert values(log) == written
    names = {entry.name for entry in fs.list_dir("data/t-0")}
    assert not names & {"00000000000000000000.log.deleted", "00000000000000000007.index"}


def test_a_clean_stop_needs_no_recovery_and_loses_the_marker_at_once() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, SMALL)
    written = fill(log)
    manager.close()
    assert ".kafka_cleanshutdown" in {entry.name for entry in fs.list_dir("data")}
    manager, log = open_log(fs.after_power_loss(None), SMALL)
    fs_after = manager.directories[0].state.files.fs
    assert ".kafka_cleanshutdown" not in {entry.name for entry in fs_after.list_dir("data")}
    assert (log.log_end_offset, log.is_loaded) == (12, False)
    assert values(log) == written
