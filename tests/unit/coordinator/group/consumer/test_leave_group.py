"""Members go, by themselves or because their time is up."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode
from support.groups.classic_groups import GROUP
from support.groups.consumer_groups import SESSION_MS, ConsumerDriver


def test_the_partitions_of_a_member_that_left_go_to_the_others() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a")
    driver.enter_consumer("b")
    driver.settle()
    driver.quit("a")
    driver.settle()
    assert driver.has("b") == {"t1": {0, 1, 2}}


def test_leaving_is_answered_with_the_epoch_of_the_request() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a")
    answer = driver.beat("a", -1)
    assert (answer.member_id, answer.member_epoch) == ("a", -1)
    assert driver.consumers.state_name(0) == "Empty"
    assert not [key for key in driver.timers if "consumer" in str(key)]


def test_a_member_whose_session_expires_is_removed() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a")
    driver.enter_consumer("b")
    driver.settle()
    driver.advance(SESSION_MS - 1)
    driver.beat("b", driver.member("b").epoch)
    driver.advance(1)
    assert list(driver.consumers.members) == ["b"]
    driver.settle()
    assert driver.has("b") == {"t1": {0, 1, 2}}
    with pytest.raises(CoordinatorError) as refused:
        driver.beat("a", 3)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_session_timeout_of_the_group_counts() -> None:
    driver = ConsumerDriver(GroupConfig(consumer_session_timeout_ms=1_000))
    driver.enter_consumer("a")
    driver.advance(1_000)
    assert driver.consumers.is_empty


def test_after_a_restart_members_have_a_full_session() -> None:
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a").member_epoch
    driver.advance(SESSION_MS - 1)
    driver.restart()
    driver.advance(SESSION_MS - 1)
    assert driver.beat("a", epoch).member_epoch == epoch


def test_an_empty_group_can_be_deleted_and_a_full_one_cannot() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a")
    with pytest.raises(CoordinatorError) as refused:
        driver.consumers.check_delete()
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    driver.quit("a")
    driver.consumers.check_delete()
    for change in driver.consumers.tombstones():
        driver._append(change, None)
    assert GROUP not in driver.shard.groups
    driver.restart()
    assert GROUP not in driver.shard.groups


def test_epochs_go_on_when_an_empty_group_gets_members_again() -> None:
    driver = ConsumerDriver()
    first = driver.enter_consumer("a").member_epoch
    driver.quit("a")
    assert driver.enter_consumer("b").member_epoch > first


def test_nothing_changes_when_a_departure_cannot_be_written() -> None:
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a").member_epoch
    driver.fail_next_append = CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(CoordinatorError):
        driver.quit("a")
    assert driver.beat("a", epoch).member_epoch == epoch
