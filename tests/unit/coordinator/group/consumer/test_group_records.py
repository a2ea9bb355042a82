"""What is written to the log, as Kafka 4.3 writes it, and what is read back."""

from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.group.consumer.member import MemberState
from headrace.coordinator.group.records.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupCurrentPartitions,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from headrace.coordinator.group.records.format import FORMAT
from headrace.protocol.struct import Struct
from support.groups.classic_groups import GROUP
from support.groups.consumer_groups import ConsumerDriver


def written(driver: ConsumerDriver, since: int = 0) -> list[tuple[type[Struct], bool]]:
    """Kinds of the records, and whether they have a value."""
    found = []
    for key, value, _ in driver.log[since:]:
        assert isinstance(key, bytes)
        change = FORMAT.decode(key, value)
        assert change is not None
        found.append((type(change.key), change.value is not None))
    return found


def test_a_join_writes_the_member_the_epoch_the_target_and_the_current_assignment() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a")
    assert written(driver) == [
        (ConsumerGroupMemberMetadataKey, True),
        (ConsumerGroupMetadataKey, True),
        (ConsumerGroupTargetAssignmentMemberKey, True),
        (ConsumerGroupTargetAssignmentMetadataKey, True),
        (ConsumerGroupCurrentMemberAssignmentKey, True),
    ]


def test_a_member_of_the_consumer_protocol_has_no_classic_metadata_in_kafkas_bytes() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a")
    _, value, _ = driver.log[0]
    assert value is not None
    # One tagged field, number 0, of one byte, which says: null. Kafka takes a field that is not
    # there for a classic member.
    assert value[-4:] == b"\x01\x00\x01\x00"
    assert driver.member("a").classic is None


def test_a_departure_deletes_what_the_member_has_before_the_member() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a")
    since = len(driver.log)
    driver.quit("a")
    assert written(driver, since) == [
        (ConsumerGroupCurrentMemberAssignmentKey, False),
        (ConsumerGroupTargetAssignmentMemberKey, False),
        (ConsumerGroupMemberMetadataKey, False),
        (ConsumerGroupMetadataKey, True),
    ]


def test_a_group_is_deleted_in_the_order_that_kafka_asks_for() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a", pattern="t.*")
    driver.resolve_patterns()
    kinds = [type(change.key) for change in driver.consumers.tombstones()]
    assert kinds == [
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupRegularExpressionKey,
        ConsumerGroupPartitionMetadataKey,
        ConsumerGroupMetadataKey,
    ]


def test_a_partition_keeps_the_epoch_in_which_it_was_given() -> None:
    driver = ConsumerDriver(t1=4)
    first = driver.enter_consumer("a").member_epoch
    driver.enter_consumer("b")
    driver.settle()
    driver.quit("b")
    driver.settle()
    driver.restart()
    (given,) = driver.member("a").assigned.values()
    assert sorted(given.values()) == [first, first, first + 2, first + 2]


def test_records_of_releases_without_partition_epochs_are_read() -> None:
    driver = ConsumerDriver(t1=2)
    topic_id = driver.cluster.image.topics["t1"].topic_id
    driver.enter_consumer("a")
    driver._append(
        RecordChange(
            ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a"),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=7,
                previous_member_epoch=6,
                assigned_partitions=[
                    ConsumerGroupCurrentPartitions(topic_id=topic_id, partitions=[0, 1])
                ],
            ),
        ),
        None,
    )
    assert driver.member("a").assigned == {topic_id: {0: 7, 1: 7}}
    assert driver.member("a").state is MemberState.STABLE


def test_the_subscription_metadata_of_old_releases_is_deleted_in_passing() -> None:
    driver = ConsumerDriver(t1=2)
    driver.enter_consumer("a")
    old = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    driver._append(RecordChange(old, ConsumerGroupPartitionMetadataValue()), None)
    driver.restart()
    since = len(driver.log)
    driver.settle()
    assert written(driver, since) == [(ConsumerGroupPartitionMetadataKey, False)]
    assert not driver.consumers.has_partition_metadata


def test_tombstones_of_what_is_not_there_are_ignored() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a")
    gone = [
        *driver.consumers.tombstones(),
        RecordChange(ConsumerGroupMemberMetadataKey(group_id="other", member_id="x"), None),
        RecordChange(ConsumerGroupTargetAssignmentMemberKey(group_id=GROUP, member_id="x"), None),
    ]
    for change in gone * 2:
        driver._append(change, None)
    assert driver.shard.groups == {}


def test_a_record_of_a_group_alone_makes_the_group() -> None:
    driver = ConsumerDriver()
    driver._append(
        RecordChange(ConsumerGroupMetadataKey(group_id=GROUP), ConsumerGroupMetadataValue(epoch=9)),
        None,
    )
    assert driver.consumers.epoch == 9
    assert driver.consumers.is_empty
    assert driver.enter_consumer("a").member_epoch == 10
