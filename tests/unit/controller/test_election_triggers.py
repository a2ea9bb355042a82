"""AlterPartition requests of leaders, and elections that administrators request."""

import pytest

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import BrokerRegistered, MetadataRecord, TopicCreated
from headrace.cluster.topology import BrokerRegistration, Partition
from headrace.controller.election_triggers import elect_leaders, rebalance_preferred_leaders
from headrace.controller.isr_changes import IsrChange, IsrMember, alter_partitions
from headrace.controller.leader_election import Election, TopicRules
from headrace.protocol.errors import ErrorCode

TOPIC_ID = bytes(15) + b"\1"
LED_BY_1 = Partition(replicas=(1, 2, 3), isr=(1, 2), leader=1, leader_epoch=4, partition_epoch=7)


def rules(_topic: str) -> TopicRules:
    return TopicRules(min_isr=2)


def cluster(*partitions: Partition, fenced: int | None = None) -> MetadataImage:
    records: list[MetadataRecord] = [
        BrokerRegistered(
            BrokerRegistration(id_, epoch=id_ * 10, endpoints=(), fenced=id_ == fenced)
        )
        for id_ in (1, 2, 3)
    ]
    records.append(TopicCreated("t", TOPIC_ID, partitions))
    return MetadataImage().apply(records)


def change(*isr: int, leader_epoch: int = 4, partition_epoch: int = 7) -> IsrChange:
    members = tuple(IsrMember(id_, id_ * 10) for id_ in isr)
    return IsrChange(TOPIC_ID, 0, leader_epoch, partition_epoch, members)


def refusal(image: MetadataImage, wanted: IsrChange, broker_id: int = 1) -> ErrorCode:
    outcome = alter_partitions(image, rules, broker_id, broker_id * 10, [wanted])
    assert outcome.records == ()
    return outcome.results[0].error.code


def test_a_follower_that_caught_up_joins_the_in_sync_set() -> None:
    outcome = alter_partitions(cluster(LED_BY_1), rules, 1, 10, [change(1, 2, 3)])
    answer = outcome.results[0].partition
    assert answer is not None
    assert (answer.isr, answer.leader_epoch, answer.partition_epoch) == ((1, 2, 3), 4, 8)
    assert len(outcome.records) == 1


def test_a_repeated_request_is_a_success_and_writes_nothing() -> None:
    outcome = alter_partitions(cluster(LED_BY_1), rules, 1, 10, [change(2, 1, partition_epoch=6)])
    assert outcome.records == ()
    assert outcome.results[0].partition == LED_BY_1


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (change(1, leader_epoch=3), ErrorCode.FENCED_LEADER_EPOCH),
        (change(1, leader_epoch=5), ErrorCode.NOT_CONTROLLER),
        (change(1, partition_epoch=8), ErrorCode.NOT_CONTROLLER),
        (change(1, partition_epoch=6), ErrorCode.INVALID_UPDATE_VERSION),
        (change(2, 3), ErrorCode.INVALID_REQUEST),
        (change(1, 2, 2), ErrorCode.INVALID_REQUEST),
        (change(1, 4), ErrorCode.INVALID_REQUEST),
        (IsrChange(bytes(16), 0, 4, 7, ()), ErrorCode.UNKNOWN_TOPIC_ID),
        (IsrChange(TOPIC_ID, 1, 4, 7, ()), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_stale_or_impossible_in_sync_set_is_refused(wanted: IsrChange, code: ErrorCode) -> None:
    assert refusal(cluster(LED_BY_1), wanted) is code


def test_a_broker_that_does_not_lead_cannot_change_the_set() -> None:
    assert refusal(cluster(LED_BY_1), change(2, 1, 3), broker_id=2) is ErrorCode.INVALID_REQUEST


def test_a_dead_or_restarted_broker_does_not_join_the_in_sync_set() -> None:
    image = cluster(LED_BY_1, fenced=3)
    assert refusal(image, change(1, 2, 3)) is ErrorCode.INELIGIBLE_REPLICA
    bounced = IsrChange(TOPIC_ID, 0, 4, 7, (IsrMember(1, 10), IsrMember(3, 29)))
    assert refusal(cluster(LED_BY_1), bounced) is ErrorCode.INELIGIBLE_REPLICA


def test_elections_answer_as_kafka_does() -> None:
    moved = LED_BY_1._replace(leader=2)
    image = cluster(moved, LED_BY_1, LED_BY_1._replace(leader=2, isr=(2,)))
    outcome = elect_leaders(
        image, rules, Election.PREFERRED, [("t", 0), ("t", 1), ("t", 2), ("t", 9), ("u", 0)]
    )
    assert [answer.error.code for answer in outcome.results] == [
        ErrorCode.NONE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    elected = image.apply(outcome.records).partition("t", 0)
    assert elected is not None
    assert elected.leader == 1


def test_an_election_of_all_omits_partitions_that_need_none() -> None:
    image = cluster(LED_BY_1._replace(leader=2), LED_BY_1)
    outcome = elect_leaders(image, rules, Election.PREFERRED, None)
    assert [(answer.topic, answer.index) for answer in outcome.results] == [("t", 0)]


def test_preferred_leaders_are_restored_only_above_the_imbalance_limit() -> None:
    moved = LED_BY_1._replace(leader=2)
    image = cluster(moved, *(LED_BY_1,) * 19)
    assert rebalance_preferred_leaders(image, rules, max_imbalance=0.1) == ()
    image = cluster(moved, moved, moved, *(LED_BY_1,) * 17)
    assert len(rebalance_preferred_leaders(image, rules, max_imbalance=0.1)) == 3


def test_a_leader_with_a_failed_disk_hands_over_to_an_in_sync_replica() -> None:
    outcome = alter_partitions(cluster(LED_BY_1), rules, 1, 10, [change(2)])
    answer = outcome.results[0].partition
    assert answer is not None
    assert (answer.leader, answer.isr, answer.leader_epoch) == (2, (2,), 5)
    assert 1 not in answer.eligible_leaders


@pytest.mark.parametrize("isr", [(), (3,), (2, 3)])
def test_a_leader_with_a_failed_disk_cannot_propose_other_replicas(isr: tuple[int, ...]) -> None:
    assert refusal(cluster(LED_BY_1), change(*isr)) is ErrorCode.INVALID_REQUEST


def test_a_follower_with_a_failed_disk_leaves_and_is_no_longer_eligible() -> None:
    outcome = alter_partitions(cluster(LED_BY_1), rules, 2, 20, [change(1)])
    answer = outcome.results[0].partition
    assert answer is not None
    assert (answer.leader, answer.isr, answer.leader_epoch) == (1, (1,), 4)
    assert answer.partition_epoch == 8
    assert 2 not in answer.eligible_leaders


@pytest.mark.parametrize("isr", [(), (1, 2), (1, 2, 3), (1, 3), (3,)])
def test_a_follower_may_remove_only_itself(isr: tuple[int, ...]) -> None:
    expected = ErrorCode.NONE if isr == (1, 2) else ErrorCode.INVALID_REQUEST  # nothing to change
    assert refusal(cluster(LED_BY_1), change(*isr), broker_id=2) is expected


def test_a_replica_that_is_not_in_sync_changes_nothing() -> None:
    assert refusal(cluster(LED_BY_1), change(1), broker_id=3) is ErrorCode.INVALID_REQUEST


def test_an_eligible_replica_that_lost_its_records_is_not_elected() -> None:
    alone = LED_BY_1._replace(isr=(1,), eligible_leaders=(2, 3))
    outcome = alter_partitions(cluster(alone), rules, 2, 20, [change(1)])
    answer = outcome.results[0].partition
    assert answer is not None
    assert (answer.leader, answer.isr, answer.eligible_leaders) == (1, (1,), (3,))
    assert (answer.leader_epoch, answer.partition_epoch) == (4, 8)
    again = alter_partitions(cluster(answer), rules, 2, 20, [change(1)])
    assert again.records == ()  # nothing to change
    assert refusal(cluster(alone), change(1, 3), broker_id=2) is ErrorCode.INVALID_REQUEST
