"""Which batches belong to aborted transactions, and which markers nobody needs any more. Pure.

A cleaner walks the log from its start. An aborted batch goes at once. A marker stays as long as
there is a batch of its transaction in front of it, because readers end the transaction with it;
after that it is kept for a while (`delete.retention.ms`), because a reader may be in between.
"""

from collections.abc import Iterable

from headrace.records.batch import BatchHeader
from headrace.records.buffer import Buffer
from headrace.records.control import ControlType, read_control
from headrace.records.record import iter_records
from headrace.storage.segment.aborted_txn import AbortedTxn

# A control batch holds one small record; anything larger is not one.
MAX_CONTROL_BYTES = 4096


class TransactionWalk:
    """What is known of the transactions at one place of the log.

    `indexed` collects the aborted transactions of which something is left: they must stay in the
    index of aborted transactions.
    """

    __slots__ = ("_aborted", "_coming", "_committing", "_seen", "indexed")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._coming = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}  # open here, by producer
        self._seen: set[int] = set()  # producers of which an aborted batch was met
        self._committing: set[int] = set()  # producers of which a batch to be committed was met
        self.indexed: list[AbortedTxn] = []

    def meet_batch(self, header: BatchHeader) -> bool:
        """Takes in a data batch; whether its records were aborted."""
        if self._coming:
            self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._seen.add(header.producer_id)
            return True
        self._committing.add(header.producer_id)
        return False

    def meet_marker(self, header: BatchHeader, batch: Buffer) -> bool:
        """Takes in a control batch; whether nothing of its transaction is left."""
        self._begin_up_to(header.last_offset)
        if header.record_count == 0:
            return True  # it has been cleaned before
        record = next(iter_records(batch, max_bytes=MAX_CONTROL_BYTES))
        kind = read_control(record).type
        if kind is ControlType.COMMIT:
            was_open = header.producer_id in self._committing
            self._committing.discard(header.producer_id)
            return not was_open
        if kind is not ControlType.ABORT:
            return False
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is None or header.producer_id not in self._seen:
            return True
        self._seen.discard(header.producer_id)
        self.indexed.append(aborted)
        return False

    def _begin_up_to(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[-1].first_offset <= offset:
            txn = coming.pop()
            self._aborted.setdefault(txn.producer_id, txn)
