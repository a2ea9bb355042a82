"""SyncGroup of classic groups: nobody has an assignment before it is written."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.protocol.errors import ErrorCode
from support.groups.classic_groups import REBALANCE_MS, SESSION_MS, ClassicDriver
from support.groups.shards import Pending


def code_of(pending: Pending[object]) -> ErrorCode:
    with pytest.raises(CoordinatorError) as refused:
        pending.value  # noqa: B018
    return refused.value.code


def joined(driver: ClassicDriver, size: int) -> list[str]:
    """Members that know of their generation; the first one leads."""
    entered = [driver.enter()[0] for _ in range(size)]
    driver.advance(0)
    leader = driver.group.leader
    return sorted(entered, key=lambda one: one != leader)


def test_followers_wait_for_the_leaders_assignment() -> None:
    driver = ClassicDriver()
    leader, first, second = joined(driver, 3)
    waiting = driver.sync(first, 1)
    assert not waiting.done
    own = driver.sync(leader, 1, {leader: b"l", first: b"f", second: b"s"})
    assert own.value.assignment == b"l"
    assert waiting.value.assignment == b"f"
    assert driver.group.state is ClassicState.STABLE
    assert driver.sync(second, 1).value.assignment == b"s"


def test_a_member_that_the_leader_forgot_gets_nothing_and_a_stranger_is_ignored() -> None:
    driver = ClassicDriver()
    leader, other = joined(driver, 2)
    driver.sync(leader, 1, {leader: b"l", "stranger": b"x"})
    assert driver.sync(other, 1).value.assignment == b""
    assert set(driver.group.members) == {leader, other}


def test_the_answer_names_the_protocol() -> None:
    driver = ClassicDriver()
    (leader,) = joined(driver, 1)
    answer = driver.sync(leader, 1, {leader: b"l"}).value
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def test_a_sync_of_another_generation_another_protocol_or_an_unknown_member_is_refused() -> None:
    driver = ClassicDriver()
    assert code_of(driver.sync("who", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    (leader,) = joined(driver, 1)
    assert code_of(driver.sync("who", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(driver.sync(leader, 2)) is ErrorCode.ILLEGAL_GENERATION
    wrong_type = driver.sync(leader, 1, protocol_type="connect", protocol_name="range")
    assert code_of(wrong_type) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    wrong_name = driver.sync(leader, 1, protocol_type="consumer", protocol_name="sticky")
    assert code_of(wrong_name) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    right = driver.sync(leader, 1, protocol_type="consumer", protocol_name="range")
    assert right.value.error_code == ErrorCode.NONE


def test_a_sync_during_the_join_phase_sends_the_member_back_to_join() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    driver.join(leader)
    assert code_of(driver.sync(other, 1)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_do_not_sync_within_a_rebalance_timeout_are_removed() -> None:
    driver = ClassicDriver()
    leader, silent = joined(driver, 2)
    driver.sync(leader, 1, {leader: b"l"})
    for _ in range(REBALANCE_MS * 2 // SESSION_MS):
        assert driver.heartbeat(leader, 1) is ErrorCode.NONE
        assert driver.heartbeat(silent, 1) is ErrorCode.NONE
        driver.advance(SESSION_MS // 2)
    assert set(driver.group.members) == {leader}
    assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_assigns_is_out_and_the_others_start_over() -> None:
    driver = ClassicDriver()
    leader, other = joined(driver, 2)
    waiting = driver.sync(other, 1)
    for _ in range(REBALANCE_MS * 2 // SESSION_MS):
        assert not waiting.done
        driver.heartbeat(leader, 1)
        driver.advance(SESSION_MS // 2)
    assert waiting.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(driver.group.members) == {other}
    assert driver.join(other).value.leader == other


def test_a_group_in_which_everybody_has_synced_has_no_timer_but_sessions() -> None:
    driver = ClassicDriver()
    members = driver.form(3)
    sessions = {driver.group.members[one].session_timer for one in members}
    assert driver.classic_timers == sessions


def test_waiting_for_the_leader_keeps_a_member_alive() -> None:
    driver = ClassicDriver()
    leader, other = joined(driver, 2)
    waiting = driver.sync(other, 1)
    for _ in range(4):
        driver.advance(SESSION_MS // 2)
        driver.heartbeat(leader, 1)
    driver.sync(leader, 1, {other: b"o"})
    assert waiting.value.assignment == b"o"
    driver.heartbeat(leader, 1)
    driver.advance(SESSION_MS - 1)
    assert other in driver.group.members  # its session began anew with the answer


def test_an_assignment_that_could_not_be_written_is_dropped_and_the_group_rebalances() -> None:
    driver = ClassicDriver()
    leader, other = joined(driver, 2)
    waiting = driver.sync(other, 1)
    driver.fail_next_append = CoordinatorError(ErrorCode.NOT_COORDINATOR)
    own = driver.sync(leader, 1, {leader: b"l", other: b"o"})
    assert code_of(own) is ErrorCode.NOT_COORDINATOR
    assert code_of(waiting) is ErrorCode.NOT_COORDINATOR
    assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert {member.assignment for member in driver.group.members.values()} == {b""}
    rejoined = driver.join(leader)
    assert driver.join(other).value.generation_id == rejoined.value.generation_id == 2
    driver.settle([leader, other])


def test_after_a_failed_write_members_that_do_not_rejoin_are_removed() -> None:
    driver = ClassicDriver()
    leader, other = joined(driver, 2)
    driver.fail_next_append = CoordinatorError(ErrorCode.NOT_COORDINATOR)
    driver.sync(leader, 1, {leader: b"l"})
    rejoined = driver.join(leader)
    for _ in range(REBALANCE_MS * 2 // SESSION_MS):
        assert not rejoined.done
        driver.heartbeat(other, 1)
        driver.advance(SESSION_MS // 2)
    assert rejoined.value.generation_id == 2
    assert set(driver.group.members) == {leader}


def test_a_repeated_sync_replaces_the_first() -> None:
    driver = ClassicDriver()
    leader, other = joined(driver, 2)
    first = driver.sync(other, 1)
    second = driver.sync(other, 1)
    assert first.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    driver.sync(leader, 1, {other: b"o"})
    assert second.value.assignment == b"o"
