"""InitProducerId: new producers fence old ones, and producers may go on after errors."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.transaction import MAX_EPOCH, NEVER_MS, V1, TransactionState
from headrace.coordinator.transaction.transaction_config import TransactionConfig
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from support.groups.transactions import END_V1, FIRST_PRODUCER_ID, ID, TransactionDriver


def refused(driver: TransactionDriver, **options: object) -> ErrorCode:
    with pytest.raises(CoordinatorError) as raised:
        driver.init(**options)  # type: ignore[arg-type]
    return raised.value.code


def test_a_new_id_starts_with_epoch_0() -> None:
    assert TransactionDriver().init() == ProducerIdentity(FIRST_PRODUCER_ID, 0)


def test_each_new_producer_gets_the_next_epoch_of_the_same_producer_id() -> None:
    driver = TransactionDriver()
    assert [driver.init().epoch for _ in range(3)] == [0, 1, 2]
    assert driver.state().producer_id == FIRST_PRODUCER_ID


def test_the_epoch_continues_after_a_restart() -> None:
    driver = TransactionDriver()
    driver.init()
    driver.restart()
    assert driver.init() == ProducerIdentity(FIRST_PRODUCER_ID, 1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_beyond_the_brokers_limit_is_refused(timeout_ms: int) -> None:
    driver = TransactionDriver()
    assert refused(driver, timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert not driver.log


def test_an_empty_id_and_half_a_producer_are_refused() -> None:
    driver = TransactionDriver()
    assert refused(driver, transactional_id="") is ErrorCode.INVALID_REQUEST
    assert refused(driver, goes_on_from=ProducerIdentity(5, -1)) is ErrorCode.INVALID_REQUEST
    assert refused(driver, goes_on_from=ProducerIdentity(-1, 5)) is ErrorCode.INVALID_REQUEST


# --- KIP-360: going on with the producer id one has ----------------------------------------------


def test_a_producer_that_continues_gets_its_next_epoch() -> None:
    driver = TransactionDriver()
    first = driver.init()
    second = driver.init(goes_on_from=first)
    assert second == ProducerIdentity(first.producer_id, 1)
    assert driver.init(goes_on_from=second).epoch == 2


def test_asking_again_for_the_same_gets_the_same_epoch() -> None:
    driver = TransactionDriver()
    first = driver.init()
    second = driver.init(goes_on_from=first)
    assert driver.init(goes_on_from=first) == second


def test_a_producer_cannot_go_on_once_another_has_the_id() -> None:
    driver = TransactionDriver()
    first = driver.init()
    driver.init()
    assert refused(driver, goes_on_from=first) is ErrorCode.PRODUCER_FENCED


def test_a_producer_of_another_producer_id_is_fenced() -> None:
    driver = TransactionDriver()
    driver.init()
    assert refused(driver, goes_on_from=ProducerIdentity(7, 0)) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_continues_with_an_unknown_id_gets_a_new_one() -> None:
    assert TransactionDriver().init(goes_on_from=ProducerIdentity(7, 3)).epoch == 0


# --- epochs run out -------------------------------------------------------------------------------


def test_the_epoch_after_the_last_is_0_of_a_new_producer_id() -> None:
    driver = TransactionDriver()
    driver.at_epoch(MAX_EPOCH - 1)
    assert driver.init() == ProducerIdentity(FIRST_PRODUCER_ID + 1, 0)


def test_a_producer_that_continues_from_the_last_epoch_may_retry() -> None:
    driver = TransactionDriver()
    last = driver.at_epoch(MAX_EPOCH - 1)
    fresh = driver.init(goes_on_from=last)
    assert fresh == ProducerIdentity(FIRST_PRODUCER_ID + 1, 0)
    assert driver.init(goes_on_from=last) == fresh


# --- an open transaction --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V1, 1, 2])
def test_a_new_producer_aborts_the_open_transaction_and_must_ask_again(version: int) -> None:
    driver = TransactionDriver(version=version)
    first = driver.init()
    driver.add(first)
    assert driver.try_init()[0] is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.state().state is TransactionState.PREPARE_ABORT
    (markers,) = driver.write_markers()
    assert not markers.commit
    assert markers.epoch == first.epoch + 1
    assert driver.init().epoch == first.epoch + 2


def test_no_producer_gets_an_epoch_while_markers_are_missing() -> None:
    driver = TransactionDriver()
    producer = driver.init()
    driver.add(producer)
    driver.end(producer, version=END_V1)
    assert refused(driver) is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    assert driver.init().epoch == 1


def test_a_failed_write_leaves_no_trace() -> None:
    driver = TransactionDriver()
    first = driver.init()
    driver.fail_next_append = CoordinatorError(ErrorCode.NOT_COORDINATOR)
    assert refused(driver, goes_on_from=first) is ErrorCode.NOT_COORDINATOR
    assert driver.state().epoch == 0
    assert driver.init(goes_on_from=first).epoch == 1


# --- two-phase commit -----------------------------------------------------------------------------


def test_two_phase_commit_is_refused_unless_it_is_on() -> None:
    request = InitProducerIdRequest(transactional_id=ID, enable2_pc=True)
    driver = TransactionDriver()
    with pytest.raises(CoordinatorError) as raised:
        driver.run(lambda shard, now_ms: shard.init_producer_id(request, now_ms))
    assert raised.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    allowed = TransactionDriver(TransactionConfig(two_phase_commit=True))
    allowed.run(lambda shard, now_ms: shard.init_producer_id(request, now_ms))
    assert allowed.state().timeout_ms == NEVER_MS


def test_keeping_a_prepared_transaction_is_not_supported_as_in_kafka() -> None:
    request = InitProducerIdRequest(
        transactional_id=ID, transaction_timeout_ms=1000, keep_prepared_txn=True
    )
    with pytest.raises(CoordinatorError) as raised:
        TransactionDriver().run(lambda shard, now_ms: shard.init_producer_id(request, now_ms))
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
