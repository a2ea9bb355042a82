"""Who may commit and fetch offsets: the epochs decide."""

from collections.abc import Callable

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.group import CommitCheck, CommittingMember
from headrace.protocol.errors import ErrorCode
from headrace.protocol.types import ZERO_UUID
from support.groups.consumer_groups import ConsumerDriver


def commit(
    driver: ConsumerDriver,
    member_id: str,
    epoch: int,
    *,
    transactional: bool = False,
    version: int = 9,
) -> CommitCheck | None:
    return driver.consumers.check_commit(
        CommittingMember(member_id, None, epoch, transactional=transactional, version=version)
    )


def code(check: Callable[[], object]) -> ErrorCode:
    with pytest.raises(CoordinatorError) as refused:
        check()
    return refused.value.code


def reconciled() -> tuple[ConsumerDriver, int, int]:
    """`a` has had t1-0 and t1-1 since its first epoch, and is now in the second."""
    driver = ConsumerDriver(t1=4)
    old = driver.enter_consumer("a").member_epoch
    driver.enter_consumer("b")
    driver.settle()
    return driver, old, driver.member("a").epoch


def test_a_member_commits_in_its_epoch() -> None:
    driver, _, epoch = reconciled()
    assert commit(driver, "a", epoch) is None


def test_an_epoch_from_the_future_is_stale() -> None:
    driver, _, epoch = reconciled()
    assert code(lambda: commit(driver, "a", epoch + 1)) is ErrorCode.STALE_MEMBER_EPOCH


def test_in_an_older_epoch_a_member_commits_what_it_has_had_since() -> None:
    driver, old, _ = reconciled()
    check = commit(driver, "a", old)
    assert check is not None
    topic_id = driver.cluster.image.topics["t1"].topic_id
    kept = driver.has("a")["t1"]
    for partition in kept:
        check("t1", topic_id, partition)
        check("t1", ZERO_UUID, partition)
    for partition in {0, 1, 2, 3} - kept:
        assert code(lambda at=partition: check("t1", topic_id, at)) is ErrorCode.STALE_MEMBER_EPOCH
    assert code(lambda: check("unknown", ZERO_UUID, 0)) is ErrorCode.STALE_MEMBER_EPOCH


def test_what_a_member_got_later_it_cannot_commit_in_an_older_epoch() -> None:
    driver, _, epoch = reconciled()
    driver.quit("a")
    driver.settle()
    check = commit(driver, "b", epoch)
    assert check is not None
    (given,) = driver.member("b").assigned.values()
    late = [number for number, at in given.items() if at > epoch]
    assert len(late) == 2
    assert code(lambda: check("t1", ZERO_UUID, late[0])) is ErrorCode.STALE_MEMBER_EPOCH


def test_old_versions_of_the_request_cannot_tell_an_epoch() -> None:
    driver, _, epoch = reconciled()
    refused = code(lambda: commit(driver, "a", epoch, version=8))
    assert refused is ErrorCode.UNSUPPORTED_VERSION
    assert commit(driver, "a", epoch, version=3, transactional=True) is None


def test_strangers_do_not_commit() -> None:
    driver, _, epoch = reconciled()
    assert code(lambda: commit(driver, "x", epoch)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(lambda: commit(driver, "", -1)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_old_transactional_producers_need_not_send_a_member_id() -> None:
    driver, _, _ = reconciled()
    assert commit(driver, "", -1, transactional=True) is None


def test_tools_commit_for_an_empty_group() -> None:
    driver, _, _ = reconciled()
    driver.quit("a")
    driver.quit("b")
    assert commit(driver, "", -1) is None


def test_offsets_are_fetched_by_members_in_their_epoch_and_by_tools() -> None:
    driver, old, epoch = reconciled()
    group = driver.consumers
    group.check_fetch(None, -1)
    group.check_fetch("a", epoch)
    assert code(lambda: group.check_fetch("a", old)) is ErrorCode.STALE_MEMBER_EPOCH
    assert code(lambda: group.check_fetch("x", epoch)) is ErrorCode.UNKNOWN_MEMBER_ID
