"""Compaction of one log: which records are kept, removed or left alone."""

from dataclasses import replace
from random import Random

import pytest

from headrace.records.batch_header import BatchHeader
from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch
from headrace.storage.cleaning.cleaning_pass import clean
from headrace.storage.cleaning.segment_reader import Uncleanable
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import BatchOrigin
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.cleaning import COMPACTED, LogCleaner, batches_of, records_of

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


class StandingClock:
    def monotonic(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return NOW_MS


def open_manager(fs: MemoryFileSystem, config: LogConfig = COMPACTED) -> LogManager:
    ids = Random(1)
    manager = LogManager(["data"], fs, StandingClock(), new_id=lambda: ids.randbytes(16))
    manager.open(lambda _topic: config)
    return manager


def open_log(fs: MemoryFileSystem | None = None, config: LogConfig = COMPACTED) -> Log:
    return open_manager(fs or MemoryFileSystem(), config).get_or_create("t", 0, TOPIC_ID, config)


def put(
    log: Log,
    *pairs: tuple[bytes, bytes | None],
    codec: Codec = Codec.NONE,
    timestamp: int = NOW_MS,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
) -> int:
    """Appends one batch; returns its first offset."""
    batch = build_batch(
        [Record(n, timestamp + n, key, value) for n, (key, value) in enumerate(pairs)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch if producer_id >= 0 else -1,
        base_sequence=sequence if producer_id >= 0 else -1,
        is_transactional=transactional,
    )
    return log.append(bytearray(batch), leader_epoch=3, now_ms=NOW_MS).first_offset


def end_txn(log: Log, producer_id: int, *, commit: bool) -> int:
    from headrace.records.control import end_txn_marker

    marker = end_txn_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=NOW_MS,
    )
    return log.append(
        bytearray(marker), leader_epoch=3, now_ms=NOW_MS, origin=BatchOrigin.COORDINATOR
    ).first_offset


def contents(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records_of(log)]


def headers_of(log: Log) -> dict[int, BatchHeader]:
    return {header.base_offset: header for header, _ in batches_of(log)}


@pytest.mark.parametrize("codec", list(Codec))
def test_compaction_keeps_the_last_record_of_each_key_at_its_offset(codec: Codec) -> None:
    log = open_log()
    for n in range(5):
        put(log, (b"a", b"a%d" % n), (b"b%d" % n, b"once"), (b"c", b"c%d" % n), codec=codec)
    log.roll()
    put(log, (b"a", b"active"))
    times = {record.offset: record.timestamp for record in records_of(log)}
    LogCleaner(log).run(NOW_MS)
    assert contents(log) == [
        *((3 * n + 1, b"b%d" % n, b"once") for n in range(4)),
        (12, b"a", b"a4"),
        (13, b"b4", b"once"),
        (14, b"c", b"c4"),
        (15, b"a", b"active"),
    ]
    assert all(record.timestamp == times[record.offset] for record in records_of(log))
    for base_offset, header in headers_of(log).items():
        assert header.codec is (codec if base_offset < 15 else Codec.NONE)
        assert header.partition_leader_epoch == 3


def test_a_cleaned_batch_has_the_largest_timestamp_of_its_kept_records() -> None:
    log = open_log()
    put(log, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"), timestamp=NOW_MS)
    put(log, (b"c", b"4"), timestamp=NOW_MS + 10)
    log.roll()
    LogCleaner(log).run(NOW_MS)
    assert headers_of(log)[0].max_timestamp == NOW_MS + 1


def test_a_second_pass_changes_nothing() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs)
    for n in range(40):
        put(log, (b"k%d" % (n % 7), b"v%d" % n))
    log.roll()
    cleaner = LogCleaner(log)
    cleaner.run(NOW_MS)
    before = list(batches_of(log))
    cleaner.cleaned_to = None
    cleaner.run(NOW_MS)
    assert list(batches_of(log)) == before
    answers = list(clean(fs, cleaner.job(NOW_MS)))
    assert all(answer.unchanged for answer in answers[:-1])  # type: ignore[union-attr]


def test_a_clean_log_is_not_due_and_new_records_make_it_so() -> None:
    log = open_log()
    put(log, (b"a", b"1"))
    log.roll()
    cleaner = LogCleaner(log)
    log.flush()
    assert cleaner.is_due(NOW_MS)
    cleaner.run(NOW_MS)
    assert not cleaner.is_due(NOW_MS)
    put(log, (b"a", b"2"))
    assert not cleaner.is_due(NOW_MS)  # the active segment does not count
    log.roll()
    assert not cleaner.is_due(NOW_MS)  # nor does what is not on disk
    log.flush()
    assert cleaner.is_due(NOW_MS)


def test_a_tombstone_may_be_kept_as_long_as_the_largest_delete_retention() -> None:
    log = open_log(config=replace(COMPACTED, delete_retention_ms=2**63 - 1))
    put(log, (b"k", b"1"))
    put(log, (b"k", None))
    log.roll()
    cleaner = LogCleaner(log)
    cleaner.run(NOW_MS)
    assert [(each.key, each.value) for each in records_of(log)] == [(b"k", None)]


def test_tombstones_are_kept_until_their_delete_horizon() -> None:
    log = open_log()
    put(log, (b"a", b"1"), (b"b", b"2"))
    put(log, (b"a", None), (b"c", b"3"))
    log.roll()
    cleaner = LogCleaner(log)
    cleaner.run(NOW_MS)
    assert contents(log) == [(1, b"b", b"2"), (2, b"a", None), (3, b"c", b"3")]
    header = headers_of(log)[2]
    assert header.has_delete_horizon and header.base_timestamp == NOW_MS + 1000
    assert [record.timestamp for record in records_of(log)] == [NOW_MS + 1, NOW_MS, NOW_MS + 1]
    cleaner.cleaned_to = None
    cleaner.run(NOW_MS + 999)
    assert (2, b"a", None) in contents(log)
    assert headers_of(log)[2].base_timestamp == NOW_MS + 1000  # the date is not put off
    cleaner.cleaned_to = None
    cleaner.run(NOW_MS + 1000)
    assert contents(log) == [(1, b"b", b"2"), (3, b"c", b"3")]
    assert records_of(log)[1].timestamp == NOW_MS + 1


def test_keys_of_any_length_are_distinguished() -> None:
    log = open_log(config=LogConfig(**{**_fields(COMPACTED), "segment_bytes": 1 << 20}))
    rng = Random(5)
    keys = [rng.randbytes(size) for size in (0, 1, 31, 32, 33, 34, 63, 64, 65, 500, 9000)]
    for n in range(3):
        put(log, *((key, b"%d" % n + bytes(20_000 if key == keys[3] else 5)) for key in keys))
    log.roll()
    LogCleaner(log).run(NOW_MS)
    assert [(offset, key) for offset, key, _ in contents(log)] == list(
        enumerate(keys, start=2 * len(keys))
    )


def test_the_last_batch_of_a_producer_is_kept_without_records() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs)
    put(log, (b"a", b"1"), (b"b", b"1"), producer_id=7, sequence=0)
    put(log, (b"a", b"2"), (b"b", b"2"), producer_id=7, sequence=2)
    put(log, (b"a", b"3"), (b"b", b"3"))
    log.roll()
    LogCleaner(log).run(NOW_MS)
    assert contents(log) == [(4, b"a", b"3"), (5, b"b", b"3")]
    header = headers_of(log)[2]
    assert (header.record_count, header.last_offset, header.last_sequence) == (0, 3, 3)
    log = open_log(fs.after_kill())
    assert put(log, (b"a", b"4"), producer_id=7, sequence=4) == 6


def test_the_last_cleaned_offset_is_kept() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), producer_id=9, transactional=True)
    end_txn(log, 9, commit=False)
    put(log, (b"b", b"x"), producer_id=9, sequence=1, transactional=True)
    log.roll()
    end_txn(log, 9, commit=False)
    LogCleaner(log).run(NOW_MS)
    assert [h.next_offset for h in headers_of(log).values()][-2:] == [4, 5]


def test_aborted_records_are_removed_at_once_and_their_marker_after_its_delete_horizon() -> None:
    log = open_log()
    put(log, (b"a", b"good"))
    put(log, (b"a", b"bad"), (b"b", b"bad"), producer_id=9, transactional=True)
    end_txn(log, 9, commit=False)
    put(log, (b"c", b"3"), producer_id=9, sequence=2)
    log.roll()
    cleaner = LogCleaner(log)
    cleaner.run(NOW_MS)
    assert contents(log) == [(0, b"a", b"good"), (4, b"c", b"3")]
    assert [txn.producer_id for txn in log.aborted_transactions(0, 5)] == [9]
    cleaner.cleaned_to = None
    cleaner.run(NOW_MS + 1)
    assert log.aborted_transactions(0, 5) == []  # nothing of it is left
    assert headers_of(log)[3].base_timestamp == NOW_MS + 1001
    cleaner.cleaned_to = None
    cleaner.run(NOW_MS + 1001)
    assert set(headers_of(log)) == {0, 4}


def test_a_marker_is_kept_while_its_transaction_has_batches() -> None:
    log = open_log()
    put(log, (b"a", b"1"), (b"b", b"1"), producer_id=9, transactional=True)
    end_txn(log, 9, commit=True)
    put(log, (b"a", b"2"))
    log.roll()
    cleaner = LogCleaner(log)
    for now_ms in (NOW_MS, NOW_MS + 10_000, NOW_MS + 20_000):
        cleaner.cleaned_to = None
        cleaner.run(now_ms)
        assert set(headers_of(log)) == {0, 2, 3}
        assert not headers_of(log)[2].has_delete_horizon


def test_aborted_records_are_removed_if_their_marker_is_in_the_active_segment() -> None:
    log = open_log()
    put(log, (b"a", b"bad"), producer_id=9, transactional=True)
    put(log, (b"b", b"good"))
    log.roll()
    assert LogCleaner(log).run(NOW_MS).next_dirty == 0  # the transaction is open
    end_txn(log, 9, commit=False)
    LogCleaner(log).run(NOW_MS)
    assert contents(log) == [(1, b"b", b"good")]
    assert headers_of(log)[0].record_count == 0  # the producer's last batch
    assert [txn.producer_id for txn in log.aborted_transactions(0, 3)] == [9]


def test_records_without_a_key_are_removed() -> None:
    config = LogConfig(segment_bytes=600)
    log = open_log(config=config)
    batch = build_batch([Record(0, NOW_MS, None, b"old"), Record(1, NOW_MS, b"a", b"1")])
    log.append(bytearray(batch), leader_epoch=0, now_ms=NOW_MS)
    log.roll()
    log.reconfigure(COMPACTED)
    LogCleaner(log).run(NOW_MS)
    assert contents(log) == [(1, b"a", b"1")]


def test_small_segments_are_merged_and_a_fetch_in_a_gap_finds_the_next_batch() -> None:
    log = open_log()
    for n in range(60):
        put(log, (b"same", b"v%d" % n + bytes(60)))
    segments = len(log.local.segments.items)
    cleaner = LogCleaner(log)
    cleaner.run(NOW_MS)
    cleaner.cleaned_to = None
    cleaner.run(NOW_MS)  # now that they are small
    assert segments > 10 > len(log.local.segments.items)
    (first, *_) = contents(log)
    for offset in range(first[0]):
        data, base_offset = log.read(offset, max_bytes=1)
        assert data and base_offset >= offset
    assert log.log_start_offset == 0 and log.log_end_offset == 60


def test_a_map_that_is_full_cleans_a_part_and_the_next_pass_the_rest() -> None:
    log = open_log()
    for n in range(60):
        put(log, (b"k%d" % (n % 20), b"v%d" % n + bytes(40)))
    log.roll()
    cleaner = LogCleaner(log, max_keys=8)
    ends = []
    while cleaner.cleaned_to != 60:
        ends.append(cleaner.run(NOW_MS).next_dirty)
    assert len(ends) > 3 and ends == sorted(set(ends))
    assert [offset for offset, _, _ in contents(log)] == list(range(40, 60))


def test_records_below_the_log_start_neither_return_nor_replace_others() -> None:
    log = open_log()
    put(log, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
    put(log, (b"a", b"4"))
    log.roll()
    log.delete_before(1)
    LogCleaner(log).run(NOW_MS)
    assert contents(log) == [(1, b"b", b"2"), (2, b"c", b"3"), (3, b"a", b"4")]


def test_min_and_max_compaction_lag_are_respected() -> None:
    config = LogConfig(
        **{**_fields(COMPACTED), "min_compaction_lag_ms": 500, "max_compaction_lag_ms": 5000}
    )
    log = open_log(config=LogConfig(**{**_fields(config), "min_cleanable_dirty_ratio": 1.0}))
    put(log, (b"a", b"1"), timestamp=NOW_MS - 1000)
    put(log, (b"a", b"2"), timestamp=NOW_MS - 1000)
    log.roll()
    put(log, (b"a", b"3"), timestamp=NOW_MS - 100)
    log.roll()
    log.flush()
    cleaner = LogCleaner(log)
    assert cleaner.job(NOW_MS).end == 2
    assert not cleaner.is_due(NOW_MS)  # the ratio is never above 1
    assert cleaner.is_due(NOW_MS + 4001)
    assert cleaner.job(NOW_MS + 4001).end == 3


def test_max_compaction_lag_makes_segments_roll_in_time() -> None:
    config = LogConfig(**{**_fields(COMPACTED), "max_compaction_lag_ms": 100})
    log = open_log(config=config)
    put(log, (b"a", b"1"), timestamp=NOW_MS)
    put(log, (b"a", b"2"), timestamp=NOW_MS + 101)
    assert len(log.local.segments.items) == 2


@pytest.mark.parametrize("at", [80, 30])
def test_a_damaged_batch_is_not_cleaned_away(at: int) -> None:
    fs = MemoryFileSystem()
    log = open_log(fs)
    put(log, (b"a", b"1" * 30))
    put(log, (b"a", b"2"))
    log.roll()
    log.flush()
    fd = fs.open("data/t-0/00000000000000000000.log")
    fs.pwrite(fd, b"\xff", at)
    cleaner = LogCleaner(log)
    with pytest.raises(Uncleanable, match=r"00000000000000000000\.log is damaged at byte 0"):
        cleaner.run(NOW_MS)
    names = {entry.name for entry in fs.list_dir("data/t-0")}
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]


def test_a_log_that_changed_meanwhile_keeps_its_segments() -> None:
    fs = MemoryFileSystem()
    config = LogConfig(**{**_fields(COMPACTED), "cleanup_policy": frozenset({"compact", "delete"})})
    log = open_log(fs, config)
    for n in range(20):
        put(log, (b"a", b"v%d" % n + bytes(80)))
    log.flush()
    cleaner = LogCleaner(log)
    job = cleaner.job(NOW_MS)
    answers = list(clean(fs, job))
    log.delete_before(12)
    assert log.delete_old_segments(NOW_MS) > 0
    assert not cleaner.swap(answers[0], job, NOW_MS)  # type: ignore[arg-type]
    assert [offset for offset, _, _ in contents(log)] == list(range(12, 20))


def test_no_snapshot_holds_an_open_transaction_whose_marker_was_removed() -> None:
    """Else nothing would ever end it, and read_committed consumers would wait for good."""
    fs = MemoryFileSystem()
    manager = open_manager(fs)
    log = manager.get_or_create("t", 0, TOPIC_ID, COMPACTED)
    put(log, (b"a", b"1"), producer_id=9, transactional=True)
    put(log, (b"large", bytes(300)))
    log.roll()
    end_txn(log, 9, commit=True)
    put(log, (b"a", bytes(300)), producer_id=9, sequence=1)
    log.roll()
    put(log, (b"b", b"x"))
    cleaner = LogCleaner(log)
    for now_ms in (NOW_MS, NOW_MS + 1, NOW_MS + 2000):
        cleaner.cleaned_to = None
        cleaner.run(now_ms)
    assert not any(header.is_control for header in headers_of(log).values())
    (middle,) = [each for each in log.local.segments.items if each.base_offset == 2]
    manager.close()
    fs.remove(middle.path + ".index")  # so that recovery begins there
    log = open_log(fs)
    log.load()
    assert log.last_stable_offset == log.log_end_offset == 5


def _fields(config: LogConfig) -> dict[str, object]:
    return {name: getattr(config, name) for name in LogConfig.__slots__}
