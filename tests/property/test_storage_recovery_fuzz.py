"""Damaged segments: recovery gives a valid prefix or a named error, and is stable."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.batch_header import check_batch, headers
from headrace.records.control import end_txn_marker
from headrace.records.errors import RecordError
from headrace.records.record import Record, build_batch
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import StorageError
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import BatchOrigin
from headrace.testing.memory_files import MemoryFile, MemoryFileSystem

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200)


class FixedClock:
    def monotonic(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return NOW_MS


def open_log(fs: MemoryFileSystem) -> tuple[LogManager, Log]:
    manager = LogManager(["data"], fs, FixedClock(), new_id=lambda: bytes(16))
    manager.open(lambda _topic: CONFIG)
    return manager, manager.get_or_create("t", 0, b"\1" * 16, CONFIG)


def written(seed: int, *, clean: bool) -> MemoryFileSystem:
    """A log of a few segments with producers and transactions."""
    rng = Random(seed)
    fs = MemoryFileSystem()
    manager, log = open_log(fs)
    for number in range(rng.randint(1, 14)):
        records = [Record(n, NOW_MS, b"k", rng.randbytes(rng.randint(0, 150))) for n in range(3)]
        producer_id = rng.choice((-1, 3))
        entry = log.producers.get(producer_id)
        data = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0 if producer_id > 0 else -1,
            base_sequence=(entry.last_sequence + 1 if entry else 0) if producer_id > 0 else -1,
            is_transactional=producer_id > 0,
        )
        log.append(bytearray(data), leader_epoch=number // 4, now_ms=NOW_MS)
        if rng.random() < 0.2:
            data = end_txn_marker(
                commit=False,
                producer_id=3,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=NOW_MS,
            )
            log.append(
                bytearray(data),
                leader_epoch=number // 4,
                now_ms=NOW_MS,
                origin=BatchOrigin.COORDINATOR,
            )
    manager.close(clean=clean)
    return fs.after_kill()


def whole_prefix(log: Log) -> bytes:
    """Everything in the log, after checking that it is whole batches in order."""
    data = bytearray()
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        chunk = log.read(offset, max_bytes=1 << 20).data
        assert chunk, f"nothing at {offset} below the end"
        for pos, header in headers(chunk):
            check_batch(chunk, pos, header)
            assert header.last_offset >= offset
            offset = header.next_offset
        data += chunk
    return bytes(data)


def damage(file: MemoryFile, rng: Random) -> None:
    data = file.data
    kind = rng.randrange(6)
    at = rng.randrange(len(data) + 1)
    if kind == 0 and data:
        data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at:at] = rng.randbytes(rng.randint(1, 80))
    elif kind == 3:
        del data[at : at + rng.randint(1, 80)]
    elif kind == 4:
        data.extend(rng.choice((bytes(700), rng.randbytes(90), bytes(data[:200]))))
    else:
        size = rng.randint(1, 60)
        data[at : at + size] = rng.choice((b"\xff", b"\0", b"\x7f")) * min(size, len(data) - at)


def damage_some(fs: MemoryFileSystem, rng: Random, *, logs_too: bool) -> None:
    directory = fs.root.names["data"].names["t-0"]  # type: ignore[union-attr]
    files = [
        file
        for name, file in sorted(directory.names.items())
        if logs_too or not name.endswith(".log")
    ]
    for _ in range(rng.randint(1, 3)):
        damage(rng.choice(files), rng)


@settings(max_examples=500, deadline=None)
@given(seed=st.integers(0, 2**32), clean=st.booleans())
def test_any_damage_gives_a_valid_log_or_a_storage_error(seed: int, clean: bool) -> None:
    """After a clean stop recovery does not check batches; consumers check their CRCs."""
    fs = written(seed, clean=clean)
    damage_some(fs, Random(seed + 1), logs_too=not clean)
    try:
        manager, log = open_log(fs)
        log.load()
        before = whole_prefix(log)
    except StorageError:
        return
    end = log.log_end_offset
    manager.close()
    manager, log = open_log(fs.after_kill())
    log.load()
    assert (whole_prefix(log), log.log_end_offset) == (before, end), "opening again changed it"
    batch = build_batch([Record(0, NOW_MS, b"k", b"new")])
    assert log.append(bytearray(batch), leader_epoch=9, now_ms=NOW_MS).first_offset == end


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_damage_after_a_clean_stop_raises_nothing_but_storage_errors(seed: int) -> None:
    fs = written(seed, clean=True)
    damage_some(fs, Random(seed + 1), logs_too=True)
    try:
        _, log = open_log(fs)
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            chunk = log.read(offset, max_bytes=1 << 20).data
            offset = max(
                (h.next_offset for _, h in headers(chunk, partial_tail=True)), default=offset
            )
            offset += 1
        log.offset_for_timestamp(NOW_MS)
        log.max_timestamp_offset()
        log.aborted_transactions(0, 1 << 40)
    except (StorageError, RecordError):
        return
