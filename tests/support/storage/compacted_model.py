"""The expected content of a compacted log: a writer that records all writes, and checks."""

from dataclasses import dataclass, field
from random import Random

from headrace.records.codec import Codec
from headrace.records.control import ControlType, end_txn_marker, read_control
from headrace.records.record import Record, build_batch
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.log.log import Log
from headrace.storage.state.producers import BatchOrigin
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.cleaning import COMPACTED, batches_of

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
Pair = tuple[bytes, bytes | None]


class StandingClock:
    def monotonic(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return NOW_MS


def open_manager(fs: MemoryFileSystem) -> tuple[LogManager, Log]:
    ids = Random(1)
    manager = LogManager(["data"], fs, StandingClock(), new_id=lambda: ids.randbytes(16))
    manager.open(lambda _topic: COMPACTED)
    return manager, manager.get_or_create("t", 0, TOPIC_ID, COMPACTED)


@dataclass
class History:
    """All records ever written, and the outcomes of their transactions."""

    records: dict[int, Record] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)  # offsets
    open_txns: dict[int, list[int]] = field(default_factory=dict)  # producer -> offsets
    sequences: dict[int, int] = field(default_factory=dict)

    def put(
        self,
        log: Log,
        pairs: list[Pair],
        *,
        codec: Codec = Codec.NONE,
        producer_id: int = -1,
        transactional: bool = False,
    ) -> None:
        first = log.log_end_offset
        records = [
            Record(first + n, NOW_MS + first + n, key, value)
            for n, (key, value) in enumerate(pairs)
        ]
        sequence = self.sequences.get(producer_id, 0)
        batch = build_batch(
            [record._replace(offset=n) for n, record in enumerate(records)],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
            is_transactional=transactional,
        )
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + len(pairs)
        self.records.update({record.offset: record for record in records})
        if transactional:
            offsets = self.open_txns.setdefault(producer_id, [])
            offsets.extend(record.offset for record in records)
        log.append(bytearray(batch), leader_epoch=0, now_ms=NOW_MS)

    def end(self, log: Log, producer_id: int, *, commit: bool) -> None:
        offsets = self.open_txns.pop(producer_id, None)
        if offsets is None:
            return
        if not commit:
            self.aborted.update(offsets)
        marker = end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=NOW_MS,
        )
        log.append(bytearray(marker), leader_epoch=0, now_ms=NOW_MS, origin=BatchOrigin.COORDINATOR)

    def committed(self, below: int) -> list[Record]:
        return [
            record
            for offset, record in self.records.items()
            if offset < below and offset not in self.aborted
        ]

    def check(self, log: Log, *, compacted_below: int = 0) -> None:
        """Checks the remaining records; below `compacted_below`, each key occurs at most once."""
        stable = log.last_stable_offset
        truth = {record.offset: record for record in self.committed(stable)}
        left = read_committed(log)
        for record in left:
            assert record == truth.get(record.offset)
        last = {record.key: record for record in truth.values()}
        found: dict[bytes | None, list[Record]] = {}
        for record in left:
            found.setdefault(record.key, []).append(record)
        for key, record in last.items():
            if record.value is not None:
                assert found.get(key, [None])[-1] == record
            elif key in found:
                assert found[key][-1] == record  # a tombstone is the last record of its key
        below = [record.key for record in left if record.offset < compacted_below]
        assert len(below) == len(set(below))


def read_committed(log: Log) -> list[Record]:
    """The records that a consumer with isolation.level=read_committed returns, by its own rules."""
    stable = log.last_stable_offset
    coming = sorted(
        log.aborted_transactions(log.log_start_offset, stable), key=lambda txn: txn.first_offset
    )
    aborted: set[int] = set()
    seen: list[Record] = []
    for header, records in batches_of(log):
        if header.base_offset >= stable:
            break
        while coming and coming[0].first_offset <= header.last_offset:
            aborted.add(coming.pop(0).producer_id)
        if header.is_control:
            if records and read_control(records[0]).type is ControlType.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            seen.extend(records)
    return seen


def last_sequences(log: Log) -> dict[int, tuple[int, int]]:
    return {pid: (entry.epoch, entry.last_sequence) for pid, entry in log.producers.items()}
