"""The effect of a decided transaction: the markers that the broker must write."""

from dataclasses import dataclass

from headrace.coordinator.transaction.transaction import Partition, Transaction


@dataclass(frozen=True, slots=True)
class TransactionTimedOut:
    """Logs that a transaction is aborted because its producer has not ended it in time."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    partitions: int

    @classmethod
    def of(cls, aborted: Transaction) -> "TransactionTimedOut":
        return cls(
            aborted.transactional_id,
            aborted.producer_id,
            aborted.timeout_ms,
            len(aborted.partitions),
        )


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Writes a marker into each partition, then calls `TransactionShard.complete`.

    A shard that was loaded again may request it again: writing a marker twice is harmless.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool
    partitions: frozenset[Partition]
    version: int
    """The protocol version of the end; with 2, the epoch is a new one."""

    @classmethod
    def for_transaction(cls, decided: Transaction) -> "WriteMarkers":
        return cls(
            decided.transactional_id,
            decided.producer_id,
            decided.epoch,
            decided.has_decided_to_commit,
            decided.partitions,
            decided.client_version,
        )
