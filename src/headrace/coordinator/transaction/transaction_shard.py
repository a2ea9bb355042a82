"""The transactional ids of one partition of `__transaction_state`.

Guarantees: an id's epoch never goes back; a decision to commit or abort is in the log before any
client sees it, and is never changed; while a transaction is decided and not complete, the id
accepts nothing else (CONCURRENT_TRANSACTIONS); a transaction that is open for longer than its
timeout is aborted.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Sequence, Sized
from contextlib import suppress
from typing import Final, TypeVar

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange, RecordFormat
from headrace.coordinator.common.result import CoordinatorResult, ProducerIdentity, SetTimer
from headrace.coordinator.transaction import add_partitions, end_txn, init_producer_id
from headrace.coordinator.transaction.marker_request import TransactionTimedOut, WriteMarkers
from headrace.coordinator.transaction.records import FORMAT, TransactionLogKey, TransactionLogValue
from headrace.coordinator.transaction.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    Partition,
    Transaction,
    TransactionState,
    from_record,
)
from headrace.coordinator.transaction.transaction_config import TransactionConfig
from headrace.coordinator.transaction.transaction_timeout import TransactionTimeouts
from headrace.coordinator.transaction.transactional_id_expiration import expired_ids
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

R = TypeVar("R")

ABORT_TIMER: Final = "abort"
EXPIRATION_TIMER: Final = "expiration"
IDS_PER_CHECK: Final = 500
"""A result is one batch: further timed out or expired ids wait for the next one."""
AGAIN_MS: Final = 10

FIRST_END_VERSION_OF_V2: Final = 5


class TransactionShard:
    """Implements `Shard`.

    `new_producer_id` returns an unused id, or raises CoordinatorError while there is none.
    `version` is the finalised level of the feature `transaction.version`.
    """

    def __init__(
        self,
        index: int,
        config: TransactionConfig,
        new_producer_id: Callable[[], int],
        version: Callable[[], int],
    ) -> None:
        self.index = index
        self.transactions: dict[str, Transaction] = {}
        self._config = config
        self._new_producer_id = new_producer_id
        self._version = version
        self._ongoing: dict[str, None] = {}
        self._timeouts = TransactionTimeouts()
        # Not in the log: the `Transaction.last_epoch` of the result that is being written.
        self._last_epochs: dict[str, int] = {}

    @property
    def format(self) -> RecordFormat:
        return FORMAT

    @property
    def entries(self) -> Sized:
        return self.transactions

    # --- requests -------------------------------------------------------------------------------

    def init_producer_id(
        self, request: InitProducerIdRequest, now_ms: int
    ) -> CoordinatorResult[InitProducerIdResponse]:
        """The producer's id and epoch. An open transaction is aborted first, and the producer must
        retry."""
        expected = init_producer_id.expected_of(request)
        timeout_ms = init_producer_id.timeout_of(request, self._config)
        transactional_id = request.transactional_id or ""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            transaction = Transaction(
                transactional_id, self._new_producer_id(), NO_EPOCH, timeout_ms, now_ms
            )
        init_producer_id.check_expected(transaction, expected)
        if transaction.state.is_prepared:
            raise CoordinatorError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if transaction.state is TransactionState.ONGOING:
            aborted = end_txn.fenced(transaction, self._version(), self._new_producer_id, now_ms)
            ask_again = InitProducerIdResponse(
                error_code=ErrorCode.CONCURRENT_TRANSACTIONS,
                producer_id=NO_PRODUCER_ID,
                producer_epoch=NO_EPOCH,
            )
            return self._write_transactions(ask_again, [aborted])
        renewed = init_producer_id.renewed(
            transaction, expected, timeout_ms, self._new_producer_id, now_ms
        )
        answer = InitProducerIdResponse(
            producer_id=renewed.producer_id, producer_epoch=renewed.epoch
        )
        return self._write_transactions(answer, [renewed])

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: frozenset[Partition],
        client_version: int,
        answer: R,
        now_ms: int,
    ) -> CoordinatorResult[R]:
        """`answer`, once the partitions are in the producer's transaction, which begins if there is
        none."""
        transaction = self._current(transactional_id, producer)
        grown = add_partitions.with_partitions(transaction, partitions, client_version, now_ms)
        return self._write_transactions(answer, [] if grown is None else [grown])

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Iterable[Partition]
    ) -> dict[Partition, ErrorCode]:
        """For each partition, whether it is in the producer's open transaction."""
        transaction = self._current(transactional_id, producer)
        return add_partitions.verify_partitions(transaction, partitions)

    def end(
        self, version: int, request: EndTxnRequest, now_ms: int
    ) -> CoordinatorResult[EndTxnResponse]:
        """Decides the end of a transaction; the markers are written afterwards."""
        if not request.transactional_id:
            raise CoordinatorError(ErrorCode.INVALID_REQUEST)
        transaction = self._existing_transaction(request.transactional_id)
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        commit = request.committed
        if version < FIRST_END_VERSION_OF_V2:
            decided = end_txn.end_v1(transaction, producer, commit=commit, now_ms=now_ms)
            return (
                CoordinatorResult(EndTxnResponse())
                if decided is None
                else self._write_transactions(EndTxnResponse(), [decided])
            )
        decided = end_txn.end_v2(
            transaction, producer, self._new_producer_id, commit=commit, now_ms=now_ms
        )
        after = transaction if decided is None else decided.completed(now_ms)
        answer = EndTxnResponse(producer_id=after.producer_id, producer_epoch=after.epoch)
        return (
            CoordinatorResult(answer)
            if decided is None
            else self._write_transactions(answer, [decided])
        )

    def complete(self, written: WriteMarkers, now_ms: int) -> CoordinatorResult[None]:
        """Called when every partition has its marker: completes the transaction."""
        transaction = self.transactions.get(written.transactional_id)
        if (
            transaction is None
            or not transaction.state.is_prepared
            or (transaction.producer_id, transaction.epoch) != (written.producer_id, written.epoch)
        ):
            return CoordinatorResult(None)  # markers that were written twice
        return self._write_transactions(None, [transaction.completed(now_ms)])

    def find(self, transactional_id: str) -> Transaction:
        """The transaction, for tools; raises CoordinatorError."""
        if not transactional_id:
            raise CoordinatorError(ErrorCode.INVALID_REQUEST)
        found = self.transactions.get(transactional_id)
        if found is None:
            raise CoordinatorError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return found

    # --- inside a request -----------------------------------------------------------------------

    def _existing_transaction(self, transactional_id: str) -> Transaction:
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise CoordinatorError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def _current(self, transactional_id: str, producer: ProducerIdentity) -> Transaction:
        """The transaction, if it is this producer's and can still grow."""
        if not transactional_id:
            raise CoordinatorError(ErrorCode.INVALID_REQUEST)
        transaction = self._existing_transaction(transactional_id)
        add_partitions.check_producer(transaction, producer)
        return transaction

    def _write_transactions(
        self,
        answer: R,
        changed: Sequence[Transaction],
        timers: Sequence[SetTimer] = (),
        effects: Sequence[object] = (),
    ) -> CoordinatorResult[R]:
        for one in changed:
            if one.last_epoch != NO_EPOCH:
                self._last_epochs[one.transactional_id] = one.last_epoch
        return CoordinatorResult(
            answer,
            changes=[one.to_change() for one in changed],
            timers=timers,
            effects=[
                *effects,
                *(WriteMarkers.for_transaction(one) for one in changed if one.state.is_prepared),
            ],
            undo=self._forget_last_epochs,
        )

    def _forget_last_epochs(self, error: CoordinatorError) -> None:
        self._last_epochs.clear()

    # --- records --------------------------------------------------------------------------------

    def replay(self, offset: int, change: RecordChange, producer: ProducerIdentity | None) -> None:
        key, value = change
        assert isinstance(key, TransactionLogKey)
        transactional_id = key.transactional_id
        last_epoch = self._last_epochs.pop(transactional_id, NO_EPOCH)
        self._ongoing.pop(transactional_id, None)
        self._timeouts.changed(transactional_id)
        if value is None:
            self.transactions.pop(transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue)
        transaction = from_record(transactional_id, value, last_epoch)
        self.transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self._ongoing[transactional_id] = None

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Does nothing: this shard's records are never written in a transaction."""

    def loaded(self, now_ms: int) -> CoordinatorResult[None]:
        return CoordinatorResult(
            None,
            timers=[
                SetTimer(ABORT_TIMER, self._config.abort_interval_ms),
                SetTimer(EXPIRATION_TIMER, self._config.expiration_interval_ms),
            ],
            effects=[
                WriteMarkers.for_transaction(one)
                for one in self.transactions.values()
                if one.state.is_prepared
            ],
        )

    def unload(self, error: CoordinatorError) -> None:
        """Does nothing: no request waits for this shard."""

    # --- time -----------------------------------------------------------------------------------

    @property
    def expirations(self) -> Container[Hashable]:
        return (EXPIRATION_TIMER,)

    def on_timeout(self, key: Hashable, now_ms: int) -> CoordinatorResult[None]:
        return self._abort_overdue(now_ms) if key == ABORT_TIMER else self._expire_ids(now_ms)

    def _abort_overdue(self, now_ms: int) -> CoordinatorResult[None]:
        aborted: list[Transaction] = []
        interval_ms = self._config.abort_interval_ms
        ongoing = map(self.transactions.__getitem__, self._ongoing)
        for one in self._timeouts.overdue(ongoing, now_ms):
            if len(aborted) == IDS_PER_CHECK:
                interval_ms = AGAIN_MS
                break
            # Without a producer id at the moment, the next check may have one.
            with suppress(CoordinatorError):
                aborted.append(end_txn.fenced(one, self._version(), self._new_producer_id, now_ms))
        timer = SetTimer(ABORT_TIMER, interval_ms)
        overdue = [TransactionTimedOut.of(one) for one in aborted]
        return self._write_transactions(None, aborted, [timer], overdue)

    def _expire_ids(self, now_ms: int) -> CoordinatorResult[None]:
        expired = expired_ids(self.transactions.values(), self._config.id_expiration_ms, now_ms)
        has_more = len(expired) > IDS_PER_CHECK
        interval_ms = AGAIN_MS if has_more else self._config.expiration_interval_ms
        return CoordinatorResult(
            None,
            changes=[
                RecordChange(TransactionLogKey(transactional_id=transactional_id), None)
                for transactional_id in expired[:IDS_PER_CHECK]
            ],
            timers=[SetTimer(EXPIRATION_TIMER, interval_ms)],
        )
