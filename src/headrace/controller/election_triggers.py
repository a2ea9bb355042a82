"""The events that start leader elections, apart from dead brokers. Pure.

They are requests, the rebalancing of preferred leaders, unclean shutdowns and changed settings.
`broker_fencing` handles dead brokers. `leader_election` chooses the leader of one partition.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import MetadataRecord, PartitionChanged
from headrace.cluster.topology import NO_LEADER
from headrace.controller.leader_election import (
    Election,
    ElectionContext,
    Rules,
    election_context,
    live_ids,
)
from headrace.controller.partition_change import PartitionChange
from headrace.controller.replica_placement import new_partition
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult, Refused
from headrace.protocol.errors import ErrorCode


class Disks(Enum):
    """The former log directories that a restarted broker still has."""

    KEPT = "all: every flushed record is there"
    CHANGED = "some: any log may be incomplete"
    LOST = "none: no record is left"


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The result of an election for one partition."""

    topic: str
    index: int
    error: ApiError = NO_ERROR


def update_eligible_leaders(image: MetadataImage, rules: Rules) -> tuple[MetadataRecord, ...]:
    """Clears the eligible leaders of partitions whose ISR meets a changed min.insync.replicas."""
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
    """Gives a first leader and ISR to partitions whose creation was interrupted."""
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
    """Removes a broker from ISRs after an unclean restart (KIP-966): it must catch up first.

    Its page cache is lost, and with it perhaps records that it acknowledged. Topics that flush
    before each acknowledgement are exempt if the broker still has all its log directories.
    """
    live = live_ids(image)
    records: list[MetadataRecord] = []
    for topic in image.topics.values():
        of_topic = rules(topic.name)
        if of_topic.flushes_each_ack and disks is Disks.KEPT:
            continue
        context = ElectionContext(live, of_topic.min_isr, of_topic.unclean)
        for index, partition in enumerate(topic.partitions):
            if broker_id in partition.isr or broker_id in partition.eligible_leaders:
                change = PartitionChange(partition, context)
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
    """Elections on request (ElectLeaders). None means all partitions; those that need no election
    are then left out of the result."""
    everything = partitions is None
    asked = _all_partitions(image) if partitions is None else dict.fromkeys(partitions)
    records: list[MetadataRecord] = []
    results: list[ElectionResult] = []
    for name, index in asked:
        try:
            records.append(_elect_partition(image, rules, election, name, index))
        except Refused as refused:
            if not (everything and refused.error.code == ErrorCode.ELECTION_NOT_NEEDED):
                results.append(ElectionResult(name, index, refused.error))
            continue
        results.append(ElectionResult(name, index))
    return ControllerResult(tuple(records), results)


def _all_partitions(image: MetadataImage) -> Iterator[tuple[str, int]]:
    for topic in image.topics.values():
        for index in range(len(topic.partitions)):
            yield topic.name, index


def _elect_partition(
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
    """Moves leadership back to preferred leaders that lead too few of their partitions."""
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
