"""Brokers join, leave and come back: what the controller makes of it. Pure.

A broker's epoch is new in each of its lives. One that is seen with another epoch than before was
bounced: its old life ends first, with everything that follows from that, and then the new one
begins; so a restart that nobody noticed is still a restart.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.records import (
    BrokerFenced,
    BrokerRegistered,
    MetadataRecord,
    PartitionChanged,
)
from headrace.cluster.topology import BrokerRegistration, Topic
from headrace.controller.leader_election import (
    Disks,
    Rules,
    TopicRules,
    handle_unclean_shutdown,
    live_ids,
)
from headrace.controller.partition_change import ElectionContext, PartitionChange
from headrace.controller.record_steps import RecordSteps


class Arrival(NamedTuple):
    """A broker that is registered now.

    `intact` says that its logs are what they were; if not, `disks` what there is of them.
    """

    broker: BrokerRegistration
    intact: bool = True
    disks: Disks = Disks.KEPT


def reconcile_brokers(
    image: MetadataImage, rules: Rules, registered: Mapping[int, Arrival]
) -> tuple[MetadataRecord, ...]:
    """From the brokers that were live to those that are registered now."""
    steps = RecordSteps(image)
    known = {id_: broker for id_, broker in image.brokers.items() if not broker.fenced}
    gone = [id_ for id_, broker in known.items() if _is_another(broker, registered.get(id_))]
    steps.add(*(BrokerFenced(id_) for id_ in sorted(gone)))
    if gone:
        steps.add(*elect_new_leaders(steps.image, rules))
    arrived = [
        arrival
        for id_, arrival in sorted(registered.items())
        if id_ not in known or known[id_].epoch != arrival.broker.epoch
    ]
    for arrival in arrived:
        steps.add(BrokerRegistered(arrival.broker))
        if not arrival.intact:
            id_ = arrival.broker.broker_id
            steps.add(*handle_unclean_shutdown(steps.image, rules, id_, arrival.disks))
    if arrived:
        steps.add(*elect_new_leaders(steps.image, rules))
    return tuple(steps.records)


def _is_another(known: BrokerRegistration, now: Arrival | None) -> bool:
    return now is None or now.broker.epoch != known.epoch


def fence_broker(image: MetadataImage, rules: Rules, broker_id: int) -> tuple[MetadataRecord, ...]:
    """The broker is known to be dead, whatever its session says."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return ()
    steps = RecordSteps(image)
    steps.add(BrokerFenced(broker_id))
    steps.add(*elect_new_leaders(steps.image, rules))
    return tuple(steps.records)


def elect_new_leaders(image: MetadataImage, rules: Rules) -> tuple[MetadataRecord, ...]:
    """What follows from who is live now: leaders move, the dead leave the in-sync sets."""
    live = live_ids(image)
    return tuple(
        change
        for topic in image.topics.values()
        for change in _elect_in_topic(topic, live, rules(topic.name))
    )


def _elect_in_topic(
    topic: Topic, live: frozenset[int], rules: TopicRules
) -> Iterator[PartitionChanged]:
    where = ElectionContext(live, rules.min_isr, rules.unclean)
    for index, partition in enumerate(topic.partitions):
        if partition.leader in live and live.issuperset(partition.isr):
            continue  # nearly all of them, nearly always
        after = PartitionChange(partition, where).result()
        if after is not None:
            yield PartitionChanged(topic.topic_id, index, after)
