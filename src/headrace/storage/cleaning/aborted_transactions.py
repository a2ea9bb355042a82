"""Which batches belong to aborted transactions, and which markers are no longer needed. Pure.

A cleaner reads the log from its start. An aborted batch is removed at once. A marker is kept while
a batch of its transaction precedes it, because readers end the transaction with it. After that it
is kept for `delete.retention.ms`, because a reader may be between the two.
"""

from collections.abc import Iterable

from headrace.records.batch_header import BatchHeader
from headrace.records.buffer import Buffer
from headrace.records.control import MAX_CONTROL_BYTES, ControlType, read_control
from headrace.records.record import iter_records
from headrace.storage.segment.aborted_txn import AbortedTxn


class CleanedTransactionMetadata:
    """The state of the transactions at one position of the log.

    `indexed` collects the aborted transactions that still have records: they stay in the index of
    aborted transactions.
    """

    __slots__ = ("_aborted", "_aborted_batch_seen", "_coming", "_committing", "indexed")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._coming = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}  # open at this position, by producer
        self._aborted_batch_seen: set[int] = set()  # producers with an aborted batch so far
        self._committing: set[int] = set()  # producers with a batch that is not aborted
        self.indexed: list[AbortedTxn] = []

    def on_batch_read(self, header: BatchHeader) -> bool:
        """Moves past a data batch; returns whether its records were aborted."""
        if self._coming:
            self._open_aborted_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted_batch_seen.add(header.producer_id)
            return True
        self._committing.add(header.producer_id)
        return False

    def on_control_batch_read(self, header: BatchHeader, batch: Buffer) -> bool:
        """Moves past a control batch; returns whether its transaction has no records left."""
        self._open_aborted_up_to(header.last_offset)
        if header.record_count == 0:
            return True  # an earlier pass has removed the marker
        record = next(iter_records(batch, max_bytes=MAX_CONTROL_BYTES))
        kind = read_control(record).type
        if kind is ControlType.COMMIT:
            was_open = header.producer_id in self._committing
            self._committing.discard(header.producer_id)
            return not was_open
        if kind is not ControlType.ABORT:
            return False
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is None or header.producer_id not in self._aborted_batch_seen:
            return True
        self._aborted_batch_seen.discard(header.producer_id)
        self.indexed.append(aborted)
        return False

    def _open_aborted_up_to(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[-1].first_offset <= offset:
            txn = coming.pop()
            self._aborted.setdefault(txn.producer_id, txn)
