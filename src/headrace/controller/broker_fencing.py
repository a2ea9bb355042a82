"""Fencing: a broker that died is fenced, and its partitions get new leaders. Pure.

Each incarnation of a broker has its own broker epoch. If a broker is registered with another epoch
than before, it was restarted: the controller fences the old incarnation first, with all elections
that follow, and then registers the new one. This also holds if no session expired.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    BrokerFenced,
    BrokerRegistered,
    FencedReason,
    MetadataRecord,
    PartitionChanged,
)
from headrace.cluster.topology import BrokerRegistration, Topic
from headrace.controller.election_triggers import Disks, handle_unclean_shutdown
from headrace.controller.leader_election import ElectionContext, Rules, TopicRules, live_ids
from headrace.controller.partition_change import PartitionChange
from headrace.controller.staged_records import StagedRecords


class Arrival(NamedTuple):
    """A broker that is registered now.

    `intact` means that its logs still have every record. If not, `disks` says how many of its log
    directories are left.
    """

    broker: BrokerRegistration
    intact: bool = True
    disks: Disks = Disks.KEPT


_NONE: Final[Mapping[int, int]] = {}


def reconcile_brokers(
    image: MetadataImage,
    rules: Rules,
    registered: Mapping[int, Arrival],
    found_dead: Mapping[int, int] = _NONE,
) -> tuple[MetadataRecord, ...]:
    """Fences brokers that are no longer registered, registers new ones, and elects leaders.

    `found_dead` has the epochs of brokers whose process was found dead, by id.
    """
    steps = StagedRecords(image)
    known = {id_: broker for id_, broker in image.brokers.items() if not broker.fenced}
    gone = [
        id_ for id_, broker in known.items() if _is_other_incarnation(broker, registered.get(id_))
    ]
    steps.add(
        *(
            BrokerFenced(id_, _fenced_reason(known[id_], registered.get(id_), found_dead))
            for id_ in sorted(gone)
        )
    )
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
    steps.add(*_missing_levels(known, registered))
    return tuple(steps.records)


def _fenced_reason(
    known: BrokerRegistration, now: Arrival | None, found_dead: Mapping[int, int]
) -> FencedReason:
    if found_dead.get(known.broker_id) == known.epoch:
        return FencedReason.PROCESS_DIED
    return FencedReason.SESSION_ENDED if now is None else FencedReason.RESTARTED


def _missing_levels(
    known: Mapping[int, BrokerRegistration], registered: Mapping[int, Arrival]
) -> Iterator[BrokerRegistered]:
    """A controller of version 0.1.0 does not pass on the metadata levels of the brokers."""
    for id_, broker in known.items():
        now = registered.get(id_)
        if now is not None and not _is_other_incarnation(broker, now):
            level = now.broker.metadata_level
            if level != broker.metadata_level:
                yield BrokerRegistered(broker._replace(metadata_level=level))


def _is_other_incarnation(known: BrokerRegistration, now: Arrival | None) -> bool:
    return now is None or now.broker.epoch != known.epoch


def fence_broker(image: MetadataImage, rules: Rules, broker_id: int) -> tuple[MetadataRecord, ...]:
    """Fences a broker whose process is known to be dead, even if its session is still open."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return ()
    steps = StagedRecords(image)
    steps.add(BrokerFenced(broker_id, FencedReason.PROCESS_DIED))
    steps.add(*elect_new_leaders(steps.image, rules))
    return tuple(steps.records)


def elect_new_leaders(image: MetadataImage, rules: Rules) -> tuple[MetadataRecord, ...]:
    """Moves leadership to live replicas in sync and removes dead brokers from the ISRs."""
    live = live_ids(image)
    return tuple(
        change
        for topic in image.topics.values()
        for change in _elect_in_topic(topic, live, rules(topic.name))
    )


def _elect_in_topic(
    topic: Topic, live: frozenset[int], rules: TopicRules
) -> Iterator[PartitionChanged]:
    context = ElectionContext(live, rules.min_isr, rules.unclean)
    for index, partition in enumerate(topic.partitions):
        if partition.leader in live and live.issuperset(partition.isr):
            continue  # the usual case: nothing to change
        after = PartitionChange(partition, context).result()
        if after is not None:
            yield PartitionChanged(topic.topic_id, index, after)
