"""Drives a transaction shard, with short names for a producer's requests."""

from collections.abc import Iterable

from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.marker_request import WriteMarkers
from headrace.coordinator.transaction.transaction import V1, V2, Partition, Transaction
from headrace.coordinator.transaction.transaction_config import TransactionConfig
from headrace.coordinator.transaction.transaction_shard import TransactionShard
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.end_txn import EndTxnRequest
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from support.groups.shards import ShardDriver

FIRST_PRODUCER_ID = 1000
ID = "payments"
TOPIC_0: Partition = ("orders", 0)
TOPIC_1: Partition = ("orders", 1)
END_V1 = 4
END_V2 = 5
TIMEOUT_MS = 60_000


class TransactionDriver(ShardDriver[TransactionShard]):
    """Omitted arguments refer to the default producer of most tests."""

    def __init__(self, config: TransactionConfig | None = None, *, version: int = V2) -> None:
        self.version = version
        self.producer_ids = iter(range(FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + 1000))
        super().__init__(
            lambda: TransactionShard(
                0,
                config or TransactionConfig(),
                lambda: next(self.producer_ids),
                lambda: self.version,
            )
        )

    def init(
        self,
        transactional_id: str = ID,
        *,
        timeout_ms: int = TIMEOUT_MS,
        goes_on_from: ProducerIdentity | None = None,
    ) -> ProducerIdentity:
        """The producer's new identity; raises AssertionError if the answer is an error."""
        code, producer = self.try_init(
            transactional_id, timeout_ms=timeout_ms, goes_on_from=goes_on_from
        )
        assert code is ErrorCode.NONE, code
        return producer

    def try_init(
        self,
        transactional_id: str = ID,
        *,
        timeout_ms: int = TIMEOUT_MS,
        goes_on_from: ProducerIdentity | None = None,
    ) -> tuple[ErrorCode, ProducerIdentity]:
        before = goes_on_from or ProducerIdentity(-1, -1)
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=before.producer_id,
            producer_epoch=before.epoch,
        )
        answer = self.run(lambda shard, now_ms: shard.init_producer_id(request, now_ms))
        return ErrorCode(answer.error_code), ProducerIdentity(
            answer.producer_id, answer.producer_epoch
        )

    def add(
        self,
        producer: ProducerIdentity,
        partitions: Iterable[Partition] = (TOPIC_0,),
        *,
        transactional_id: str = ID,
        client_version: int = V1,
    ) -> None:
        self.run(
            lambda shard, now_ms: shard.add_partitions(
                transactional_id, producer, frozenset(partitions), client_version, True, now_ms
            )
        )

    def end(
        self,
        producer: ProducerIdentity,
        *,
        commit: bool = True,
        version: int = END_V2,
        transactional_id: str = ID,
    ) -> ProducerIdentity:
        """The producer's identity after the transaction."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        answer = self.run(lambda shard, now_ms: shard.end(version, request, now_ms))
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    def take_markers(self) -> list[WriteMarkers]:
        """The markers that were requested since the last call."""
        wanted = [effect for effect in self.effects if isinstance(effect, WriteMarkers)]
        self.effects.clear()
        return wanted

    def write_markers(self) -> list[WriteMarkers]:
        """Writes all requested markers: the transactions are complete."""
        wanted = self.take_markers()
        for markers in wanted:
            self.complete(markers)
        return wanted

    def complete(self, markers: WriteMarkers) -> None:
        self.start(lambda shard, now_ms: shard.complete(markers, now_ms))

    def at_epoch(self, epoch: int) -> ProducerIdentity:
        """A producer that has reached this epoch."""
        producer = ProducerIdentity(self.init().producer_id, epoch)
        state = Transaction(ID, producer.producer_id, epoch, TIMEOUT_MS, self.now_ms)
        self.shard.transactions[ID] = state
        return producer

    def state(self, transactional_id: str = ID) -> Transaction:
        return self.shard.transactions[transactional_id]
