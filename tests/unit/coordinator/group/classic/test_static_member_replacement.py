"""Static members (KIP-345): a process that comes back takes its old place."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.protocol.errors import ErrorCode
from support.groups.classic_groups import (
    REBALANCE_MS,
    SESSION_MS,
    ClassicDriver,
    subscription,
)

RANGE = {"range": subscription("t")}


def form(driver: ClassicDriver, *instances: str) -> dict[str, str]:
    """A stable group of static members: their ids by instance; the first one leads."""
    waiting = {one: driver.join(instance_id=one) for one in instances}
    driver.advance(driver.config.classic_initial_rebalance_delay_ms)
    members = {one: pending.value.member_id for one, pending in waiting.items()}
    driver.settle(list(members.values()))
    return members


def test_a_static_member_joins_without_asking_for_an_id() -> None:
    driver = ClassicDriver()
    members = form(driver, "a", "b")
    assert members["a"].startswith("a-")
    assert driver.group.instances == members


def test_a_process_that_returns_keeps_its_assignment_without_a_rebalance() -> None:
    driver = ClassicDriver()
    members = form(driver, "a", "b")
    back = driver.join(instance_id="b").value
    assert back.error_code == ErrorCode.NONE
    assert back.generation_id == 1
    assert back.member_id != members["b"]
    assert driver.group.state is ClassicState.STABLE
    assert driver.sync(back.member_id, 1, instance_id="b").value.assignment == (
        members["b"].encode()
    )
    assert driver.heartbeat(members["a"], 1, instance_id="a") is ErrorCode.NONE
    sessions = {member.session_timer for member in driver.group.members.values()}
    assert driver.classic_timers == sessions


def test_the_replacement_outlives_a_restart() -> None:
    driver = ClassicDriver()
    form(driver, "a", "b")
    back = driver.join(instance_id="b").value.member_id
    driver.restart()
    assert driver.group.instances["b"] == back
    assert driver.heartbeat(back, 1, instance_id="b") is ErrorCode.NONE


def test_the_old_process_is_fenced() -> None:
    driver = ClassicDriver()
    members = form(driver, "a", "b")
    driver.join(instance_id="b")
    with pytest.raises(CoordinatorError) as refused:
        driver.heartbeat(members["b"], 1, instance_id="b")
    assert refused.value.code is ErrorCode.FENCED_INSTANCE_ID
    again = driver.join(members["b"], instance_id="b").value
    assert again.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_the_old_process_is_fenced_while_it_waits() -> None:
    driver = ClassicDriver()
    members = form(driver, "a", "b")
    joining = driver.join(members["a"], instance_id="a")
    driver.join(instance_id="a")
    assert joining.value.error_code == ErrorCode.FENCED_INSTANCE_ID
    driver.join(members["b"], instance_id="b")
    generation = driver.group.generation
    follower = next(one for one in ("a", "b") if driver.group.instances[one] != driver.group.leader)
    syncing = driver.sync(driver.group.instances[follower], generation, instance_id=follower)
    driver.join(instance_id=follower)
    assert syncing.value.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.group.state is ClassicState.PREPARING_REBALANCE


def test_a_leader_that_returns_still_leads_and_must_not_assign() -> None:
    driver = ClassicDriver()
    form(driver, "a", "b")
    back = driver.join(instance_id="a").value
    assert back.leader == back.member_id == driver.group.leader
    assert back.skip_assignment
    assert len(back.members) == 2


def test_an_old_client_that_led_does_not_learn_that_it_leads_again() -> None:
    driver = ClassicDriver()
    members = form(driver, "a", "b")
    back = driver.join(instance_id="a", version=8).value
    assert back.leader == members["a"]
    assert not back.skip_assignment
    assert back.members == []


def test_news_that_change_the_protocol_start_a_rebalance() -> None:
    driver = ClassicDriver()
    waiting = driver.join(instance_id="a", protocols={**RANGE, "sticky": b"s"})
    driver.advance(0)
    driver.settle([waiting.value.member_id])
    back = driver.join(instance_id="a", protocols={"sticky": b"s", **RANGE})
    assert back.value.generation_id == 2
    assert back.value.protocol_name == "sticky"


def test_a_static_member_outlives_the_join_phase_that_it_missed() -> None:
    driver = ClassicDriver()
    members = form(driver, "a", "b")
    waiting = driver.join(members["a"], instance_id="a")
    for _ in range(REBALANCE_MS * 2 // SESSION_MS):
        assert not waiting.done
        driver.heartbeat(members["b"], 1, instance_id="b")
        driver.advance(SESSION_MS // 2)
    assert waiting.value.generation_id == 2
    assert set(driver.group.instances) == {"a", "b"}


def test_static_members_that_are_alive_and_do_not_join_are_waited_for() -> None:
    driver = ClassicDriver()
    members = form(driver, "a", "b", "c")
    driver.leave(members["a"])

    def rebalance_timeout(*alive: str) -> None:
        for _ in range(REBALANCE_MS * 2 // SESSION_MS):
            for one in alive:
                driver.heartbeat(members[one], 1, instance_id=one)
            driver.advance(SESSION_MS // 2)

    rebalance_timeout("b", "c")
    assert driver.group.state is ClassicState.PREPARING_REBALANCE
    waiting = driver.join(members["b"], instance_id="b")
    rebalance_timeout("c")
    assert waiting.value.leader == members["b"]
    assert set(driver.group.instances) == {"b", "c"}


def test_without_anybody_back_static_members_go_when_their_sessions_end() -> None:
    driver = ClassicDriver()
    members = form(driver, "a", "b")
    driver.leave(members["a"])
    driver.advance(SESSION_MS)
    assert driver.group.state is ClassicState.EMPTY
    assert driver.classic_timers == set()


def test_a_static_member_that_stays_away_for_a_session_is_removed() -> None:
    driver = ClassicDriver()
    members = form(driver, "a", "b")
    driver.advance(SESSION_MS - 1)
    driver.heartbeat(members["a"], 1, instance_id="a")
    driver.advance(1)
    assert set(driver.group.instances) == {"a"}


def test_an_operator_removes_static_members_by_their_instance_ids() -> None:
    driver = ClassicDriver()
    form(driver, "a", "b", "c")
    answer = driver.leave(instances=["b", "nobody", "c"])
    assert [one.error_code for one in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert set(driver.group.instances) == {"a"}


def test_a_replacement_that_is_not_written_is_taken_back() -> None:
    driver = ClassicDriver()
    members = form(driver, "a", "b")
    driver.fail_next_append = CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    back = driver.join(instance_id="a")
    with pytest.raises(CoordinatorError):
        back.value  # noqa: B018
    assert driver.group.instances == members
    assert driver.group.leader == members["a"]
    assert driver.heartbeat(members["a"], 1, instance_id="a") is ErrorCode.NONE
    driver.advance(SESSION_MS)
    assert driver.group.state is ClassicState.EMPTY


def test_an_instance_that_is_unknown_or_anothers_is_refused() -> None:
    driver = ClassicDriver()
    members = form(driver, "a", "b")
    unknown = driver.join(members["a"], instance_id="c").value
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    fenced = driver.join(members["a"], instance_id="b").value
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
