"""Leaders and in-sync replicas of all partitions: what the controller decides about them. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.records import MetadataRecord, PartitionChanged
from headrace.cluster.topology import NO_LEADER
from headrace.controller.partition_change import Election, ElectionContext, PartitionChange
from headrace.controller.replica_placement import new_partition
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult, Refused
from headrace.protocol.errors import ErrorCode


class TopicRules(NamedTuple):
    """The settings of a topic that decide about its leaders."""

    min_isr: int = 1
    unclean: bool = False
    flushes_each_ack: bool = False  # nothing acknowledged is ever lost with a page cache


class Disks(Enum):
    """What a broker that is back has of the disks that it had."""

    KEPT = "all: what was flushed is there"
    CHANGED = "some: nobody knows which logs are whole"
    LOST = "none: it has nothing"


Rules = Callable[[str], TopicRules]
"""The rules of a topic, by its name."""


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The answer for one partition whose leader was to be elected."""

    topic: str
    index: int
    error: ApiError = NO_ERROR


def live_ids(image: MetadataImage) -> frozenset[int]:
    """Brokers that may lead and take new replicas."""
    return frozenset(id_ for id_, broker in image.brokers.items() if broker.is_available)


def election_context(image: MetadataImage, rules: Rules, topic: str) -> ElectionContext:
    of_topic = rules(topic)
    return ElectionContext(live_ids(image), of_topic.min_isr, of_topic.unclean)


def update_eligible_leaders(image: MetadataImage, rules: Rules) -> tuple[MetadataRecord, ...]:
    """Partitions with enough in sync since a setting was changed: nobody else may lead them."""
    records: list[MetadataRecord] = []
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.eligible_leaders:
                after = PartitionChange(
                    partition, election_context(image, rules, topic.name)
                ).result()
                if after is not None:
                    records.append(PartitionChanged(topic.topic_id, index, after))
    return tuple(records)


def initialize_partitions(image: MetadataImage) -> tuple[MetadataRecord, ...]:
    """States of partitions whose creation was cut short: nobody has written to them yet."""
    live = live_ids(image)
    return tuple(
        PartitionChanged(topic.topic_id, index, new_partition(partition.replicas, live))
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
        if partition.leader_epoch < 0 and not live.isdisjoint(partition.replicas)
    )


def handle_unclean_shutdown(
    image: MetadataImage, rules: Rules, broker_id: int, disks: Disks = Disks.KEPT
) -> tuple[MetadataRecord, ...]:
    """The broker is back without what its page cache held: it leads only after catching up.

    Unless all that it acknowledged was flushed, and is still there.
    """
    live = live_ids(image)
    records: list[MetadataRecord] = []
    for topic in image.topics.values():
        of_topic = rules(topic.name)
        if of_topic.flushes_each_ack and disks is Disks.KEPT:
            continue
        where = ElectionContext(live, of_topic.min_isr, of_topic.unclean)
        for index, partition in enumerate(topic.partitions):
            if broker_id in partition.isr or broker_id in partition.eligible_leaders:
                change = PartitionChange(partition, where)
                change.mark_unclean(broker_id, empty=disks is Disks.LOST)
                after = change.result()
                if after is not None:
                    records.append(PartitionChanged(topic.topic_id, index, after))
    return tuple(records)


def elect_leaders(
    image: MetadataImage,
    rules: Rules,
    election: Election,
    partitions: Iterable[tuple[str, int]] | None,
) -> ControllerResult[ElectionResult]:
    """A person asks for elections; None asks for all, and is not told of those that need none."""
    everything = partitions is None
    asked = _all_partitions(image) if partitions is None else dict.fromkeys(partitions)
    records: list[MetadataRecord] = []
    answers: list[ElectionResult] = []
    for name, index in asked:
        try:
            records.append(_elected(image, rules, election, name, index))
        except Refused as refused:
            if not (everything and refused.error.code == ErrorCode.ELECTION_NOT_NEEDED):
                answers.append(ElectionResult(name, index, refused.error))
            continue
        answers.append(ElectionResult(name, index))
    return ControllerResult(tuple(records), answers)


def _all_partitions(image: MetadataImage) -> Iterator[tuple[str, int]]:
    for topic in image.topics.values():
        for index in range(len(topic.partitions)):
            yield topic.name, index


def _elected(
    image: MetadataImage, rules: Rules, election: Election, name: str, index: int
) -> PartitionChanged:
    topic = image.topics.get(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partition(index)
    if partition is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    preferred = election is Election.PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
        raise Refused(ErrorCode.ELECTION_NOT_NEEDED)
    after = PartitionChange(partition, election_context(image, rules, name)).result(election)
    wanted = after is not None and (
        after.leader == partition.replicas[0] if preferred else after.leader != NO_LEADER
    )
    if after is None or not wanted:
        raise Refused(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            if preferred
            else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
    return PartitionChanged(topic.topic_id, index, after)


def rebalance_preferred_leaders(
    image: MetadataImage, rules: Rules, *, max_imbalance: float
) -> tuple[MetadataRecord, ...]:
    """Gives leadership back to preferred leaders of whom too much is led by others."""
    preferred: dict[int, int] = {}
    elsewhere: dict[int, list[tuple[str, int]]] = {}
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            first = partition.replicas[0]
            preferred[first] = preferred.get(first, 0) + 1
            if partition.leader != first and first in partition.isr:
                elsewhere.setdefault(first, []).append((topic.name, index))
    wanted = [
        where
        for broker_id, places in elsewhere.items()
        if len(places) / preferred[broker_id] > max_imbalance
        for where in places
    ]
    return elect_leaders(image, rules, Election.PREFERRED, wanted).records
