"""A classic group becomes a consumer group under its members."""

import struct

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from support.groups.classic_groups import GROUP, subscription
from support.groups.consumer_groups import ConsumerDriver


def assignment(topic: str, *partitions: int, user_data: bytes | None = None) -> bytes:
    assigned = ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=list(partitions))
    return struct.pack(">h", 0) + ConsumerProtocolAssignment(
        assigned_partitions=[assigned], user_data=user_data
    ).encode(0)


def cooperative(*owned: int, generation: int = -1) -> dict[str, bytes]:
    """The protocols of a consumer that owns these partitions of t1 when it joins."""
    partitions = ConsumerProtocolSubscriptionTopicPartition(topic="t1", partitions=list(owned))
    said = ConsumerProtocolSubscription(
        topics=["t1"], owned_partitions=[partitions], generation_id=generation
    )
    return {"cooperative-sticky": struct.pack(">h", 2) + said.encode(2)}


def classic_group(
    config: GroupConfig | None = None, *, user_data: bytes | None = None, **join: object
) -> tuple[ConsumerDriver, str, str]:
    """Two classic members; t1 has four partitions, two for each of them."""
    driver = ConsumerDriver(config, t1=4)
    protocols = {"range": subscription("t1")}
    first, joining = driver.enter(protocols=protocols, **join)
    driver.advance(3_000)  # the first generation waits for more members
    driver.sync(first, 1, {first: assignment("t1", 0, 1, 2, 3)})
    second, joined = driver.enter(protocols=protocols, **join)
    rejoined = driver.join(first, protocols=protocols, **join)  # type: ignore[arg-type]
    assert joined.value.generation_id == rejoined.value.generation_id == 2
    synced = driver.sync(second, 2)
    driver.sync(
        first,
        2,
        {
            first: assignment("t1", 0, 1, user_data=user_data),
            second: assignment("t1", 2, 3),
        },
    )
    assert synced.value.error_code == ErrorCode.NONE
    assert joining.done
    return driver, first, second


def refused(driver: ConsumerDriver) -> CoordinatorError:
    with pytest.raises(CoordinatorError) as error:
        driver.enter_consumer("new")
    assert isinstance(driver.shard.groups[GROUP], ClassicGroup)
    return error.value


def test_the_members_stay_with_what_they_have() -> None:
    driver, first, second = classic_group()
    driver.enter_consumer("new")
    assert set(driver.consumers.members) == {first, second, "new"}
    assert driver.has(first) == {"t1": {0, 1}}
    assert driver.has(second) == {"t1": {2, 3}}
    assert driver.has("new") == {}, "it must wait until they give back"
    assert driver.member(first).epoch == 2
    assert driver.consumers.classic_members == 2


def test_what_a_cooperative_member_has_still_to_give_back_is_not_free() -> None:
    """Its generation took t1-3 away, but it may not have heard of it yet."""
    driver = ConsumerDriver(t1=4)
    first, _ = driver.enter(protocols=cooperative())
    driver.advance(0)
    driver.sync(first, 1, {first: assignment("t1", 0, 1, 2, 3)})
    second, _ = driver.enter(protocols=cooperative())
    driver.join(first, protocols=cooperative(0, 1, 2, 3, generation=1))
    driver.sync(first, 2, {first: assignment("t1", 0, 1, 2), second: assignment("t1")})
    driver.enter_consumer("new")
    driver.settle()
    assert driver.has(first) == {"t1": {0, 1, 2}}
    assert driver.has("new") == {}
    assert driver.heartbeat(first, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.join(first, protocols=cooperative(0, 1, 2, generation=2))
    driver.sync(first, driver.member(first).epoch)
    kept = driver.has(first)["t1"]
    driver.join(first, protocols=cooperative(*kept, generation=driver.member(first).epoch))
    driver.join(second, protocols=cooperative())
    driver.settle()
    everything = [n for id_ in driver.consumers.members for n in driver.has(id_).get("t1", ())]
    assert sorted(everything) == [0, 1, 2, 3]


def test_the_epochs_go_on_from_the_generation() -> None:
    driver, _, _ = classic_group()
    answer = driver.enter_consumer("new")
    assert answer.member_epoch == driver.consumers.epoch == 3


def test_the_classic_timers_are_replaced() -> None:
    driver, first, second = classic_group()
    driver.enter_consumer("new")
    assert not driver.classic_timers
    sessions = {key[3] for key in driver.timers if key[0] == "consumer"}  # type: ignore[index]
    assert sessions == {first, second, "new"}


def test_members_that_wait_in_a_rebalance_must_rejoin() -> None:
    driver, first, _ = classic_group()
    third = driver.new_id()
    waiting = driver.join(third, protocols={"range": subscription("t1")})
    assert not waiting.done
    driver.enter_consumer("new")
    assert waiting.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert first in driver.consumers.members


def test_the_upgrade_outlives_a_restart() -> None:
    driver, first, second = classic_group()
    driver.enter_consumer("new")
    members = driver.consumers.members
    driver.restart()
    assert driver.consumers.members == members
    assert driver.consumers.classic_members == 2
    assert {first, second} < set(driver.consumers.members)


def test_an_upgrade_that_cannot_be_written_leaves_the_classic_group() -> None:
    driver, first, _ = classic_group()
    driver.fail_next_append = CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(CoordinatorError):
        driver.enter_consumer("new")
    assert isinstance(driver.shard.groups[GROUP], ClassicGroup)
    assert driver.heartbeat(first, 2) is ErrorCode.NONE


def test_an_empty_classic_group_is_simply_replaced() -> None:
    driver, first, second = classic_group(GroupConfig(consumer_migration_policy="disabled"))
    driver.leave(first, second)
    assert driver.told(driver.enter_consumer("new")) == {"t1": {0, 1, 2, 3}}
    assert isinstance(driver.shard.groups[GROUP], ConsumerGroup)
    driver.restart()
    assert isinstance(driver.shard.groups[GROUP], ConsumerGroup)


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_may_forbid_it(policy: str) -> None:
    driver, _, _ = classic_group(GroupConfig(consumer_migration_policy=policy))
    error = refused(driver)
    assert error.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "online upgrade is disabled" in error.message


def test_only_groups_of_consumers_are_upgraded() -> None:
    driver, _, _ = classic_group(protocol_type="connect")
    assert "does not use the consumer embedded protocol" in refused(driver).message


def test_a_group_that_is_too_large_is_not_upgraded() -> None:
    driver, _, _ = classic_group(GroupConfig(consumer_max_size=1))
    assert "exceeds the consumer group maximum size" in refused(driver).message


def test_what_a_custom_assignor_wrote_must_not_be_lost() -> None:
    driver, _, _ = classic_group(user_data=b"secret")
    assert "custom assignor" in refused(driver).message


def test_members_that_do_not_say_what_consumers_say_cannot_be_taken_over() -> None:
    driver = ConsumerDriver()
    first, _ = driver.enter(protocols={"range": b"\x00"})
    driver.advance(3_000)
    driver.sync(first, 1, {first: b""})
    assert "malformed" in refused(driver).message
