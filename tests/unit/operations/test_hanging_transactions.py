"""Only open transactions that nothing was written to for long are suspects."""

from headrace.client.admin.transactions import NO_TRANSACTION, ActiveProducer
from headrace.client.results import Refusal, TopicPartition
from headrace.operations.hanging_transactions import suspects_of
from headrace.protocol.errors import ErrorCode

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def producer(id_: int, start: int, last_ms: int) -> ActiveProducer:
    return ActiveProducer(id_, 0, 0, 1, last_ms, start)


def test_suspects_are_open_and_idle() -> None:
    idle = producer(1, 40, 1_000)
    found = suspects_of(
        {
            P1: [idle, producer(2, 50, 9_000), producer(3, NO_TRANSACTION, 1_000)],
            P0: Refusal(ErrorCode.LEADER_NOT_AVAILABLE, "no leader"),
        },
        before_ms=5_000,
    )
    assert found == [(P1, idle)]
