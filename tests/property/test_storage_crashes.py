"""After power loss at any file operation, flushed acknowledged records exist once and in order.

A scripted broker appends, flushes, rolls, deletes, truncates and restarts on a file system in
memory. It runs repeatedly, and the power fails after its first operation, its second, and so
on. What the disk kept is drawn at random within what it promised: files torn at any byte or
sector, names and removals there or not.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from headrace.records.batch_header import check_batch, headers
from headrace.records.control import end_txn_marker
from headrace.records.record import Record, build_batch, iter_records
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import OutOfOrderSequence, StorageError
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import BatchOrigin
from headrace.testing.memory_files import MemoryFileSystem, PowerLoss

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig(
    segment_bytes=900, index_interval_bytes=150, flush_messages=1, file_delete_delay_ms=0
)
EPHEMERAL_SEEDS = range(14)
STEPS = 26
WINDOW = 5


class FixedClock:
    def monotonic(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return NOW_MS


@dataclass
class Model:
    """What has been promised so far."""

    acked: dict[int, bytes] = field(default_factory=dict)  # offset -> value
    unsure: dict[int, bytes] = field(default_factory=dict)  # being appended or truncated
    end: int = 0
    max_start: int = 0  # the log may begin anywhere up to here
    history: dict[int, list[tuple[int, int, bytes]]] = field(default_factory=dict)
    aborted: list[tuple[int, int]] = field(default_factory=list)  # acked aborts: pid, marker offset
    sequence: dict[int, int] = field(default_factory=dict)
    open_txn: set[int] = field(default_factory=set)
    values: int = 0


def open_manager(fs: MemoryFileSystem) -> tuple[LogManager, Log]:
    ids = Random(7)
    manager = LogManager(["data"], fs, FixedClock(), new_id=lambda: ids.randbytes(16))
    manager.open(lambda _topic: CONFIG)
    return manager, manager.get_or_create("t", 0, TOPIC_ID, CONFIG)


class Broker:
    """Runs a script of random steps, keeping the model."""

    def __init__(self, fs: MemoryFileSystem, seed: int, model: Model) -> None:
        self.fs = fs
        self.rng = Random(seed)
        self.model = model
        self.epoch = 0
        self.manager, self.log = open_manager(fs)

    def run(self, steps: int) -> None:
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.append_idempotent, 8),
            (self.append_plain, 3),
            (self.append_unflushed, 3),
            (self.append_transactional, 4),
            (self.end_transaction, 3),
            (self.roll, 1),
            (self.checkpoint, 2),
            (self.delete_before, 1),
            (self.truncate, 1),
            (self.retention, 1),
            (self.restart_clean, 1),
            (self.new_epoch, 1),
        ]
        for _ in range(steps):
            step = self.rng.choices([kind for kind, _ in kinds], [w for _, w in kinds])[0]
            step()

    def _values(self) -> list[bytes]:
        count = self.rng.randint(1, 3)
        values = [
            b"v%d" % (self.model.values + n) + b"x" * self.rng.randint(0, 90) for n in range(count)
        ]
        self.model.values += count
        return values

    def _append(
        self,
        batch: bytes,
        values: list[bytes],
        *,
        flush: bool = True,
        origin: BatchOrigin = BatchOrigin.CLIENT,
    ) -> int:
        model = self.model
        first = self.log.log_end_offset
        model.unsure.update({first + n: value for n, value in enumerate(values)})
        result = self.log.append(
            bytearray(batch), leader_epoch=self.epoch, now_ms=NOW_MS, origin=origin
        )
        assert (result.first_offset, result.duplicate, result.needs_flush) == (first, False, True)
        if flush:
            self.log.flush()
            self._acknowledge()
        return first

    def _acknowledge(self) -> None:
        """A flush covers everything before it."""
        self.model.acked.update(self.model.unsure)
        self.model.unsure.clear()
        self.model.end = self.log.log_end_offset

    def append_plain(self) -> None:
        values = self._values()
        self._append(batch_of(values), values)

    def append_unflushed(self) -> None:
        self._idempotent(flush=False)

    def append_idempotent(self) -> None:
        self._idempotent(flush=True)

    def _idempotent(self, *, flush: bool) -> None:
        producer_id = self.rng.choice((1, 2))
        values = self._values()
        sequence = self.model.sequence.get(producer_id, 0)
        batch = batch_of(values, producer_id=producer_id, base_sequence=sequence)
        self.model.sequence[producer_id] = sequence + len(values)
        sent = self.model.history.setdefault(producer_id, [])
        sent.append((self.log.log_end_offset, len(values), batch))
        self._append(batch, values, flush=flush)

    def append_transactional(self) -> None:
        producer_id = self.rng.choice((11, 12))
        values = self._values()
        sequence = self.model.sequence.get(producer_id, 0)
        batch = batch_of(
            values, producer_id=producer_id, base_sequence=sequence, is_transactional=True
        )
        self.model.sequence[producer_id] = sequence + len(values)
        self.model.open_txn.add(producer_id)
        self._append(batch, values)

    def end_transaction(self) -> None:
        if not self.model.open_txn:
            return
        producer_id = min(self.model.open_txn)
        commit = self.rng.random() < 0.4
        marker = end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=1,
            timestamp_ms=NOW_MS,
        )
        self.model.open_txn.discard(producer_id)
        offset = self._append(marker, [], origin=BatchOrigin.COORDINATOR)
        if not commit:
            self.model.aborted.append((producer_id, offset))

    def roll(self) -> None:
        self.log.roll()

    def checkpoint(self) -> None:
        self.manager.checkpoint()

    def new_epoch(self) -> None:
        self.epoch += 1

    def delete_before(self) -> None:
        self.log.flush()
        self._acknowledge()
        start, end = self.log.log_start_offset, self.log.log_end_offset
        offset = self.rng.randint(start, start + (end - start) // 3)
        self.model.max_start = max(self.model.max_start, offset)
        self.log.delete_before(offset)
        self.log.delete_old_segments(NOW_MS)
        self.manager.sweep()

    def retention(self) -> None:
        """All records expire: the log becomes empty and continues at the same offset."""
        if self.rng.random() < 0.5:
            return
        self.log.flush()
        self._acknowledge()
        self.model.max_start = self.log.log_end_offset
        self.model.history.clear()
        self.log.delete_old_segments(NOW_MS + CONFIG.retention_ms + 1)
        assert self.log.log_start_offset == self.log.log_end_offset
        self.manager.sweep()

    def truncate(self) -> None:
        """Truncates as a follower: truncated records may be missing after a crash."""
        model = self.model
        if model.open_txn or self.log.log_end_offset - self.log.log_start_offset < 4:
            return
        offset = self.log.log_end_offset - 2
        gone = {o: value for o, value in model.acked.items() if o >= offset - 3}
        model.unsure.update(gone)
        for o in gone:
            del model.acked[o]
        model.end = min(model.end, offset - 3)
        model.history.clear()
        model.aborted = [(pid, o) for pid, o in model.aborted if o < offset - 3]
        self.log.truncate_to(offset)
        end = self.log.log_end_offset
        kept = {o: value for o, value in model.unsure.items() if o < end}
        model.unsure.clear()
        model.unsure.update(kept)
        self.log.flush()
        self._acknowledge()
        for producer_id, entry in self.log.producers.items():
            model.sequence[producer_id] = entry.last_sequence + 1
        for producer_id in set(model.sequence) - set(self.log.producers):
            del model.sequence[producer_id]
        model.open_txn = {
            pid for pid, entry in self.log.producers.items() if entry.txn_first_offset >= 0
        }

    def restart_clean(self) -> None:
        self.manager.close()
        self._acknowledge()
        self.manager, self.log = open_manager(self.fs)


def batch_of(
    values: list[bytes],
    *,
    producer_id: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    records = [Record(n, NOW_MS, b"k", value) for n, value in enumerate(values)]
    return build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )


def contents(log: Log) -> dict[int, bytes]:
    """Every record by offset, read the way a consumer does."""
    found: dict[int, bytes] = {}
    offset, last = log.log_start_offset, -1
    while offset < log.log_end_offset:
        data, _ = log.read(offset, max_bytes=400)
        if not data:
            break
        for pos, header in headers(data, partial_tail=True):
            check_batch(data, pos, header)
            offset = header.next_offset
            for record in iter_records(data[pos : pos + header.size], max_bytes=1 << 20):
                assert record.offset > last, "offsets run backwards"
                last = record.offset
                if record.offset >= log.log_start_offset and not header.is_control:
                    found[record.offset] = record.value or b""
    return found


def verify(log: Log, model: Model) -> None:
    assert log.failure is None, log.failure
    found = contents(log)
    assert log.log_start_offset <= model.max_start, "the log lost its beginning"
    assert log.log_end_offset >= model.end, "offsets would be given twice"
    for offset, value in model.acked.items():
        if offset >= model.max_start:
            assert found.get(offset) == value, f"acknowledged record at {offset} is lost"
    for offset, value in found.items():
        expected = model.acked.get(offset, model.unsure.get(offset))
        assert expected == value, f"record at {offset} was never written there"
    values = list(found.values())
    assert len(set(values)) == len(values), "a record is there twice"
    aborted = {(t.producer_id, t.last_offset) for t in log.aborted_transactions(0, 1 << 60)}
    for producer_id, offset in model.aborted:
        if model.max_start <= offset < model.end:
            assert (producer_id, offset) in aborted, "an aborted transaction is forgotten"


def verify_retries(log: Log, model: Model) -> None:
    """A producer without a response retries its last batches: each is stored once."""
    for sent in model.history.values():
        window = sent[-WINDOW:]
        acked = [each for each in window if each[0] + each[1] <= model.end]
        for first, _, batch in window:
            if first < log.log_start_offset:
                continue
            end = log.log_end_offset
            result = log.append(bytearray(batch), leader_epoch=9, now_ms=NOW_MS)
            if (first, _, batch) in acked or result.duplicate:
                assert result.duplicate and result.first_offset == first
            else:
                assert result.first_offset == end
    found = list(contents(log).values())
    assert len(set(found)) == len(found), "a retry was written twice"


def crash_points(seed: int) -> int:
    """How many operations the script of this seed makes when nothing fails."""
    fs = MemoryFileSystem()
    Broker(fs, seed, Model()).run(STEPS)
    return fs.operations


def crash_at(seed: int, point: int, *, sync_works: bool = True) -> tuple[MemoryFileSystem, Model]:
    fs = MemoryFileSystem()
    fs.sync_works = sync_works
    fs.power_fails_at = point
    model = Model()
    with contextlib.suppress(PowerLoss):
        Broker(fs, seed, model).run(STEPS)
    return fs, model


def survivors(fs: MemoryFileSystem, seed: int, point: int) -> MemoryFileSystem:
    """The disk after the crash: no unsynced data survives, some does, or all does."""
    if point % 4 == 0:
        return fs.after_power_loss(None)
    if point % 4 == 3:
        return fs.after_kill()
    return fs.after_power_loss(Random(seed * 100_003 + point))


def recover_with_interruptions(fs: MemoryFileSystem, rng: Random) -> tuple[LogManager, Log]:
    """Opens the log; sometimes the power fails again during recovery."""
    for _ in range(rng.choice((0, 0, 1, 2))):
        fs.power_fails_at = rng.randint(1, 12)
        try:
            manager, log = open_manager(fs)
        except PowerLoss:
            fs = fs.after_power_loss(rng)
        else:
            fs.power_fails_at = None
            return manager, log
    fs.power_fails_at = None
    return open_manager(fs)


def check_crash(seed: int, point: int, *, sync_works: bool = True) -> None:
    fs, model = crash_at(seed, point, sync_works=sync_works)
    rng = Random(seed * 7 + point)
    manager, log = recover_with_interruptions(survivors(fs, seed, point), rng)
    verify(log, model)
    verify_retries(log, model)
    log.flush()
    before = contents(log)
    manager.close()
    _, log = open_manager(manager.directories[0].state.files.fs.after_kill())  # type: ignore[attr-defined]
    assert contents(log) == before, "a clean restart changed the log"


@pytest.mark.parametrize("seed", EPHEMERAL_SEEDS)
def test_acknowledged_records_survive_power_loss_at_every_operation(seed: int) -> None:
    for point in range(1, crash_points(seed) + 1):
        try:
            check_crash(seed, point)
        except (AssertionError, StorageError, OutOfOrderSequence) as error:
            raise AssertionError(
                f"seed {seed}, power lost after operation {point}: {error}"
            ) from error


def test_the_check_finds_a_disk_that_does_not_sync() -> None:
    """The check above proves nothing if it cannot fail."""
    failures = 0
    for point in range(40, 140):
        try:
            check_crash(3, point, sync_works=False)
        except (AssertionError, StorageError):
            failures += 1
    assert failures > 20
