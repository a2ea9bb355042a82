"""The state of the producers that write to a log. Pure.

Guarantees, per producer id: a batch that repeats one of the last five is recognised and gets its
first offset back; a gap in the sequence, or an older epoch, is refused; a transaction is open from
its first batch to its marker. State changes only by `apply`, with batches that are in the log, so
that replaying the log gives the same state.

An unknown producer may start at any sequence: its state may have expired or been deleted with its
records (KIP-360).
"""

from enum import Enum
from typing import NamedTuple

from headrace.records.batch_header import TRANSACTIONAL_FLAG, BatchHeader
from headrace.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
)
from headrace.storage.segment.aborted_txn import AbortedTxn

# As many batches as a producer may have in flight (max.in.flight.requests.per.connection).
BATCHES_REMEMBERED = 5
MAX_SEQUENCE = 2**31 - 1
NO_EPOCH = -1
NO_OFFSET = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1


class BatchOrigin(Enum):
    """The source of an append; it decides which checks are made."""

    CLIENT = "client"  # all checks
    REPLICATION = "replication"  # the leader has checked
    COORDINATOR = "coordinator"  # markers and group records: epochs, but no sequences


class Marker(NamedTuple):
    """The end of a transaction, from its control record."""

    commit: bool
    coordinator_epoch: int
    timestamp: int


class BatchMetadata(NamedTuple):
    """One batch of a producer, as the log remembers it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @classmethod
    def from_header(cls, header: BatchHeader) -> "BatchMetadata":
        """The metadata of a batch that has its offsets."""
        return cls(
            header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp
        )

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTxn(NamedTuple):
    """A transaction whose marker is in the log."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerEntry:
    """One producer's state."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "markers",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        txn_first_offset: int = NO_OFFSET,
        batches: list[BatchMetadata] | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.txn_first_offset = txn_first_offset
        self.batches: list[BatchMetadata] = batches if batches is not None else []
        self.markers = 0
        """The number of markers since the state was loaded. A caller that waits compares it before
        and after: if it has changed, the transaction may have ended. Not stored."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def copy(self) -> "ProducerEntry":
        return ProducerEntry(
            self.producer_id,
            self.epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.txn_first_offset,
            list(self.batches),
        )

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        """The remembered batch that `header` repeats."""
        if header.producer_epoch == self.epoch:
            first, last = header.base_sequence, header.last_sequence
            for trace in self.batches:
                if trace.last_sequence == last and trace.first_sequence == first:
                    return trace
        return None

    def continues(self, header: BatchHeader) -> bool:
        """Whether the batch is simply the next one, the usual case: it needs no more checks."""
        return (
            header.producer_epoch == self.epoch
            and bool(self.batches)
            and header.base_sequence == (self.batches[-1][0] + 1) & MAX_SEQUENCE
            and (self.txn_first_offset == NO_OFFSET or header.is_transactional)
        )

    def prepend(self, traces: list[BatchMetadata]) -> None:
        """Adds older batches, ascending, to those that a snapshot held."""
        if self.batches:
            first = self.batches[0].last_offset
            older = [trace for trace in traces if trace.last_offset < first]
            self.batches = [*older, *self.batches][-BATCHES_REMEMBERED:]

    def check(self, header: BatchHeader, origin: BatchOrigin) -> None:
        """Raises unless the data batch may follow this producer's earlier batches."""
        if origin is BatchOrigin.REPLICATION:
            return
        self._check_epoch(header)
        if origin is BatchOrigin.CLIENT:
            self._check_sequence(header)
        if self.txn_first_offset != NO_OFFSET and not header.is_transactional:
            raise InvalidTxnState(
                f"producer {self.producer_id} has a transaction open since offset "
                f"{self.txn_first_offset} and sent a batch outside of it"
            )

    def check_marker(self, header: BatchHeader, marker: Marker, origin: BatchOrigin) -> None:
        """Raises unless the transaction marker comes from this epoch's coordinator."""
        if origin is BatchOrigin.REPLICATION:
            return
        self._check_epoch(header)
        if marker.coordinator_epoch < self.coordinator_epoch:
            raise CoordinatorFenced(
                f"marker for producer {self.producer_id} from coordinator epoch "
                f"{marker.coordinator_epoch}, but epoch {self.coordinator_epoch} was seen"
            )

    def _check_epoch(self, header: BatchHeader) -> None:
        if header.producer_epoch < self.epoch:
            raise InvalidProducerEpoch(
                f"epoch {header.producer_epoch} of producer {self.producer_id} is older than "
                f"the last seen, {self.epoch}"
            )

    def _check_sequence(self, header: BatchHeader) -> None:
        if self.epoch == NO_EPOCH:
            return
        first = header.base_sequence
        if header.producer_epoch != self.epoch:
            expected = 0
        else:
            # After a marker there is no last sequence: a new epoch or a new transaction of a
            # producer that was fenced starts again at 0.
            expected = (self.last_sequence + 1) & MAX_SEQUENCE
        if first != expected:
            raise OutOfOrderSequence(
                f"producer {self.producer_id} epoch {header.producer_epoch} sent sequence {first}, "
                f"expected {expected}",
                self.producer_id,
                is_ahead=(first - expected) & MAX_SEQUENCE <= MAX_SEQUENCE // 2,
            )

    def apply(self, header: BatchHeader, base_offset: int) -> None:
        """Updates the state with a data batch that is in the log at `base_offset`."""
        if header.producer_epoch != self.epoch:
            self.epoch = header.producer_epoch
            self.batches.clear()
        batches = self.batches
        delta = header.last_offset_delta
        timestamp = header.max_timestamp
        batches.append(
            BatchMetadata._make((header.last_sequence, base_offset + delta, delta, timestamp))
        )
        if len(batches) > BATCHES_REMEMBERED:
            del batches[0]
        self.last_timestamp = timestamp
        if self.txn_first_offset == NO_OFFSET and header.attributes & TRANSACTIONAL_FLAG:
            self.txn_first_offset = base_offset

    def apply_marker(
        self, header: BatchHeader, base_offset: int, marker: Marker
    ) -> CompletedTxn | None:
        """Updates the state with a marker; returns the transaction it ends, if there is one."""
        completed = None
        if self.txn_first_offset != NO_OFFSET:
            completed = CompletedTxn(
                self.producer_id, self.txn_first_offset, base_offset, not marker.commit
            )
        if header.producer_epoch != self.epoch:
            self.epoch = header.producer_epoch
            self.batches.clear()
        self.coordinator_epoch = marker.coordinator_epoch
        self.markers += 1
        self.last_timestamp = marker.timestamp
        self.txn_first_offset = NO_OFFSET
        return completed


class ProducerStates:
    """All producers of one log."""

    __slots__ = ("_unreplicated", "by_id", "ongoing")

    def __init__(self) -> None:
        self.by_id: dict[int, ProducerEntry] = {}
        self.ongoing: dict[int, int] = {}  # first offset of a transaction -> producer id, ascending
        self._unreplicated: list[CompletedTxn] = []

    @property
    def first_ongoing_offset(self) -> int | None:
        """The first offset of the earliest open transaction."""
        return next(iter(self.ongoing)) if self.ongoing else None

    def entry(self, producer_id: int) -> ProducerEntry:
        """The producer's state, or an empty one that is not stored yet."""
        return self.by_id.get(producer_id) or ProducerEntry(producer_id)

    def load(self, entries: list[ProducerEntry]) -> None:
        """Starts from a snapshot's entries."""
        self.by_id = {entry.producer_id: entry for entry in entries}
        open_txns = sorted(
            (entry.txn_first_offset, entry.producer_id)
            for entry in entries
            if entry.txn_first_offset != NO_OFFSET
        )
        self.ongoing = dict(open_txns)
        self._unreplicated = []

    def apply(
        self, header: BatchHeader, base_offset: int, marker: Marker | None
    ) -> CompletedTxn | None:
        """Updates the state with a batch in the log; returns the transaction that it ends."""
        producer_id = header.producer_id
        entry = self.by_id.get(producer_id)
        if entry is None:
            entry = self.by_id[producer_id] = ProducerEntry(producer_id)
        if marker is None:
            was_open = entry.txn_first_offset != NO_OFFSET
            entry.apply(header, base_offset)
            if not was_open and entry.txn_first_offset != NO_OFFSET:
                self.ongoing[base_offset] = producer_id
            return None
        completed = entry.apply_marker(header, base_offset, marker)
        if completed is not None:
            self.ongoing.pop(completed.first_offset, None)
            self._unreplicated.append(completed)
        return completed

    def stable_offset(self, high_watermark: int) -> int:
        """Every transaction below this offset has its marker below `high_watermark`."""
        if self._unreplicated:
            self._unreplicated = [
                txn for txn in self._unreplicated if txn.last_offset >= high_watermark
            ]
        undecided = [txn.first_offset for txn in self._unreplicated]
        if self.ongoing:
            undecided.append(next(iter(self.ongoing)))
        return min([high_watermark, *undecided])

    def aborted(self, completed: CompletedTxn) -> AbortedTxn:
        """The index entry of a transaction that has just been aborted."""
        stable = next(iter(self.ongoing), completed.last_offset + 1)
        return AbortedTxn(
            completed.producer_id, completed.first_offset, completed.last_offset, stable
        )

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers without a write in `expiration_ms` and without an open transaction."""
        expired = [
            producer_id
            for producer_id, entry in self.by_id.items()
            if entry.txn_first_offset == NO_OFFSET
            and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.by_id[producer_id]
        return len(expired)
