"""Static members of consumer groups: a process may come back within its session."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from support.groups.consumer_groups import SESSION_MS, ConsumerDriver


def with_static_member() -> tuple[ConsumerDriver, int]:
    driver = ConsumerDriver(t1=4)
    driver.enter_consumer("a1", instance_id="a")
    driver.enter_consumer("b")
    driver.settle()
    return driver, driver.member("a1").epoch


def refused(driver: ConsumerDriver, *args: object, **options: object) -> ErrorCode:
    with pytest.raises(CoordinatorError) as error:
        driver.beat(*args, **options)  # type: ignore[arg-type]
    return error.value.code


def test_what_a_static_member_had_waits_for_its_next_process() -> None:
    driver, epoch = with_static_member()
    had = driver.has("a1")
    driver.quit("a1", -2, instance_id="a")
    driver.settle()
    assert len(driver.has("b")["t1"]) == 2
    answer = driver.enter_consumer("a2", instance_id="a")
    assert driver.told(answer) == had
    assert answer.member_epoch == epoch
    assert set(driver.consumers.members) == {"a2", "b"}
    assert driver.consumers.epoch == epoch


def test_a_static_member_that_stays_away_is_out_with_its_session() -> None:
    driver, _ = with_static_member()
    driver.quit("a1", -2, instance_id="a")
    driver.advance(SESSION_MS - 1)
    driver.beat("b", driver.member("b").epoch)
    driver.advance(1)
    driver.settle()
    assert driver.has("b") == {"t1": {0, 1, 2, 3}}
    assert driver.consumers.instances == {}


def test_a_static_member_that_leaves_for_good_is_out_at_once() -> None:
    driver, _ = with_static_member()
    driver.quit("a1", -1, instance_id="a")
    driver.settle()
    assert driver.has("b") == {"t1": {0, 1, 2, 3}}


def test_two_processes_cannot_have_the_same_instance_id() -> None:
    driver, epoch = with_static_member()
    with pytest.raises(CoordinatorError) as error:
        driver.enter_consumer("a2", instance_id="a")
    assert error.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.beat("a1", epoch, instance_id="a").member_epoch == epoch


def test_the_old_process_is_fenced_once_there_is_a_new_one() -> None:
    driver, epoch = with_static_member()
    driver.quit("a1", -2, instance_id="a")
    driver.enter_consumer("a2", instance_id="a")
    assert refused(driver, "a1", epoch, instance_id="a") is ErrorCode.FENCED_INSTANCE_ID
    assert refused(driver, "a1", -1, instance_id="a") is ErrorCode.FENCED_INSTANCE_ID


def test_an_unknown_instance_is_refused() -> None:
    driver, _ = with_static_member()
    assert refused(driver, "c", 1, instance_id="c") is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(driver, "c", -2, instance_id="c") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_process_may_ask_for_other_topics() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a1", "t1", instance_id="a")
    driver.quit("a1", -2, instance_id="a")
    answer = driver.enter_consumer("a2", "t2", instance_id="a")
    driver.settle()
    assert driver.has("a2") == {"t2": {0, 1, 2}}
    assert answer.member_id == "a2"
    assert not driver.consumers.subscribes_to("t1")


def test_a_replacement_outlives_a_restart() -> None:
    driver, epoch = with_static_member()
    driver.quit("a1", -2, instance_id="a")
    driver.enter_consumer("a2", instance_id="a")
    driver.restart()
    assert driver.beat("a2", epoch, instance_id="a").member_epoch == epoch
    assert driver.consumers.instances == {"a": "a2"}
