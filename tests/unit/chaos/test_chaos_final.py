"""The final read of a run returns everything committed, or reports that it did not."""

from chaos.clients import PARTITIONS, TOPIC
from chaos.final import read_all
from confluent_kafka import Producer

from headrace.testing import Broker

SETTINGS = {
    "num.partitions": str(PARTITIONS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
DEADLINE_S = 30.0


def leave_open(bootstrap: str, timeout_ms: int) -> Producer:
    """Leaves a transaction open in every partition, followed by another producer's record."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "left"}
    left = Producer(settings | {"transaction.timeout.ms": timeout_ms})
    left.init_transactions(DEADLINE_S)
    left.begin_transaction()
    for index in range(PARTITIONS):
        left.produce(TOPIC, b"open", partition=index)
    assert left.flush(DEADLINE_S) == 0
    other = Producer({"bootstrap.servers": bootstrap})
    for index in range(PARTITIONS):
        other.produce(TOPIC, f"behind {index}".encode(), partition=index)
    assert other.flush(DEADLINE_S) == 0
    return left


def test_records_after_an_abandoned_transaction_are_read() -> None:
    # The record after the open transaction must not count as lost.
    with Broker(settings=SETTINGS) as broker:
        left = leave_open(broker.bootstrap_servers, timeout_ms=1000)
        found, complete = read_all(broker.bootstrap_servers, DEADLINE_S)
        del left
    assert complete
    values = {index: [each.value for each in records] for index, records in found.items()}
    assert values == {index: [f"behind {index}"] for index in range(PARTITIONS)}


def test_a_transaction_that_stays_open_is_not_the_end_of_the_log() -> None:
    with Broker(settings=SETTINGS) as broker:
        left = leave_open(broker.bootstrap_servers, timeout_ms=600_000)
        _, complete = read_all(broker.bootstrap_servers, 0.5)
        del left
    assert not complete
