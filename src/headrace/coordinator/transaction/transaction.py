"""One transactional id: its producer and its current transaction."""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.transaction.records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

NO_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_TIME: Final = -1
MAX_EPOCH: Final = 32767
LAST_CLIENT_EPOCH: Final = MAX_EPOCH - 1
"""No client gets the largest epoch, so that the coordinator can always fence the last client."""

V1: Final = 0
"""The protocol version of a client that adds partitions itself. Kafka records it as 0."""
V2: Final = 2
"""A client whose epoch is bumped with every transaction (KIP-890)."""

NEVER_MS: Final = 2**31 - 1
"""The timeout of a transaction that an external coordinator ends (KIP-939)."""

Partition = tuple[str, int]
NO_PARTITIONS: Final[frozenset[Partition]] = frozenset()


class TransactionState(IntEnum):
    """Kafka's numbers. 6 (Dead) and 7 (PrepareEpochFence) are never written."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name that tools show."""
        return _TITLES[self]

    @property
    def is_prepared(self) -> bool:
        """Decided, with markers still to be written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


_TITLES: Final = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
    TransactionState.DEAD: "Dead",
    TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of one transactional id. Immutable: each change makes a new one."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    updated_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[Partition] = NO_PARTITIONS
    started_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id that replaces this one when the markers are written, because its epochs are
    used up."""
    client_version: int = V1
    last_epoch: int = NO_EPOCH
    """The previous epoch, if the same producer had it and may retry. Not in the log, as in
    Kafka."""

    @property
    def is_exhausted(self) -> bool:
        """Whether no further epoch of this producer id may be given to a client."""
        return self.epoch >= LAST_CLIENT_EPOCH

    @property
    def has_decided_to_commit(self) -> bool:
        return self.state is TransactionState.PREPARE_COMMIT

    # --- transitions ----------------------------------------------------------------------------

    def renewed(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> "Transaction":
        """After InitProducerId: no transaction, and an epoch that fences earlier producers."""
        return replace(
            self,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=NO_PARTITIONS,
            started_ms=NO_TIME,
            updated_ms=now_ms,
        )

    def with_partitions(
        self, added: frozenset[Partition], client_version: int, now_ms: int
    ) -> "Transaction":
        """The transaction with more partitions; the first ones begin it."""
        begins = self.state is not TransactionState.ONGOING
        return replace(
            self,
            previous_producer_id=self.producer_id,
            state=TransactionState.ONGOING,
            partitions=added if begins else self.partitions | added,
            started_ms=now_ms if begins else self.started_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def decided(
        self,
        *,
        commit: bool,
        epoch: int,
        last_epoch: int,
        client_version: int,
        now_ms: int,
        next_producer_id: int = NO_PRODUCER_ID,
    ) -> "Transaction":
        """The decision is made; the transaction is complete when every partition has its marker."""
        return replace(
            self,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            epoch=epoch,
            last_epoch=last_epoch,
            state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            started_ms=self.started_ms if self.state is TransactionState.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """Every marker is written."""
        rotates = self.client_version >= V2 and self.next_producer_id != NO_PRODUCER_ID
        commits = self.state is TransactionState.PREPARE_COMMIT
        return replace(
            self,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            epoch=0 if rotates else self.epoch,
            state=TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT,
            partitions=NO_PARTITIONS,
            updated_ms=now_ms,
        )

    # --- records --------------------------------------------------------------------------------

    def to_change(self) -> RecordChange:
        return RecordChange(
            TransactionLogKey(transactional_id=self.transactional_id),
            TransactionLogValue(
                producer_id=self.producer_id,
                previous_producer_id=self.previous_producer_id,
                next_producer_id=self.next_producer_id,
                producer_epoch=self.epoch,
                transaction_timeout_ms=self.timeout_ms,
                transaction_status=self.state,
                transaction_partitions=(
                    None if self.state is TransactionState.EMPTY else _by_topic(self.partitions)
                ),
                transaction_last_update_timestamp_ms=self.updated_ms,
                transaction_start_timestamp_ms=self.started_ms,
                client_transaction_version=self.client_version,
            ),
        )


def from_record(
    transactional_id: str, value: TransactionLogValue, last_epoch: int = NO_EPOCH
) -> Transaction:
    """Decodes the record of a transactional id."""
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        value.transaction_last_update_timestamp_ms,
        TransactionState(value.transaction_status),
        frozenset(
            (schema.topic, index)
            for schema in value.transaction_partitions or ()
            for index in schema.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
        last_epoch,
    )


def _by_topic(partitions: frozenset[Partition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return [
        PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()
    ]
