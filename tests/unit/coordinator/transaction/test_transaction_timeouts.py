"""Timeouts, expiry, and what a shard does when it is loaded."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.transaction.transaction import MAX_EPOCH, TransactionState
from headrace.coordinator.transaction.transaction_config import TransactionConfig
from headrace.coordinator.transaction.transaction_shard import IDS_PER_CHECK
from headrace.protocol.errors import ErrorCode
from support.groups.transactions import END_V1, ID, TIMEOUT_MS, TransactionDriver

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_overdue_transaction_is_aborted_and_its_producer_fenced(version: int) -> None:
    driver = TransactionDriver(version=version)
    producer = driver.init()
    driver.add(producer)
    driver.advance(TIMEOUT_MS)
    assert driver.state().state is TransactionState.ONGOING
    driver.advance(10_001)
    assert driver.state().state is TransactionState.PREPARE_ABORT
    (markers,) = driver.write_markers()
    assert markers.epoch == driver.state().epoch == producer.epoch + 1
    with pytest.raises(CoordinatorError) as raised:
        driver.add(producer)
    assert raised.value.code is ErrorCode.PRODUCER_FENCED


def test_only_open_transactions_are_overdue() -> None:
    driver = TransactionDriver()
    producer = driver.init()
    driver.add(producer)
    driver.end(producer, version=END_V1)
    driver.write_markers()
    driver.advance(HOUR_MS)
    assert driver.state().state is TransactionState.COMPLETE_COMMIT


def test_a_transaction_timeout_continues_over_a_restart() -> None:
    driver = TransactionDriver()
    driver.add(driver.init())
    driver.advance(TIMEOUT_MS - 5_000)
    driver.restart()
    driver.advance(20_000)
    assert driver.state().state is TransactionState.PREPARE_ABORT


@pytest.mark.parametrize("is_restarted", [True, False])
def test_a_transaction_that_began_in_the_future_is_aborted_in_time(is_restarted: bool) -> None:
    """By the clock of the coordinator before this one, or by ours before it was set back."""
    driver = TransactionDriver()
    driver.now_ms += WEEK_MS
    driver.add(driver.init())
    driver.now_ms -= WEEK_MS
    if is_restarted:
        driver.restart()
    else:
        driver.timers = {key: at - WEEK_MS for key, at in driver.timers.items()}
    driver.advance(TIMEOUT_MS)
    assert driver.state().state is TransactionState.ONGOING
    driver.advance(20_001)
    assert driver.state().state is TransactionState.PREPARE_ABORT


def test_many_overdue_transactions_end_in_several_turns() -> None:
    driver = TransactionDriver()
    ids = [f"id-{number}" for number in range(IDS_PER_CHECK + 1)]
    for transactional_id in ids:
        driver.add(driver.init(transactional_id), transactional_id=transactional_id)
    driver.advance(TIMEOUT_MS + 20_000)
    assert len(driver.write_markers()) == len(ids)


def test_no_producer_ids_left_for_an_overdue_transaction_is_tried_again() -> None:
    driver = TransactionDriver()
    driver.add(driver.at_epoch(MAX_EPOCH - 1))
    real, driver.shard._new_producer_id = driver.shard._new_producer_id, fail
    driver.advance(TIMEOUT_MS + 20_000)
    assert driver.state().state is TransactionState.ONGOING
    driver.shard._new_producer_id = real
    driver.advance(10_001)
    assert driver.state().state is TransactionState.PREPARE_ABORT


def fail() -> int:
    raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def test_an_idle_id_is_forgotten_after_a_week() -> None:
    driver = TransactionDriver()
    driver.init()
    driver.advance(WEEK_MS - 1)
    assert ID in driver.shard.transactions
    driver.advance(HOUR_MS + 1)
    assert ID not in driver.shard.transactions
    driver.restart()
    assert ID not in driver.shard.transactions


def test_an_open_transaction_never_expires_however_idle() -> None:
    config = TransactionConfig(two_phase_commit=True, max_timeout_ms=2**31 - 1)
    driver = TransactionDriver(config)
    driver.add(driver.init(timeout_ms=2**31 - 1))
    driver.advance(2 * WEEK_MS)
    assert driver.state().state is TransactionState.ONGOING


@pytest.mark.parametrize("commit", [True, False])
def test_a_loaded_shard_asks_for_the_markers_of_what_was_decided(commit: bool) -> None:
    driver = TransactionDriver()
    producer = driver.init()
    driver.add(producer)
    driver.end(producer, commit=commit)
    (asked,) = driver.take_markers()
    driver.restart()
    (again,) = driver.write_markers()
    assert again == asked
    assert not driver.state().state.is_prepared


def test_markers_that_are_reported_twice_change_nothing() -> None:
    driver = TransactionDriver()
    producer = driver.init()
    driver.add(producer)
    after = driver.end(producer)
    (markers,) = driver.write_markers()
    driver.add(after)
    driver.end(after)
    size = len(driver.log)
    driver.complete(markers)
    assert len(driver.log) == size
    assert driver.state().state is TransactionState.PREPARE_COMMIT
