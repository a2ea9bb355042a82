"""Partition reassignments."""

import pytest

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import BrokerRegistered, MetadataRecord, TopicCreated
from headrace.cluster.topology import BrokerRegistration, Partition
from headrace.controller.leader_election import TopicRules
from headrace.controller.reassignment import (
    Reassignment,
    alter_reassignments,
    list_reassignments,
)
from headrace.protocol.errors import ErrorCode

STILL = Partition(replicas=(1, 2), isr=(1, 2), leader=1)


def rules(_topic: str) -> TopicRules:
    return TopicRules()


def cluster(*partitions: Partition) -> MetadataImage:
    records: list[MetadataRecord] = [
        BrokerRegistered(BrokerRegistration(id_, id_, ())) for id_ in range(1, 5)
    ]
    records.append(TopicCreated("t", bytes(15) + b"\1", partitions))
    return MetadataImage().apply(records)


def moved(image: MetadataImage, *target: int) -> MetadataImage:
    outcome = alter_reassignments(image, rules, [Reassignment("t", 0, target)])
    assert outcome.results[0].error.code is ErrorCode.NONE
    return image.apply(outcome.records)


def test_a_reassignment_is_listed_until_it_completes() -> None:
    image = moved(cluster(STILL), 3, 1)
    (ongoing,) = list_reassignments(image)
    assert (ongoing.partition.replicas, ongoing.partition.adding) == ((3, 1, 2), (3,))
    assert list_reassignments(image, [("t", 1), ("u", 0)]) == []
    assert list_reassignments(cluster(STILL)) == []


def test_a_second_target_replaces_the_first() -> None:
    image = moved(moved(cluster(STILL), 3, 1), 4, 1)
    (ongoing,) = list_reassignments(image)
    assert set(ongoing.partition.replicas) == {4, 1, 2}
    assert (ongoing.partition.adding, ongoing.partition.removing) == ((4,), (2,))


def test_a_reassignment_back_to_the_original_replicas_completes_at_once() -> None:
    image = moved(moved(cluster(STILL), 1, 2, 3), 1, 2)
    assert list_reassignments(image) == []
    partition = image.partition("t", 0)
    assert partition is not None
    assert partition.replicas == (1, 2)


def test_the_same_replicas_in_another_order_take_effect_at_once() -> None:
    image = moved(cluster(STILL), 2, 1)
    partition = image.partition("t", 0)
    assert partition is not None
    assert (partition.replicas, partition.adding, partition.leader) == ((2, 1), (), 1)


def test_a_cancelled_reassignment_restores_the_original_state() -> None:
    image = moved(cluster(STILL), 3, 4)
    outcome = alter_reassignments(image, rules, [Reassignment("t", 0, None)])
    partition = image.apply(outcome.records).partition("t", 0)
    assert partition is not None
    assert set(partition.replicas) == {1, 2}
    assert list_reassignments(image.apply(outcome.records)) == []


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (Reassignment("t", 0, None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (Reassignment("t", 5, (1,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Reassignment("u", 0, (1,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Reassignment("t", 0, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Reassignment("t", 0, (1, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Reassignment("t", 0, (1, 9)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_impossible_reassignment_is_refused(wanted: Reassignment, code: ErrorCode) -> None:
    outcome = alter_reassignments(cluster(STILL), rules, [wanted])
    assert outcome.results[0].error.code is code
    assert outcome.records == ()


def test_errors_have_kafkas_texts_and_order() -> None:
    wrong = [
        Reassignment("u", 0, (1,)),
        Reassignment("t", 5, (1,)),
        Reassignment("t", 0, (9, 9)),
    ]
    outcome = alter_reassignments(cluster(STILL), rules, wrong)
    assert [each.error.message for each in outcome.results] == [
        "Unable to find a topic named u.",
        "Unable to find partition t:5.",
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    ]


def test_the_last_of_two_targets_in_one_request_wins_and_builds_on_the_first() -> None:
    """Two changes of one state must not share an epoch: brokers could apply one change and the
    controller the other."""
    image = cluster(STILL)
    wanted = [Reassignment("t", 0, (3, 1)), Reassignment("t", 0, (4, 1))]
    outcome = alter_reassignments(image, rules, wanted)
    assert [each.error.code for each in outcome.results] == [ErrorCode.NONE] * 2
    partition = image.apply(outcome.records).partition("t", 0)
    assert partition == moved(moved(image, 3, 1), 4, 1).partition("t", 0)


def test_a_change_of_the_replication_factor_can_be_disallowed() -> None:
    outcome = alter_reassignments(
        cluster(STILL), rules, [Reassignment("t", 0, (1, 2, 3))], allow_factor_change=False
    )
    assert outcome.results[0].error.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_second_target_does_not_remove_the_last_in_sync_replica() -> None:
    # 1 and 2 are gone; 3, which is being added, holds what was acknowledged since.
    half = Partition(replicas=(3, 4, 1, 2), isr=(3,), leader=3, adding=(3, 4), removing=(1, 2))
    for target in ((4, 1), (1, 2)):
        outcome = alter_reassignments(cluster(half), rules, [Reassignment("t", 0, target)])
        assert outcome.results[0].error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert outcome.records == ()
    assert moved(cluster(half), 3, 1).partition("t", 0) is not None


def test_a_second_target_does_not_remove_the_last_eligible_leader() -> None:
    dark = Partition(
        replicas=(3, 4, 1, 2),
        isr=(),
        leader=-1,
        adding=(3, 4),
        removing=(1, 2),
        eligible_leaders=(3,),
    )
    outcome = alter_reassignments(cluster(dark), rules, [Reassignment("t", 0, (1, 2))])
    assert outcome.results[0].error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
