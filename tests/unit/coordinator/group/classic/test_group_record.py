"""What classic groups write, and what they are after a move of their coordinator."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.coordinator.group.classic.description import describe_group
from headrace.coordinator.group.group import CommittingMember
from headrace.coordinator.group.records.classic import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
)
from headrace.protocol.errors import ErrorCode
from support.groups.classic_groups import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    ClassicDriver,
    subscription,
)


def written(driver: ClassicDriver) -> list[GroupMetadataValue | None]:
    """The values of the group's records, in the order in which they were written."""
    values = []
    for key, value, _ in driver.log:
        assert isinstance(key, bytes)
        change = driver.shard.format.decode(key, value)
        assert change is not None
        assert change.key == GroupMetadataKey(group_id=GROUP)
        values.append(change.value)
    return values  # type: ignore[return-value]


def write(driver: ClassicDriver, value: GroupMetadataValue | None) -> None:
    change = RecordChange(GroupMetadataKey(group_id=GROUP), value)
    driver.run(lambda shard, now_ms: CoordinatorResult(True, changes=[change]))


def test_a_group_is_written_when_it_is_new_when_it_is_assigned_and_when_it_is_empty() -> None:
    driver = ClassicDriver()
    began_ms = driver.now_ms
    (leader,) = driver.form(1)
    driver.advance(5)
    driver.leave(leader)
    new, assigned, empty = written(driver)
    assert new == GroupMetadataValue(current_state_timestamp=began_ms)
    assert assigned == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=leader,
        current_state_timestamp=began_ms,
        members=[
            GroupMetadataMember(
                member_id=leader,
                client_id="app",
                client_host="/10.0.0.1",
                rebalance_timeout=REBALANCE_MS,
                session_timeout=SESSION_MS,
                subscription=subscription("t"),
                assignment=leader.encode(),
            )
        ],
    )
    assert empty == GroupMetadataValue(
        protocol_type="consumer", generation=2, current_state_timestamp=began_ms + 5
    )


def test_a_new_group_that_is_not_written_is_not_there() -> None:
    driver = ClassicDriver()
    driver.fail_next_append = CoordinatorError(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(CoordinatorError):
        driver.join().value  # noqa: B018
    assert driver.shard.groups == {}
    write(driver, GroupMetadataValue(generation=3))
    assert driver.group.generation == 3
    assert driver.group.pending_joins == set()


def test_a_stable_group_is_the_same_after_a_move() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    since_ms = driver.group.state_since_ms
    driver.advance(5)
    driver.restart()
    assert driver.group.state is ClassicState.STABLE
    assert driver.group.state_since_ms == since_ms
    assert driver.group.leader == leader
    assert driver.heartbeat(leader, 1) is ErrorCode.NONE
    assert driver.sync(other, 1).value.assignment == other.encode()


def test_loaded_members_have_a_session_to_be_heard_of() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    driver.advance(SESSION_MS - 1)
    driver.restart()
    driver.advance(SESSION_MS - 1)
    assert driver.heartbeat(leader, 1) is ErrorCode.NONE
    driver.advance(1)
    assert set(driver.group.members) == {leader}
    assert other not in driver.group.members


def test_a_rebalance_under_way_is_forgotten_by_a_move_and_begins_again() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    waiting = driver.join(leader)
    driver.restart()
    with pytest.raises(CoordinatorError) as moved:
        waiting.value  # noqa: B018
    assert moved.value.code is ErrorCode.NOT_COORDINATOR
    assert driver.group.state is ClassicState.STABLE
    rejoined = driver.join(leader)
    driver.join(other)
    assert rejoined.value.generation_id == 2


def test_members_that_wait_for_an_assignment_learn_of_a_move() -> None:
    driver = ClassicDriver()
    first, _ = driver.enter()
    second, _ = driver.enter()
    driver.advance(0)
    follower = second if driver.group.leader == first else first
    waiting = driver.sync(follower, 1)
    driver.restart()
    with pytest.raises(CoordinatorError) as moved:
        waiting.value  # noqa: B018
    assert moved.value.code is ErrorCode.NOT_COORDINATOR
    assert driver.group.state is ClassicState.EMPTY


def test_a_loaded_member_that_joins_with_more_protocols_starts_a_rebalance() -> None:
    both = {"range": subscription("t"), "sticky": subscription("t")}
    driver = ClassicDriver()
    leader, other = driver.form(2, protocols=both)
    driver.restart()
    waiting = driver.join(other, protocols=both)
    assert driver.group.state is ClassicState.PREPARING_REBALANCE
    driver.join(leader, protocols=both)
    assert waiting.value.generation_id == 2


def test_a_tombstone_ends_the_group() -> None:
    driver = ClassicDriver()
    (leader,) = driver.form(1)
    driver.leave(leader)
    write(driver, None)
    assert driver.shard.groups == {}
    driver.restart()
    assert driver.shard.groups == {}


def test_a_record_of_the_first_version_is_read() -> None:
    driver = ClassicDriver()
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="m",
        members=[
            GroupMetadataMember(
                member_id="m",
                client_id="c",
                client_host="/h",
                session_timeout=SESSION_MS,
                subscription=subscription("t"),
                assignment=b"a",
            )
        ],
    )
    key, _ = driver.shard.format.encode(RecordChange(GroupMetadataKey(group_id=GROUP), value))
    driver.log.append((key, b"\x00\x00" + value.encode(0), None))
    driver.restart()
    assert driver.group.generation == 7
    assert driver.group.members["m"].rebalance_timeout_ms == SESSION_MS
    assert driver.group.retention_start_ms(5) == 5


def test_a_group_whose_leader_the_record_does_not_know_still_rebalances() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    last = written(driver)[-1]
    assert last is not None
    last.leader = "gone"
    write(driver, last)
    driver.restart()
    waiting = driver.join(leader)
    driver.join(other)
    driver.advance(REBALANCE_MS)
    assert waiting.value.generation_id == 2


def test_a_stable_group_shows_its_members_subscriptions_and_assignments() -> None:
    driver = ClassicDriver()
    (leader,) = driver.form(1)
    shown = describe_group(driver.group)
    assert (shown.group_state, shown.protocol_type, shown.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = shown.members
    assert member.member_id == leader
    assert (member.client_id, member.client_host) == ("app", "/10.0.0.1")
    assert member.member_metadata == subscription("t")
    assert member.member_assignment == leader.encode()
    driver.join(leader)
    shown = describe_group(driver.group)
    assert shown.group_state == "CompletingRebalance"
    assert shown.protocol_data == ""
    assert shown.members[0].member_metadata == b""


def commit(group: ClassicGroup, member_id: str = "", generation: int = -1) -> ErrorCode:
    try:
        group.check_commit(
            CommittingMember(member_id, None, generation, transactional=False, version=8)
        )
    except CoordinatorError as error:
        return error.code
    return ErrorCode.NONE


def test_only_members_of_the_generation_may_commit() -> None:
    driver = ClassicDriver()
    leader, other = driver.form(2)
    group = driver.group
    assert commit(group, leader, 1) is ErrorCode.NONE
    assert commit(group, leader, 0) is ErrorCode.ILLEGAL_GENERATION
    assert commit(group, "who", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group) is ErrorCode.UNKNOWN_MEMBER_ID
    driver.join(leader)
    assert commit(group, other, 1) is ErrorCode.NONE  # what it read before it joins again
    driver.join(other)
    assert commit(group, leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.leave(leader, other)
    assert commit(group) is ErrorCode.NONE
    assert commit(group, leader, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transaction_of_an_old_client_may_commit_without_a_member() -> None:
    driver = ClassicDriver()
    driver.form(1)
    driver.group.check_commit(CommittingMember("", None, -1, transactional=True, version=2))


def test_a_commit_is_a_sign_of_life() -> None:
    driver = ClassicDriver()
    (leader,) = driver.form(1)
    (timer,) = driver.group.timers_after_commit(leader)
    assert timer == (driver.group.members[leader].session_timer, SESSION_MS)
    assert driver.group.timers_after_commit("") == ()


def test_a_group_with_members_cannot_be_deleted() -> None:
    driver = ClassicDriver()
    (leader,) = driver.form(1)
    with pytest.raises(CoordinatorError) as refused:
        driver.group.check_delete()
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    driver.group.check_offset_delete()
    driver.leave(leader)
    driver.group.check_delete()


def test_a_group_that_is_not_of_consumers_keeps_its_offsets_while_it_has_members() -> None:
    driver = ClassicDriver()
    driver.form(1, protocol_type="connect", protocols={"sessioned": b"?"})
    with pytest.raises(CoordinatorError):
        driver.group.check_offset_delete()
    assert driver.group.retention_start_ms(5) is None
    assert not driver.group.subscribes_to("t")


def test_a_group_knows_what_its_consumers_subscribe_to() -> None:
    driver = ClassicDriver()
    (leader,) = driver.form(1, protocols={"range": subscription("t", "u")})
    assert driver.group.subscribes_to("u")
    assert not driver.group.subscribes_to("v")
    assert driver.group.retention_start_ms(5) == 5
    driver.restart()
    assert driver.group.subscribes_to("u")
    driver.leave(leader)
    assert not driver.group.subscribes_to("u")
    assert driver.group.retention_start_ms(5) == driver.now_ms


def test_a_subscription_that_cannot_be_read_counts_as_one_to_everything() -> None:
    driver = ClassicDriver()
    driver.form(1, protocols={"range": b"\x00"})
    assert driver.group.subscribes_to("any")
    assert driver.group.retention_start_ms(5) is None


def test_offsets_of_a_group_without_any_member_ever_expire_by_their_own_age() -> None:
    driver = ClassicDriver()
    group = driver.shard.classic.simple_group("tool")
    assert group.is_empty
    assert group.retention_start_ms(5) == 5
