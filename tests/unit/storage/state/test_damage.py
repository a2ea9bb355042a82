"""Changed bytes and short or missing files are detected before their records are served."""

from contextlib import suppress
from random import Random

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.records.batch_header import headers
from headrace.records.record import iter_records
from headrace.storage.cleaning.segment_reader import Uncleanable
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import LogCorrupt, RecordsDamaged
from headrace.storage.log.log import Log
from headrace.storage.state.damage import Checks
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import BatchOrigin
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.cleaning import COMPACTED, LogCleaner
from support.storage.memory_log import (
    NOW_MS,
    append,
    batch,
    file_in,
    marker,
    open_log,
    values,
)

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=150, file_delete_delay_ms=0)
COUNT = 16
Served = dict[int, tuple[bytes | None, int]]


def filled(fs: MemoryFileSystem, per_batch: int = 1) -> tuple[LogManager, Log]:
    manager, log = open_log(fs, SMALL)
    for number in range(COUNT):
        values = [b"%02d" % number * 30, b"b", b"c"][:per_batch]
        append(log, batch(*values), leader_epoch=number // 5)
    return manager, log


def bases(fs: MemoryFileSystem) -> list[int]:
    return sorted(int(e.name[:20]) for e in fs.list_dir("data/t-0") if e.name.endswith(".log"))


def path(base: int, suffix: str = ".log") -> str:
    return f"data/t-0/{base:020d}{suffix}"


def served(log: Log, max_bytes: int = 1) -> tuple[Served, list[RecordsDamaged]]:
    """What reads at every offset give: each record with its leader epoch, and what is refused."""
    found: Served = {}
    refused = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            data, _ = log.read(offset, max_bytes=max_bytes)
        except RecordsDamaged as error:
            refused.append(error)
            continue
        first = True
        for pos, header in headers(data, partial_tail=True):
            assert not first or header.last_offset >= offset
            assert not first or header.base_offset <= offset, f"{offset} was passed over"
            first = False
            for record in iter_records(data[pos : pos + header.size], max_bytes=1 << 20):
                found[record.offset] = (record.value, header.partition_leader_epoch)
    return found, refused


@pytest.mark.parametrize(("max_bytes", "per_batch"), [(1, 1), (400, 1), (400, 3)])
def test_a_flipped_bit_in_a_closed_segment_is_detected(max_bytes: int, per_batch: int) -> None:
    """Whatever bit it is: what is served is what was written, the rest is refused by name."""
    fs = MemoryFileSystem()
    _, log = filled(fs, per_batch)
    written, _ = served(log)
    assert len(written) == COUNT * per_batch
    closed = bases(fs)[1]
    data = file_in(fs, path(closed))
    in_headers = {pos + at for pos, _ in list(headers(bytes(data)))[1:2] for at in range(27)}
    for place in sorted(in_headers | set(range(0, len(data), 5))):
        bits = range(8) if place in in_headers else range(place % 8, place % 8 + 1)
        for bit in bits:
            data[place] ^= 1 << bit
            found, refused = served(log, max_bytes)
            data[place] ^= 1 << bit
            assert refused, (place, bit)
            assert found.items() <= written.items(), (place, bit)
            assert len(found) >= (COUNT - 4) * per_batch, (place, bit)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_flipped_bit_in_an_index_does_not_change_a_read(suffix: str) -> None:
    fs = MemoryFileSystem()
    config = LogConfig(segment_bytes=900, index_interval_bytes=100)
    manager, log = open_log(fs, config)
    for number in range(COUNT):
        append(log, batch(b"%02d" % number * 30, timestamp=NOW_MS + 10 * number))
    manager.close()
    _, log = open_log(fs, config)
    times = [NOW_MS + 5 * number for number in range(2 * COUNT + 2)]

    def answers() -> object:
        for each in log.local.segments.items:
            each._max_timestamp = -2  # as if it had never been looked at
        return served(log), [log.offset_for_timestamp(each) for each in times]

    expected = answers()
    data = file_in(fs, path(bases(fs)[1], suffix))
    assert len(data) > 8
    for place in range(len(data)):
        for bit in range(8):
            data[place] ^= 1 << bit
            assert answers() == expected, (place, bit)
            data[place] ^= 1 << bit
    del data[-5:]
    assert answers() == expected


def timed(fs: MemoryFileSystem) -> Log:
    """Opened again, so that nothing but the files tells the times."""
    config = LogConfig(segment_bytes=600, index_interval_bytes=100)
    manager, log = open_log(fs, config)
    for number in range(COUNT):
        append(log, batch(b"%02d" % number * 30, timestamp=NOW_MS + 10 * number))
    manager.close()
    log = open_log(fs, config)[1]
    log.load()
    return log


def by_time(log: Log) -> dict[int, object]:
    """What each time finds, -1 for the latest; nothing where that is refused."""
    for each in log.local.segments.items:
        each._max_timestamp = -2  # as if it had never been looked at
    found: dict[int, object] = {}
    for time in range(NOW_MS, NOW_MS + 10 * COUNT + 10, 5):
        with suppress(RecordsDamaged):
            found[time] = log.offset_for_timestamp(time)
    with suppress(RecordsDamaged):
        found[-1] = log.max_timestamp_offset()
    return found


@pytest.mark.slow
def test_a_flipped_bit_in_a_closed_segment_does_not_change_a_time_lookup() -> None:
    """The answer is what it was, or that it is not known. Before the segment it is known."""
    fs = MemoryFileSystem()
    log = timed(fs)
    expected = by_time(log)
    assert len(expected) == 2 * COUNT + 3
    closed = bases(fs)[1]
    data = file_in(fs, path(closed))
    before = set(range(NOW_MS, NOW_MS + 10 * closed - 9, 5))
    refused = 0
    for place in range(len(data)):
        bits = range(8) if place < 61 else range(place % 8, place % 8 + 1)
        for bit in bits:
            data[place] ^= 1 << bit
            found = by_time(log)
            data[place] ^= 1 << bit
            assert found.items() <= expected.items(), (place, bit)
            assert before <= found.keys(), (place, bit)
            refused += len(found) < len(expected)
    assert refused > len(data)


@pytest.mark.parametrize("which", [0, 1])
def test_a_time_lookup_past_a_missing_segment_raises(which: int) -> None:
    fs = MemoryFileSystem()
    manager, log = filled(fs)
    manager.close()
    gone = bases(fs)[which]
    fs.remove(path(gone))
    _, log = open_log(fs, SMALL)
    if which:
        first = log.offset_for_timestamp(0)
        assert first is not None
        assert first.offset == 0
    else:
        with pytest.raises(RecordsDamaged):
            log.offset_for_timestamp(0)
    with pytest.raises(RecordsDamaged):
        log.offset_for_timestamp(NOW_MS + 1)
    with pytest.raises(RecordsDamaged):
        log.max_timestamp_offset()


def test_a_time_lookup_does_not_skip_a_segment_that_is_deleted_while_in_use() -> None:
    fs = MemoryFileSystem()
    log = timed(fs)
    gone = bases(fs)[1]
    log.local.segments.items[1].close()  # as if many other files were in use
    fs.remove(path(gone))
    for _ in range(2):
        with pytest.raises(RecordsDamaged, match="missing"):
            log.offset_for_timestamp(NOW_MS + 10 * (gone + 1))
    assert log.directory.failure is None


def test_a_damage_error_names_file_position_and_offsets(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()
    _, log = filled(fs)
    closed = bases(fs)[1]
    file_in(fs, path(closed))[100] ^= 1
    for _ in range(3):
        with pytest.raises(RecordsDamaged) as raised:
            log.read(closed, max_bytes=1)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    for part in (path(closed), "byte 0", f"offsets from {closed} to", "continue at offset"):
        assert part in str(raised.value)
    assert len([each for each in caplog.records if each.message == "log is damaged"]) == 1


def test_the_intact_part_of_a_damaged_log_is_readable_and_writable() -> None:
    fs = MemoryFileSystem()
    _, log = filled(fs)
    closed = bases(fs)[1]
    file_in(fs, path(closed))[100] ^= 1
    found, refused = served(log)
    assert set(found) == set(range(COUNT)) - {closed}
    assert len(refused) == 1
    assert append(log, batch(b"more")).first_offset == COUNT
    assert log.failure is None
    assert log.is_damaged


def test_batches_before_the_damage_are_returned_first() -> None:
    fs = MemoryFileSystem()
    _, log = filled(fs)
    closed = bases(fs)[1]
    data = file_in(fs, path(closed))
    (second, _) = list(headers(bytes(data)))[1]
    data[second + 70] ^= 1
    checks = Checks()
    read = log.read(closed, max_bytes=10_000, checks=checks)
    assert len(read.data) == second
    assert checks.ended_early  # the fetch does not wait for more
    with pytest.raises(RecordsDamaged):
        log.read(closed + 1, max_bytes=10_000)


def test_a_read_checks_at_most_the_allowed_number_of_batches() -> None:
    """Tiny batches must not hold up the loop; one at least is returned."""
    _, log = filled(MemoryFileSystem())
    checks = Checks(2)
    assert len(list(headers(log.read(0, max_bytes=10_000, checks=checks).data))) == 2
    assert checks.ended_early
    assert checks.left == 0
    none = log.read(0, max_bytes=10_000, checks=checks, min_one_message=False)
    assert none.data == b""
    assert len(list(headers(log.read(0, max_bytes=10_000, checks=checks).data))) == 1


def test_batches_appended_by_this_process_are_not_checked_again() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs)  # one segment
    append(log, batch(b"first"))
    manager.close()
    _, log = open_log(fs)
    append(log, batch(b"second"))
    checks = Checks()
    log.read(1, max_bytes=10_000, checks=checks)
    assert checks.left == Checks().left
    log.read(0, max_bytes=10_000, checks=checks)
    assert checks.left == Checks().left - 1
    file_in(fs, path(0))[65] ^= 1
    with pytest.raises(RecordsDamaged):
        log.read(0, max_bytes=10_000)
    assert log.read(1, max_bytes=10_000).data


def test_a_closed_segment_that_is_truncated_or_deleted_while_in_use_is_detected() -> None:
    fs = MemoryFileSystem()
    _, log = filled(fs)
    first, second, third = bases(fs)[:3]
    del file_in(fs, path(second))[-10:]
    found, refused = served(log)
    assert set(found) == set(range(COUNT)) - {third - 1}
    log.local.segments.items[0].close()  # as if many other files were in use
    fs.remove(path(first))
    found, refused = served(log)
    assert set(found) == set(range(second, COUNT)) - {third - 1}
    assert "missing" in str(refused[0])
    assert log.directory.failure is None  # the disk is not to blame


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_missing_segment_after_a_clean_stop_is_not_skipped(which: int) -> None:
    fs = MemoryFileSystem()
    manager, log = filled(fs)
    written, _ = served(log)
    manager.close()
    gone, following = bases(fs)[which : which + 2]
    for suffix in (".log", ".index", ".timeindex", ".snapshot"):
        if which or suffix != ".snapshot":
            fs.remove(path(gone, suffix))
    for _ in range(2):  # the second stop remembers as well
        manager, log = open_log(fs, SMALL)
        assert log.log_start_offset == 0 or not log.is_loaded
        found, refused = served(log)
        assert found == {at: each for at, each in written.items() if not gone <= at < following}
        assert len(refused) == following - gone
        manager.close()


def killed(fs: MemoryFileSystem, manager: LogManager, log: Log) -> MemoryFileSystem:
    """What an unclean stop leaves, after all was flushed."""
    log.flush()
    manager.checkpoint()
    return fs.after_kill()


@pytest.mark.parametrize("which", [1, 2])
def test_a_missing_segment_after_an_unclean_stop_is_not_skipped(which: int) -> None:
    """Nobody has listed the segments: their neighbours tell."""
    fs = MemoryFileSystem()
    manager, log = filled(fs)
    written, _ = served(log)
    fs = killed(fs, manager, log)
    gone, following = bases(fs)[which : which + 2]
    for suffix in (".log", ".index", ".timeindex", ".snapshot"):
        fs.remove(path(gone, suffix))
    for _ in range(2):
        manager, log = open_log(fs, SMALL)
        assert log.is_damaged
        found, refused = served(log)
        assert found == {at: each for at, each in written.items() if not gone <= at < following}
        assert len(refused) == following - gone
        fs = killed(fs, manager, log)
    manager.close()  # the list of a clean stop says so as well
    _, log = open_log(fs, SMALL)
    assert len(served(log)[1]) == following - gone


def test_a_shorter_segment_after_an_unclean_stop_is_detected() -> None:
    fs = MemoryFileSystem()
    manager, log = filled(fs)
    written, _ = served(log)
    fs = killed(fs, manager, log)
    short, following = bases(fs)[1:3]
    data = file_in(fs, path(short))
    places = [pos for pos, _ in headers(bytes(data))]
    del data[places[-1] :]
    _, log = open_log(fs, SMALL)
    found, refused = served(log)
    assert found == {at: each for at, each in written.items() if at != following - 1}
    assert len(refused) == 1


def test_retention_and_a_later_start_offset_are_not_taken_for_a_gap_after_an_unclean_stop() -> None:
    fs = MemoryFileSystem()
    manager, log = filled(fs)
    log.truncate_fully_and_start_at(1000)
    for number in range(12):
        append(log, batch(b"%02d" % number * 30))
    log.flush()
    manager.checkpoint()
    log.delete_before(1006)
    assert log.delete_old_segments(NOW_MS)
    expected = values(log)
    fs = fs.after_kill()  # before the start of the log is written down
    manager, log = open_log(fs, SMALL)
    assert expected.items() <= values(log).items()
    assert not log.is_damaged


def test_a_deletion_that_power_loss_undid_in_part_is_not_a_gap() -> None:
    """The second segment's new name was on disk before the first one's."""
    fs = MemoryFileSystem()
    manager, log = filled(fs)
    fs = killed(fs, manager, log)
    second, third = bases(fs)[1:3]
    fs.rename(path(second), path(second, ".log.deleted"))
    for _ in range(2):
        manager, log = open_log(fs, SMALL)
        assert not log.is_damaged
        assert log.log_start_offset == third
        assert values(log).keys() == set(range(third, COUNT))
        manager.checkpoint()
        fs = fs.after_kill()


@pytest.mark.parametrize("is_swept", [False, True])
def test_no_result_of_power_loss_during_retention_is_a_gap(is_swept: bool) -> None:
    fs = MemoryFileSystem()
    manager, log = filled(fs)
    log.flush()
    manager.checkpoint()
    log.delete_before(COUNT - 1)
    assert log.delete_old_segments(NOW_MS) > 2
    if is_swept:
        manager.sweep()
    for seed in range(100):
        _, after = open_log(fs.after_power_loss(Random(seed)), SMALL)
        assert not after.is_damaged, seed
        assert COUNT - 1 in values(after)


def test_compacted_records_are_not_a_gap_after_an_unclean_stop() -> None:
    """Also if the topic is not to be compacted any more."""
    fs = MemoryFileSystem()
    manager, log = open_log(fs, COMPACTED)
    for number in range(40):
        key = b"%d" % (number if number % 7 == 1 else 100)
        append(log, batch(b"v%02d" % number * 10, key=key))
    log.flush()
    LogCleaner(log).run(NOW_MS)
    manager.save_cleaner_offset(log, log.log_end_offset)
    kept = values(log)
    assert len(kept) < 20
    fs = killed(fs, manager, log)
    assert any(base and base - 1 not in kept for base in bases(fs)), "there are gaps"
    for config in (COMPACTED, SMALL):
        manager, log = open_log(fs, config)
        assert not log.is_damaged
        assert values(log) == kept
        fs = killed(fs, manager, log)


def test_a_restored_segment_is_served_again() -> None:
    fs = MemoryFileSystem()
    manager, log = filled(fs)
    written, _ = served(log)
    manager.close()
    gone = bases(fs)[1]
    saved = bytes(file_in(fs, path(gone)))
    fs.remove(path(gone))
    manager, log = open_log(fs, SMALL)
    assert served(log)[1]
    manager.close()
    fs.pwrite(fs.open(path(gone), create=True), saved, 0)
    manager, log = open_log(fs, SMALL)
    assert served(log) == (written, [])
    assert not log.is_damaged


@pytest.mark.parametrize("cut", [10, 200, -1, 600])
def test_a_shorter_closed_segment_after_a_clean_stop_is_detected(cut: int) -> None:
    """Also if it ends between two batches (-1), or holds nothing any more."""
    fs = MemoryFileSystem()
    manager, log = filled(fs)
    written, _ = served(log)
    manager.close()
    short, following = bases(fs)[1:3]
    data = file_in(fs, path(short))
    places = [pos for pos, _ in headers(bytes(data))]
    del data[places[-1] if cut < 0 else max(0, len(data) - cut) :]
    held = short + sum(1 for pos, _ in headers(bytes(data), partial_tail=True))
    for _ in range(2):
        manager, log = open_log(fs, SMALL)
        found, refused = served(log)
        assert found == {at: each for at, each in written.items() if not held <= at < following}
        assert refused
        manager.close()


def test_a_log_without_any_segment_after_a_clean_stop_is_offline() -> None:
    fs = MemoryFileSystem()
    manager, _ = filled(fs)
    manager.close()
    for entry in list(fs.list_dir("data/t-0")):
        fs.remove(f"data/t-0/{entry.name}")
    _, log = open_log(fs, SMALL)
    with pytest.raises(LogCorrupt, match="has no segment"):
        log.read(0, max_bytes=1)


def test_compacted_records_are_not_damage() -> None:
    """Compaction leaves gaps, also between segments, that nobody misses."""
    fs = MemoryFileSystem()
    manager, log = open_log(fs, COMPACTED)
    for number in range(40):
        append(log, batch(b"v%02d" % number * 10, key=b"%d" % (number % 3)))
    LogCleaner(log).run(NOW_MS)
    kept = values(log)
    assert len(kept) < 20
    manager.close()
    for _ in range(2):
        manager, log = open_log(fs, COMPACTED)
        assert values(log) == kept
        assert not log.is_damaged
        manager.close()


def test_a_later_start_offset_is_not_a_gap_after_a_clean_stop() -> None:
    fs = MemoryFileSystem()
    manager, log = filled(fs)
    log.truncate_fully_and_start_at(1000)
    for number in range(9):
        append(log, batch(b"%02d" % number * 30))
    log.delete_before(1004)
    log.delete_old_segments(NOW_MS)
    expected = values(log)
    manager.close()
    _, log = open_log(fs, SMALL)
    assert values(log) == expected
    assert not log.is_damaged


def test_a_segment_list_of_another_stop_is_ignored() -> None:
    """Kafka may have used the directory since: its marker names no list."""
    fs = MemoryFileSystem()
    manager, log = filled(fs)
    manager.close()
    old = bytes(file_in(fs, "data/headrace-segments"))
    manager, log = open_log(fs, SMALL)
    log.delete_before(8)
    assert log.delete_old_segments(NOW_MS)
    manager.close()
    expected = dict.fromkeys(range(8, COUNT))
    for marker_text in (b'{"version":0,"brokerEpoch":7}', bytes(file_in(fs, MARKER)), b""):
        file_in(fs, "data/headrace-segments")[:] = old
        file_in(fs, MARKER)[:] = marker_text
        manager, log = open_log(fs, SMALL)
        assert values(log).keys() == expected.keys()
        assert not log.is_damaged
        manager.close()


MARKER = "data/.kafka_cleanshutdown"


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "t-0/leader-epoch-checkpoint",
    ],
)
def test_a_changed_byte_in_a_checkpoint_is_detected(name: str) -> None:
    """Another digit is a file like any other: the list of segments tells."""
    fs = MemoryFileSystem()
    manager, log = filled(fs)
    log.delete_before(3)
    written, _ = served(log)
    manager.close()
    size = len(file_in(fs, f"data/{name}"))
    for place in range(size):
        data = file_in(fs, f"data/{name}")
        assert len(data) == size
        data[place] ^= 1
        manager, log = open_log(fs, SMALL)
        assert log.log_start_offset == 3
        assert served(log) == (written, [])
        assert not log.is_damaged
        manager.close()


def test_aborted_transactions_survive_damage_to_their_index() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs, SMALL)
    append(log, batch(b"gone", producer_id=7, transactional=True))
    append(log, marker(7, commit=False), origin=BatchOrigin.COORDINATOR)
    for number in range(COUNT):
        append(log, batch(b"%02d" % number * 30))
    expected = log.aborted_transactions(0, log.log_end_offset)
    assert len(expected) == 1
    manager.close()
    file_in(fs, path(0, ".txnindex"))[9] ^= 1
    manager, log = open_log(fs, SMALL)
    assert log.aborted_transactions(0, log.log_end_offset) == expected
    manager.close()
    fs.remove(path(0, ".txnindex"))
    _, log = open_log(fs, SMALL)
    assert log.aborted_transactions(0, log.log_end_offset) == expected


def test_a_damaged_log_that_others_have_is_truncated_before_the_damage() -> None:
    fs = MemoryFileSystem()
    _, log = filled(fs)
    written, _ = served(log)
    closed = bases(fs)[1]
    data = file_in(fs, path(closed))
    (second, _) = list(headers(bytes(data)))[1]
    data[second + 8 + 3] ^= 64  # its length leads astray
    assert served(log)[1]
    log.take_damaged_offline()
    with pytest.raises(LogCorrupt):
        append(log, batch(b"more"))
    log.truncate_damaged()
    assert not log.is_damaged
    assert log.log_end_offset == closed + 1
    assert served(log) == ({at: each for at, each in written.items() if at <= closed}, [])
    for number in range(closed + 1, COUNT):
        append(log, batch(b"%02d" % number * 30), leader_epoch=number // 5)
    assert served(log) == (written, [])


@pytest.mark.parametrize("which", [0, 1])
def test_a_log_with_a_hole_is_truncated_before_it(which: int) -> None:
    fs = MemoryFileSystem()
    manager, _ = filled(fs)
    manager.close()
    gone = bases(fs)[which]
    fs.remove(path(gone))
    _, log = open_log(fs, SMALL)
    log.load()
    assert log.is_damaged
    log.truncate_damaged()
    assert not log.is_damaged
    assert log.log_end_offset == gone
    assert append(log, batch(b"more")).first_offset == gone


def test_compaction_neither_drops_nor_copies_a_damaged_batch() -> None:
    fs = MemoryFileSystem()
    _, log = open_log(fs, COMPACTED)
    for number in range(40):
        append(log, batch(b"v%02d" % number * 10, key=b"%d" % (number % 3)))
    log.flush()
    closed = bases(fs)[1]
    file_in(fs, path(closed))[100] ^= 1
    before = bases(fs)
    with pytest.raises(Uncleanable, match="damaged"):
        LogCleaner(log).run(NOW_MS)
    assert bases(fs) == before
