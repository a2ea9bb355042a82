"""EndTxn: one decision a transaction, told to those who ask again, in both protocols."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.transaction import MAX_EPOCH, V2, TransactionState
from headrace.protocol.errors import ErrorCode
from support.groups.transactions import (
    END_V1,
    END_V2,
    FIRST_PRODUCER_ID,
    TOPIC_0,
    TOPIC_1,
    TransactionDriver,
)

BOTH = pytest.mark.parametrize("version", [END_V1, END_V2])
EITHER_END = pytest.mark.parametrize("commit", [True, False])


def refusal(driver: TransactionDriver, producer: ProducerIdentity, **options: object) -> ErrorCode:
    with pytest.raises(CoordinatorError) as raised:
        driver.end(producer, **options)  # type: ignore[arg-type]
    return raised.value.code


def open_transaction(driver: TransactionDriver) -> ProducerIdentity:
    producer = driver.init()
    driver.add(producer, [TOPIC_0, TOPIC_1])
    return producer


@BOTH
@EITHER_END
def test_the_end_is_decided_then_marked_then_complete(version: int, commit: bool) -> None:
    driver = TransactionDriver()
    producer = open_transaction(driver)
    driver.end(producer, commit=commit, version=version)
    prepared, complete = (
        (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        if commit
        else (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
    )
    assert driver.state().state is prepared
    (markers,) = driver.write_markers()
    assert (markers.commit, markers.partitions) == (commit, {TOPIC_0, TOPIC_1})
    assert (driver.state().state, driver.state().partitions) == (complete, frozenset())


def test_version_1_keeps_the_epoch() -> None:
    driver = TransactionDriver()
    producer = open_transaction(driver)
    driver.end(producer, version=END_V1)
    (markers,) = driver.write_markers()
    assert markers.epoch == driver.state().epoch == producer.epoch


def test_version_2_raises_the_epoch_and_marks_with_the_new_one() -> None:
    driver = TransactionDriver()
    producer = open_transaction(driver)
    after = driver.end(producer)
    assert after == ProducerIdentity(producer.producer_id, producer.epoch + 1)
    (markers,) = driver.write_markers()
    assert markers.epoch == after.epoch
    assert driver.state().epoch == after.epoch


@BOTH
@EITHER_END
def test_a_retry_gets_concurrent_transactions_and_then_success(version: int, commit: bool) -> None:
    driver = TransactionDriver()
    producer = open_transaction(driver)
    first = driver.end(producer, commit=commit, version=version)
    again = {"commit": commit, "version": version}
    assert refusal(driver, producer, **again) is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    size = len(driver.log)
    assert driver.end(producer, commit=commit, version=version) == first
    assert len(driver.log) == size


@BOTH
@EITHER_END
def test_a_decision_is_never_changed(version: int, commit: bool) -> None:
    driver = TransactionDriver()
    producer = open_transaction(driver)
    driver.end(producer, commit=commit, version=version)
    other = {"commit": not commit, "version": version}
    assert refusal(driver, producer, **other) is (
        ErrorCode.INVALID_TXN_STATE if version == END_V1 else ErrorCode.CONCURRENT_TRANSACTIONS
    )
    driver.write_markers()
    assert refusal(driver, producer, **other) is ErrorCode.INVALID_TXN_STATE


@EITHER_END
def test_the_next_transaction_may_be_aborted_when_the_markers_of_the_last_one_are_written(
    commit: bool,
) -> None:
    """Nothing of it may have arrived. Its producer is not fenced: it tries again."""
    driver = TransactionDriver()
    after = driver.end(open_transaction(driver), commit=commit)
    assert refusal(driver, after, commit=False) is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    assert driver.end(after, commit=False).epoch == after.epoch + 1


@EITHER_END
def test_version_1_cannot_end_what_was_not_begun(commit: bool) -> None:
    driver = TransactionDriver()
    producer = driver.init()
    assert refusal(driver, producer, commit=commit, version=END_V1) is ErrorCode.INVALID_TXN_STATE


def test_version_2_may_abort_what_was_not_begun_and_gets_a_new_epoch() -> None:
    driver = TransactionDriver()
    producer = driver.init()
    for _ in range(3):
        after = driver.end(producer, commit=False)
        assert after.epoch == producer.epoch + 1
        (markers,) = driver.write_markers()
        assert not markers.partitions
        producer = after
    assert driver.state().state is TransactionState.COMPLETE_ABORT


def test_version_2_cannot_commit_what_was_not_begun() -> None:
    driver = TransactionDriver()
    producer = driver.init()
    assert refusal(driver, producer, commit=True) is ErrorCode.INVALID_TXN_STATE
    driver.add(producer)
    after = driver.end(producer)
    driver.write_markers()
    assert refusal(driver, after, commit=True) is ErrorCode.INVALID_TXN_STATE


@BOTH
def test_old_epochs_foreign_producers_and_unknown_ids_are_refused(version: int) -> None:
    driver = TransactionDriver()
    old = driver.init()
    driver.init()
    new = driver.init()
    driver.add(new)
    assert refusal(driver, old, version=version) is ErrorCode.PRODUCER_FENCED
    foreign = ProducerIdentity(1, new.epoch)
    assert refusal(driver, foreign, version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    unknown = {"transactional_id": "x", "version": version}
    assert refusal(driver, new, **unknown) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(driver, new, transactional_id="", version=version) is ErrorCode.INVALID_REQUEST


# --- the last epochs ------------------------------------------------------------------------------


def at_epoch(driver: TransactionDriver, epoch: int) -> ProducerIdentity:
    """A producer with this epoch and an open transaction."""
    producer = driver.at_epoch(epoch)
    driver.add(producer, client_version=V2)
    return producer


def test_the_last_epoch_but_one_still_goes_up_by_one() -> None:
    driver = TransactionDriver()
    producer = at_epoch(driver, MAX_EPOCH - 2)
    assert driver.end(producer) == ProducerIdentity(producer.producer_id, MAX_EPOCH - 1)


@EITHER_END
def test_after_the_last_epoch_of_clients_comes_a_new_producer_id(commit: bool) -> None:
    driver = TransactionDriver()
    producer = at_epoch(driver, MAX_EPOCH - 1)
    after = driver.end(producer, commit=commit)
    assert after == ProducerIdentity(FIRST_PRODUCER_ID + 1, 0)
    (markers,) = driver.write_markers()
    # The old transaction ends under its own producer id, with the epoch that no client gets.
    assert (markers.producer_id, markers.epoch) == (producer.producer_id, MAX_EPOCH)
    assert (driver.state().producer_id, driver.state().epoch) == after
    # A retry is recognised across the change of the producer id.
    assert driver.end(producer, commit=commit) == after


def test_the_change_of_the_producer_id_survives_a_restart_between_decision_and_end() -> None:
    driver = TransactionDriver()
    producer = at_epoch(driver, MAX_EPOCH - 1)
    after = driver.end(producer)
    driver.restart()
    driver.write_markers()
    assert (driver.state().producer_id, driver.state().epoch) == after


def test_fencing_at_the_last_epoch_gives_the_next_producer_a_new_id() -> None:
    driver = TransactionDriver()
    at_epoch(driver, MAX_EPOCH - 1)
    assert driver.try_init()[0] is ErrorCode.CONCURRENT_TRANSACTIONS
    (markers,) = driver.write_markers()
    assert markers.epoch == MAX_EPOCH
    assert driver.init() == ProducerIdentity(FIRST_PRODUCER_ID + 1, 1)


def test_with_version_1_a_fenced_last_epoch_rotates_at_the_next_start() -> None:
    driver = TransactionDriver(version=1)
    at_epoch(driver, MAX_EPOCH - 1)
    assert driver.try_init()[0] is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    assert driver.state().epoch == MAX_EPOCH
    assert driver.init() == ProducerIdentity(FIRST_PRODUCER_ID + 1, 0)
