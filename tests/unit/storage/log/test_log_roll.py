"""When a segment is rolled."""

from headrace.records.batch_header import stamp
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import BatchOrigin
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.memory_log import NOW_MS, append, batch, file_in, open_log, values


def segments_of(fs: MemoryFileSystem) -> list[int]:
    return sorted(int(e.name[:20]) for e in fs.list_dir("data/t-0") if e.name.endswith(".log"))


def log_with(config: LogConfig) -> tuple[MemoryFileSystem, Log]:
    fs = MemoryFileSystem()
    return fs, open_log(fs, config)[1]


def test_a_segment_never_exceeds_segment_bytes() -> None:
    size = len(batch(b"x" * 100))
    fs, log = log_with(LogConfig(segment_bytes=3 * size))
    for _ in range(7):
        append(log, batch(b"x" * 100))
    assert segments_of(fs) == [0, 3, 6]


def test_segment_ms_uses_the_records_timestamps() -> None:
    fs, log = log_with(LogConfig(segment_ms=1000))
    for ahead_ms in (0, 1000, 1001, 1500, 2002):
        append(log, batch(b"x", timestamp=NOW_MS + ahead_ms))
    assert segments_of(fs) == [0, 2, 4]


def test_segment_ms_uses_the_brokers_clock_without_record_timestamps() -> None:
    fs, log = log_with(LogConfig(segment_ms=1000))
    for ahead_ms in (0, 1000, 1001):
        append(log, batch(b"x", timestamp=-1), now_ms=NOW_MS + ahead_ms)
    assert segments_of(fs) in ([0], [0, 2])
    append(log, batch(b"x", timestamp=-1), now_ms=NOW_MS + 5000)
    assert segments_of(fs)[-1] >= 2


def test_jitter_rolls_earlier_and_always_at_the_same_age() -> None:
    config = LogConfig(segment_ms=10_000, segment_jitter_ms=9_000)
    ages = set()
    for _ in range(2):
        fs, log = log_with(config)
        age = 0
        while len(segments_of(fs)) < 2:
            append(log, batch(b"x", timestamp=NOW_MS + age))
            age += 50
        ages.add(age)
    assert len(ages) == 1 and ages.pop() <= 10_100


def test_a_full_index_ends_the_segment() -> None:
    config = LogConfig(segment_index_bytes=12 * 5, index_interval_bytes=1)
    fs, log = log_with(config)
    for number in range(20):
        append(log, batch(b"x", timestamp=NOW_MS + number))
    log.roll()
    assert len(segments_of(fs)) > 3
    for base in segments_of(fs)[:-1]:
        assert len(file_in(fs, f"data/t-0/{base:020d}.timeindex")) <= 12 * 5


def test_offsets_that_do_not_fit_a_relative_offset_end_the_segment() -> None:
    fs, log = log_with(LogConfig())
    append(log, batch(b"x"))
    far = batch(b"y")
    stamp(far, 0, 2**31 - 1, 0)
    append(log, far, origin=BatchOrigin.REPLICATION)
    assert segments_of(fs) == [0]
    farther = batch(b"z")
    stamp(farther, 0, 2**31, 0)
    append(log, farther, origin=BatchOrigin.REPLICATION)
    assert segments_of(fs) == [0, 2**31]
    assert values(log)[2**31] == b"z"


def test_a_roll_of_an_empty_segment_changes_nothing() -> None:
    fs, log = log_with(LogConfig())
    log.roll()
    append(log, batch(b"x"))
    log.roll()
    log.roll()
    assert segments_of(fs) == [0, 1]


def test_a_roll_of_a_log_that_flushes_each_append_syncs_the_closed_segment() -> None:
    """flush.messages=1: a later batch is never on disk without an earlier one."""
    fs, log = log_with(LogConfig(flush_messages=1, index_interval_bytes=1))
    append(log, batch(b"a"))
    log.flush()
    append(log, batch(b"b" * 50))
    append(log, batch(b"c"))
    log.roll()
    append(log, batch(b"d"))
    after = fs.after_power_loss(None)
    names = {entry.name for entry in after.list_dir("data/t-0")}
    assert names >= {f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")}
    _, log = open_log(after)
    log.load()
    assert values(log) == {0: b"a", 1: b"b" * 50, 2: b"c"}
