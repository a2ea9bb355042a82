"""How members of classic groups go: by their own word, by an operator's, by silence."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.protocol.errors import ErrorCode
from support.groups.classic_groups import REBALANCE_MS, SESSION_MS, ClassicDriver


def test_a_heartbeat_needs_the_members_id_and_generation() -> None:
    driver = ClassicDriver()
    with pytest.raises(CoordinatorError) as refused:
        driver.heartbeat("who", 1)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    (leader,) = driver.form(1)
    assert driver.heartbeat(leader, 1) is ErrorCode.NONE
    with pytest.raises(CoordinatorError) as refused:
        driver.heartbeat(leader, 0)
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION
    with pytest.raises(CoordinatorError) as refused:
        driver.heartbeat("who", 1)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_writes_nothing() -> None:
    driver = ClassicDriver()
    (leader,) = driver.form(1)
    written = len(driver.log)
    driver.heartbeat(leader, 1)
    assert len(driver.log) == written


def test_a_silent_member_is_out_after_its_session_and_the_others_rebalance() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    driver.advance(SESSION_MS - 1)
    driver.heartbeat(leader, 1)
    assert other in driver.group.members
    driver.advance(1)
    assert set(driver.group.members) == {leader}
    assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.join(leader).value.generation_id == 2


def test_a_member_that_waits_to_join_need_not_heartbeat() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    waiting = driver.join(leader)
    for _ in range(4):
        driver.advance(SESSION_MS // 2)
        driver.heartbeat(other, 1)
    assert leader in driver.group.members
    driver.join(other)
    assert waiting.value.generation_id == 2


def test_the_others_rebalance_when_a_member_leaves() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    answer = driver.leave(leader)
    assert [one.error_code for one in answer.members] == [ErrorCode.NONE]
    assert driver.heartbeat(other, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.join(other).value
    assert again.generation_id == 2
    assert again.leader == other


def test_a_departure_may_be_what_the_join_phase_waited_for() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    waiting = driver.join(leader)
    driver.leave(other)
    assert waiting.value.generation_id == 2


def test_the_last_to_leave_makes_an_empty_generation() -> None:
    driver = ClassicDriver()
    (leader,) = driver.form(1)
    driver.leave(leader)
    assert driver.group.state is ClassicState.EMPTY
    assert driver.group.generation == 2
    assert driver.classic_timers == set()
    driver.restart()
    assert driver.group.state is ClassicState.EMPTY
    assert driver.group.generation == 2
    driver.form(1)
    assert driver.group.generation == 3


def test_many_members_leave_at_once_and_each_has_its_answer() -> None:
    driver = ClassicDriver()
    leader, other, third = driver.form(3)
    answer = driver.leave(leader, "who", third)
    assert [one.error_code for one in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert set(driver.group.members) == {other}


def test_a_waiting_member_that_is_removed_gets_an_error() -> None:
    driver = ClassicDriver()
    leader, other, third = driver.form(3)
    joining = driver.join(leader)
    driver.leave(leader)
    assert joining.value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    driver.join(other)
    driver.join(third)
    follower = third if driver.group.leader == other else other
    syncing = driver.sync(follower, 2)
    driver.leave(follower)
    assert syncing.value.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_handed_out_may_be_given_back() -> None:
    driver = ClassicDriver()
    member_id = driver.new_id()
    answer = driver.leave(member_id)
    assert answer.members[0].error_code == ErrorCode.NONE
    assert driver.group.pending_joins == set()
    assert driver.classic_timers == set()


def test_leaving_a_group_that_is_not_there_is_refused() -> None:
    with pytest.raises(CoordinatorError) as refused:
        ClassicDriver().leave("who")
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_generation_that_is_not_written_still_ends_the_old_one() -> None:
    driver = ClassicDriver()
    (leader,) = driver.form(1)
    driver.fail_next_append = CoordinatorError(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(CoordinatorError):
        driver.leave(leader)
    assert driver.group.state is ClassicState.EMPTY
    driver.advance(REBALANCE_MS)
    assert driver.classic_timers == set()
    driver.form(1)
    assert driver.group.generation == 3
