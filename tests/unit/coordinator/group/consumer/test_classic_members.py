"""Members of the classic protocol in a consumer group, and its way back to a classic group."""

import struct

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.coordinator.group.group import CommittingMember
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from headrace.protocol.messages.join_group import JoinGroupResponse
from support.groups.classic_groups import GROUP, REBALANCE_MS, SESSION_MS, subscription
from support.groups.consumer_groups import ConsumerDriver


def owning(*partitions: int, topic: str = "t1") -> dict[str, bytes]:
    """The protocols of a consumer that asks for t1 and owns these partitions of it."""
    owned = ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=list(partitions))
    said = ConsumerProtocolSubscription(topics=["t1"], owned_partitions=[owned])
    return {"range": struct.pack(">h", 1) + said.encode(1)}


def rejoin(driver: ConsumerDriver, member_id: str, *owned: int) -> JoinGroupResponse:
    return driver.join(member_id, protocols=owning(*owned)).value


def mixed_group(config: GroupConfig | None = None) -> tuple[ConsumerDriver, str]:
    """`new` speaks the consumer protocol and has t1, which has four partitions; a classic member
    has just joined and waits for its share."""
    driver = ConsumerDriver(config, t1=4)
    driver.enter_consumer("new")
    member_id = driver.new_id(protocols=owning())
    rejoin(driver, member_id)
    return driver, member_id


def balanced_group(config: GroupConfig | None = None) -> tuple[ConsumerDriver, str]:
    driver, member_id = mixed_group(config)
    driver.settle()
    rejoin(driver, member_id)
    return driver, member_id


def assigned(driver: ConsumerDriver, member_id: str, **options: object) -> set[int]:
    epoch = driver.member(member_id).epoch
    answer = driver.sync(member_id, epoch, **options).value  # type: ignore[arg-type]
    assert answer.error_code == ErrorCode.NONE
    data = answer.assignment
    (version,) = struct.unpack_from(">h", data)
    read, _ = ConsumerProtocolAssignment.read(data, 2, len(data), version)
    return {number for one in read.assigned_partitions for number in one.partitions}


def code(driver: ConsumerDriver, member_id: str) -> ErrorCode:
    return driver.heartbeat(member_id, driver.member(member_id).epoch)


def test_a_classic_member_joins_at_once_and_is_not_the_leader() -> None:
    driver = ConsumerDriver(t1=4)
    driver.enter_consumer("new")
    answer = rejoin(driver, driver.new_id(protocols=owning()))
    assert answer.error_code == ErrorCode.NONE
    assert answer.generation_id == driver.consumers.epoch
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert answer.leader == ""
    assert answer.members == []


def test_it_must_rejoin_when_its_partitions_are_free() -> None:
    driver, member_id = mixed_group()
    assert assigned(driver, member_id) == set()
    assert code(driver, member_id) is ErrorCode.NONE, "they are still with the other member"
    driver.settle()
    assert code(driver, member_id) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoin(driver, member_id)
    assert code(driver, member_id) is ErrorCode.NONE
    got = assigned(driver, member_id)
    assert len(got) == 2
    assert got | driver.has("new")["t1"] == {0, 1, 2, 3}


def test_it_gives_back_by_joining_again_without_what_it_must_give() -> None:
    driver, member_id = balanced_group()
    mine = assigned(driver, member_id)
    driver.enter_consumer("newer")
    driver.enter_consumer("newest")
    assert code(driver, member_id) is ErrorCode.REBALANCE_IN_PROGRESS
    # An eager consumer owns nothing when it joins; a cooperative one owns all it had.
    rejoin(driver, member_id, *mine)
    keep = assigned(driver, member_id)
    assert keep < mine
    assert code(driver, member_id) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoin(driver, member_id, *keep)
    assert assigned(driver, member_id) == keep
    driver.settle()
    assert code(driver, member_id) is ErrorCode.NONE
    everything = [n for id_ in driver.consumers.members for n in driver.has(id_).get("t1", ())]
    assert sorted(everything) == [0, 1, 2, 3]


def test_a_removed_member_does_not_return_with_its_old_partitions() -> None:
    driver, member_id = balanced_group()
    mine = assigned(driver, member_id)
    driver.leave(member_id)
    with pytest.raises(CoordinatorError) as refused:
        rejoin(driver, member_id, *mine)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert member_id not in driver.consumers.members
    assert rejoin(driver, driver.new_id(protocols=owning())).error_code == ErrorCode.NONE


def test_a_sync_in_the_middle_of_a_rebalance_is_sent_back_to_join() -> None:
    driver, member_id = balanced_group()
    epoch = driver.member(member_id).epoch
    driver.enter_consumer("newer")
    answer = driver.sync(member_id, epoch).value
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_that_does_not_rejoin_is_removed() -> None:
    driver, member_id = balanced_group()
    assigned(driver, member_id)
    driver.enter_consumer("newer")
    for _ in range(REBALANCE_MS // 5_000):
        if member_id in driver.consumers.members:
            code(driver, member_id)
        driver.settle(1)
        driver.advance(5_000)
    driver.settle()
    assert set(driver.consumers.members) == {"new", "newer"}


def test_a_classic_member_that_does_not_sync_is_removed() -> None:
    driver, member_id = balanced_group()
    for _ in range(REBALANCE_MS // 5_000):
        if member_id in driver.consumers.members:
            code(driver, member_id)
        driver.settle(1)
        driver.advance(5_000)
    assert member_id not in driver.consumers.members


def test_its_own_session_timeout_counts() -> None:
    driver, member_id = balanced_group()
    assigned(driver, member_id)
    driver.advance(SESSION_MS)
    assert list(driver.consumers.members) == ["new"]


@pytest.mark.parametrize("version", [3, 4])
def test_ids_are_handed_out_as_in_classic_groups(version: int) -> None:
    driver = ConsumerDriver(t1=4)
    driver.enter_consumer("new")
    answer = driver.join(protocols=owning(), version=version).value
    required = version >= 4
    assert answer.error_code == (ErrorCode.MEMBER_ID_REQUIRED if required else ErrorCode.NONE)
    assert answer.member_id
    assert (answer.member_id in driver.consumers.members) is not required


def test_a_static_classic_member_replaces_its_last_process() -> None:
    driver = ConsumerDriver(t1=4)
    driver.enter_consumer("new")
    first = driver.join(protocols=owning(), instance_id="s").value.member_id
    second = driver.join(protocols=owning(), instance_id="s").value
    assert second.error_code == ErrorCode.NONE
    assert second.member_id != first
    assert set(driver.consumers.members) == {"new", second.member_id}
    with pytest.raises(CoordinatorError) as refused:
        driver.heartbeat(first, second.generation_id, instance_id="s")
    assert refused.value.code is ErrorCode.FENCED_INSTANCE_ID


def refusal(driver: ConsumerDriver, **options: object) -> ErrorCode:
    with pytest.raises(CoordinatorError) as refused:
        driver.join(**options).value  # type: ignore[arg-type]  # noqa: B018
    return refused.value.code


def test_only_consumers_may_join() -> None:
    driver, _ = mixed_group()
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refusal(driver, protocol_type="connect", protocols=owning()) is inconsistent
    assert refusal(driver, protocols={"roundrobin": subscription("t1")}) is inconsistent
    assert refusal(driver, protocols={}) is inconsistent
    assert refusal(driver, member_id="x", protocols={"range": b"?"}) is inconsistent


def test_the_policy_may_keep_classic_members_out() -> None:
    driver = ConsumerDriver(GroupConfig(consumer_migration_policy="disabled"))
    driver.enter_consumer("new")
    assert refusal(driver, protocols=owning()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_wrong_generation_is_refused() -> None:
    driver, member_id = balanced_group()
    for epoch in (1, driver.member(member_id).epoch + 1):
        with pytest.raises(CoordinatorError) as refused:
            driver.heartbeat(member_id, epoch)
        assert refused.value.code is ErrorCode.ILLEGAL_GENERATION
        with pytest.raises(CoordinatorError) as refused:
            driver.sync(member_id, epoch).value  # noqa: B018
        assert refused.value.code is ErrorCode.ILLEGAL_GENERATION


def test_members_of_the_consumer_protocol_cannot_use_the_classic_requests() -> None:
    driver, _ = balanced_group()
    with pytest.raises(CoordinatorError) as refused:
        driver.heartbeat("new", driver.member("new").epoch)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_with_another_protocol_is_refused() -> None:
    driver, member_id = balanced_group()
    epoch = driver.member(member_id).epoch
    for other in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        with pytest.raises(CoordinatorError) as refused:
            driver.sync(member_id, epoch, **other).value  # type: ignore[arg-type]  # noqa: B018
        assert refused.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_commits_of_classic_members_are_checked_as_generations() -> None:
    driver, member_id = balanced_group()
    epoch = driver.member(member_id).epoch
    group = driver.consumers
    group.check_commit(CommittingMember(member_id, None, epoch, transactional=False, version=2))
    with pytest.raises(CoordinatorError) as refused:
        group.check_commit(
            CommittingMember(member_id, None, epoch + 1, transactional=False, version=2)
        )
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION


def test_members_leave_with_leave_group() -> None:
    driver, member_id = balanced_group()
    (unknown, gone) = driver.leave("stranger", member_id).members
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert gone.error_code == ErrorCode.NONE
    assert list(driver.consumers.members) == ["new"]


# The way back


def test_the_group_is_classic_again_when_its_last_new_member_leaves() -> None:
    driver, member_id = balanced_group()
    epoch = driver.consumers.epoch
    driver.quit("new")
    group = driver.group
    assert group.state is ClassicState.PREPARING_REBALANCE
    assert group.generation == epoch
    assert list(group.members) == [member_id]
    assert driver.heartbeat(member_id, epoch) is ErrorCode.REBALANCE_IN_PROGRESS
    answer = driver.join(member_id, protocols=owning()).value
    assert answer.generation_id == epoch + 1
    assert answer.leader == member_id


def test_the_timers_are_those_of_a_classic_group_again() -> None:
    driver, member_id = balanced_group()
    driver.quit("new")
    assert not [key for key in driver.timers if key[0] == "consumer"]  # type: ignore[index]
    driver.advance(SESSION_MS)
    assert member_id not in driver.group.members


def test_the_group_is_classic_again_when_its_last_new_member_is_lost() -> None:
    driver, member_id = balanced_group()
    assigned(driver, member_id)
    for _ in range(10):
        group = driver.shard.groups[GROUP]
        if isinstance(group, ClassicGroup):
            break
        code(driver, member_id)
        driver.advance(5_000)
    assert list(driver.group.members) == [member_id]


def test_after_a_restart_the_classic_group_is_there_with_its_assignments() -> None:
    driver, member_id = balanced_group()
    share = driver.has(member_id)["t1"]
    epoch = driver.consumers.epoch
    driver.quit("new")
    driver.restart()
    group = driver.group
    assert group.state is ClassicState.STABLE
    synced = driver.sync(member_id, epoch).value
    read, _ = ConsumerProtocolAssignment.read(synced.assignment, 2, len(synced.assignment), 1)
    assert set(read.assigned_partitions[0].partitions) == share


def test_a_static_member_that_comes_back_as_a_classic_one_may_be_the_last() -> None:
    driver = ConsumerDriver(t1=4)
    driver.enter_consumer("new", instance_id="s")
    other = driver.new_id(protocols=owning())
    rejoin(driver, other)
    driver.settle()
    rejoin(driver, other)
    share = driver.has("new")["t1"]
    driver.quit("new", -2, instance_id="s")
    back = driver.join(protocols=owning(), instance_id="s").value
    assert back.error_code == ErrorCode.NONE
    group = driver.group
    assert group.state is ClassicState.STABLE, "nothing has changed for anybody"
    assert set(group.members) == {other, back.member_id}
    synced = driver.sync(back.member_id, back.generation_id, instance_id="s").value
    read, _ = ConsumerProtocolAssignment.read(synced.assignment, 2, len(synced.assignment), 1)
    assert set(read.assigned_partitions[0].partitions) == share
    driver.restart()
    assert set(driver.group.members) == {other, back.member_id}


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_the_policy_may_keep_it_a_consumer_group(policy: str) -> None:
    driver, member_id = balanced_group()
    driver.configure_group(consumer_migration_policy=policy)
    driver.quit("new")
    assert list(driver.consumers.members) == [member_id]


def test_a_group_that_is_too_large_for_a_classic_one_stays() -> None:
    driver, member_id = balanced_group()
    second = driver.new_id(protocols=owning())
    rejoin(driver, second)
    driver.configure_group(classic_max_size=1)
    driver.quit("new")
    assert set(driver.consumers.members) == {member_id, second}


def test_a_downgrade_that_cannot_be_written_leaves_the_consumer_group() -> None:
    driver, member_id = balanced_group()
    epoch = driver.member("new").epoch
    driver.fail_next_append = CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(CoordinatorError):
        driver.quit("new")
    assert driver.beat("new", epoch).member_epoch == epoch
    assert member_id in driver.consumers.members


def test_an_empty_consumer_group_is_simply_replaced() -> None:
    driver = ConsumerDriver(GroupConfig(consumer_migration_policy="disabled"))
    driver.enter_consumer("new")
    driver.quit("new")
    member_id, _ = driver.enter(protocols=owning())
    assert list(driver.group.members) == [member_id]
    driver.restart()
    assert isinstance(driver.shard.groups[GROUP], ClassicGroup)
