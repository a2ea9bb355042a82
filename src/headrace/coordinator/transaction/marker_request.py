"""What a decided transaction asks of the broker."""

from dataclasses import dataclass

from headrace.coordinator.transaction.transaction import Partition, Transaction


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Writes a marker into each partition, then tells the shard with `TransactionShard.complete`.

    It may be asked for again, by a shard that was loaded anew: writing a marker twice is harmless.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool
    partitions: frozenset[Partition]
    version: int
    """The protocol version by which the transaction ends: with 2, the epoch is a new one."""

    @classmethod
    def of(cls, decided: Transaction) -> "WriteMarkers":
        return cls(
            decided.transactional_id,
            decided.producer_id,
            decided.epoch,
            decided.has_decided_to_commit,
            decided.partitions,
            decided.client_version,
        )
