"""What ConsumerGroupDescribe tells."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeDescribedGroup,
)
from support.groups.classic_groups import GROUP, subscription
from support.groups.consumer_groups import ConsumerDriver


def described(driver: ConsumerDriver) -> ConsumerGroupDescribeDescribedGroup:
    return driver.shard.consumer.describe(GROUP)


def partitions(assignment: ConsumerGroupDescribeAssignment) -> dict[str, list[int]]:
    return {one.topic_name: one.partitions for one in assignment.topic_partitions}


def test_a_member_is_shown_with_what_it_has_and_should_have() -> None:
    driver = ConsumerDriver(t1=4)
    epoch = driver.enter_consumer("a", instance_id="i").member_epoch
    driver.enter_consumer("b", assignor="range")
    driver.beat("a", epoch)
    group = described(driver)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert group.assignor_name == "range"
    a, b = group.members
    assert (a.member_id, a.instance_id, a.member_epoch) == ("a", "i", 2)
    assert (a.client_id, a.client_host) == ("app", "/10.0.0.1")
    assert a.subscribed_topic_names == ["t1"]
    # What it must still give back, it still has.
    assert sorted(partitions(a.assignment)["t1"]) == [0, 1, 2, 3]
    assert len(partitions(a.target_assignment)["t1"]) == 2
    assert partitions(b.assignment) == {}
    assert len(partitions(b.target_assignment)["t1"]) == 2


def test_members_of_the_classic_protocol_are_marked() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a")
    protocols = {"range": subscription("t1")}
    driver.join(driver.new_id(protocols=protocols), protocols=protocols)
    assert [member.member_type for member in described(driver).members] == [1, 0]


def test_topics_that_are_gone_are_not_shown() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a", "t1", "t2")
    driver.cluster.delete("t1")
    (member,) = described(driver).members
    assert set(partitions(member.assignment)) == {"t2"}


def test_groups_of_other_kinds_are_not_found() -> None:
    driver = ConsumerDriver()
    driver.enter(protocols={"range": subscription("t1")})
    with pytest.raises(CoordinatorError) as refused:
        described(driver)
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.value.message == f"Group {GROUP} is not a consumer group."


def test_the_default_assignor_is_the_first_that_is_offered() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a")
    assert described(driver).assignor_name == "uniform"
    driver.configure_group(consumer_assignors=("range", "uniform"))
    assert described(driver).assignor_name == "range"
