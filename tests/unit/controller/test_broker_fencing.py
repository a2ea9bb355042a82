"""Brokers join, leave and return."""

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    BrokerFenced,
    BrokerRegistered,
    FencedReason,
    MetadataRecord,
    PartitionChanged,
    TopicCreated,
)
from headrace.cluster.topology import NO_LEADER, BrokerRegistration, Partition
from headrace.controller.broker_fencing import Arrival, fence_broker, reconcile_brokers
from headrace.controller.broker_registration import unregister_broker
from headrace.controller.controlled_shutdown import begin_controlled_shutdown
from headrace.controller.leader_election import TopicRules
from headrace.protocol.errors import ErrorCode

TOPIC_ID = bytes(15) + b"\1"


def rules(_topic: str) -> TopicRules:
    return TopicRules(min_isr=2)


def broker(broker_id: int, epoch: int = 1) -> BrokerRegistration:
    return BrokerRegistration(broker_id, epoch, ())


def cluster(*partitions: Partition, brokers: tuple[int, ...] = (1, 2, 3)) -> MetadataImage:
    records: list[MetadataRecord] = [BrokerRegistered(broker(id_)) for id_ in brokers]
    records.append(TopicCreated("t", TOPIC_ID, partitions))
    return MetadataImage().apply(records)


def after(image: MetadataImage, records: tuple[MetadataRecord, ...]) -> Partition:
    found = image.apply(records).partition("t", 0)
    assert found is not None
    return found


FULL = Partition(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)


def arrivals(*brokers: BrokerRegistration, intact: bool = True) -> dict[int, Arrival]:
    return {each.broker_id: Arrival(each, intact) for each in brokers}


def test_no_change_writes_no_records() -> None:
    assert reconcile_brokers(cluster(FULL), rules, arrivals(broker(1), broker(2), broker(3))) == ()


def test_a_broker_that_left_is_fenced_and_its_partitions_get_new_leaders() -> None:
    image = cluster(FULL)
    records = reconcile_brokers(image, rules, arrivals(broker(2), broker(3)))
    assert records[0] == BrokerFenced(1, FencedReason.SESSION_ENDED)
    assert (after(image, records).leader, after(image, records).isr) == (2, (2, 3))


def test_a_restart_between_two_checks_is_detected() -> None:
    image = cluster(FULL)
    records = reconcile_brokers(image, rules, arrivals(broker(1, 7), broker(2), broker(3)))
    assert after(image, records).leader == 2
    assert image.apply(records).brokers[1].epoch == 7


def test_a_dead_broker_is_fenced_before_its_session_expires() -> None:
    image = cluster(FULL)
    assert after(image, fence_broker(image, rules, 1)).leader == 2
    assert fence_broker(image.apply(fence_broker(image, rules, 1)), rules, 1) == ()


def test_a_broker_that_lost_its_page_cache_leaves_the_in_sync_set() -> None:
    image = cluster(FULL._replace(isr=(1,), eligible_leaders=(2,)), brokers=(1,))
    image = image.apply(reconcile_brokers(image, rules, {}))
    records = reconcile_brokers(image, rules, arrivals(broker(1, 7), intact=False))
    assert after(image, records).leader == NO_LEADER
    both = {**arrivals(broker(1, 7)), **arrivals(broker(2, 8))}
    image = image.apply(records)
    assert after(image, reconcile_brokers(image, rules, both)).leader == 2


def test_a_topic_that_flushes_each_ack_trusts_a_broker_after_a_power_loss() -> None:
    def flushed(_topic: str) -> TopicRules:
        return TopicRules(min_isr=2, flushes_each_ack=True)

    image = cluster(FULL._replace(isr=(1,), eligible_leaders=(2,)), brokers=(1,))
    image = image.apply(reconcile_brokers(image, flushed, {}))
    records = reconcile_brokers(image, flushed, arrivals(broker(1, 7), intact=False))
    assert after(image, records).leader == 1


def test_a_leaving_broker_hands_over_its_partitions() -> None:
    image = cluster(FULL)
    outcome = begin_controlled_shutdown(image, rules, 1, 1)
    assert outcome.results[0].remaining == ()
    assert (after(image, outcome.records).leader, after(image, outcome.records).isr) == (2, (2, 3))
    again = begin_controlled_shutdown(image.apply(outcome.records), rules, 1, 1)
    assert again.records == ()


def test_a_leaving_broker_keeps_partitions_that_no_other_broker_can_lead() -> None:
    image = cluster(Partition(replicas=(1,), isr=(1,), leader=1))
    outcome = begin_controlled_shutdown(image, rules, 1, 1)
    assert outcome.results[0].remaining == (("t", 0),)
    assert not any(isinstance(record, PartitionChanged) for record in outcome.records)


def test_an_earlier_incarnation_cannot_start_a_controlled_shutdown() -> None:
    outcome = begin_controlled_shutdown(cluster(FULL), rules, 1, 99)
    assert outcome.results[0].error.code is ErrorCode.STALE_BROKER_EPOCH
    assert outcome.records == ()


def test_only_a_stopped_broker_can_be_unregistered() -> None:
    image = cluster(FULL)
    assert unregister_broker(image, rules, 1).results[0].code is ErrorCode.INVALID_REQUEST
    assert unregister_broker(image, rules, 9).results[0].code is ErrorCode.BROKER_ID_NOT_REGISTERED
    stopped = image.apply(fence_broker(image, rules, 1))
    outcome = unregister_broker(stopped, rules, 1)
    assert outcome.results[0].code is ErrorCode.NONE
    assert 1 not in stopped.apply(outcome.records).brokers
