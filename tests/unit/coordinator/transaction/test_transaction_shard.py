"""AddPartitionsToTxn: partitions join the transaction of the right producer only."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.transaction import V2, TransactionState
from headrace.protocol.errors import ErrorCode
from support.groups.transactions import END_V1, ID, TOPIC_0, TOPIC_1, TransactionDriver


def refusal(driver: TransactionDriver, producer: ProducerIdentity, **options: object) -> ErrorCode:
    with pytest.raises(CoordinatorError) as raised:
        driver.add(producer, **options)  # type: ignore[arg-type]
    return raised.value.code


def test_the_first_partition_begins_the_transaction() -> None:
    driver = TransactionDriver()
    producer = driver.init()
    driver.advance(500)
    driver.add(producer)
    state = driver.state()
    assert (state.state, state.partitions) == (TransactionState.ONGOING, {TOPIC_0})
    assert state.started_ms == driver.now_ms


def test_more_partitions_do_not_restart_its_clock() -> None:
    driver = TransactionDriver()
    producer = driver.init()
    driver.add(producer)
    started_ms = driver.now_ms
    driver.advance(500)
    driver.add(producer, [TOPIC_1])
    assert driver.state().partitions == {TOPIC_0, TOPIC_1}
    assert driver.state().started_ms == started_ms


def test_a_partition_that_is_there_writes_nothing() -> None:
    driver = TransactionDriver()
    producer = driver.init()
    driver.add(producer)
    size = len(driver.log)
    driver.add(producer)
    assert len(driver.log) == size


def test_partitions_of_the_last_transaction_are_not_in_the_next() -> None:
    driver = TransactionDriver()
    producer = driver.init()
    driver.add(producer, [TOPIC_0])
    driver.end(producer, version=END_V1)
    driver.write_markers()
    driver.add(producer, [TOPIC_1])
    assert driver.state().partitions == {TOPIC_1}


def test_unknown_ids_foreign_producer_ids_and_old_epochs_are_refused() -> None:
    driver = TransactionDriver()
    old = driver.init()
    new = driver.init()
    assert refusal(driver, new, transactional_id="x") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(driver, ProducerIdentity(1, new.epoch)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(driver, old) is ErrorCode.PRODUCER_FENCED
    assert refusal(driver, new, transactional_id="") is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_transaction_accepts_no_more_partitions(commit: bool) -> None:
    driver = TransactionDriver()
    producer = driver.init()
    driver.add(producer)
    driver.end(producer, commit=commit, version=END_V1)
    assert refusal(driver, producer) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_verification_tells_what_is_in_the_open_transaction() -> None:
    driver = TransactionDriver()
    producer = driver.init()
    driver.add(producer, [TOPIC_0])

    def verify(by: ProducerIdentity) -> dict[tuple[str, int], ErrorCode]:
        return driver.shard.verify_partitions(ID, by, [TOPIC_0, TOPIC_1])

    assert verify(producer) == {
        TOPIC_0: ErrorCode.NONE,
        TOPIC_1: ErrorCode.TRANSACTION_ABORTABLE,
    }
    with pytest.raises(CoordinatorError) as raised:
        verify(ProducerIdentity(producer.producer_id, producer.epoch + 1))
    assert raised.value.code is ErrorCode.PRODUCER_FENCED
    driver.end(producer, version=END_V1)
    with pytest.raises(CoordinatorError) as raised:
        verify(producer)
    assert raised.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    assert set(verify(producer).values()) == {ErrorCode.TRANSACTION_ABORTABLE}


def test_what_a_transaction_holds_survives_a_restart() -> None:
    driver = TransactionDriver()
    producer = driver.init()
    driver.add(producer, [TOPIC_0, TOPIC_1], client_version=V2)
    before = driver.state()
    driver.restart()
    assert driver.state() == before
