"""Requests about partition reassignments: start, list, cancel. Pure.

A reassignment can be interrupted at any point: old and new replicas hold the partition together
until the new ones are in sync. The change that reports the last new replica as in sync also removes
the old ones (`reassignment_completion`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import MetadataRecord, PartitionChanged
from headrace.cluster.topology import Partition
from headrace.controller.leader_election import Rules, election_context
from headrace.controller.partition_change import PartitionChange
from headrace.controller.replica_placement import check_assignment
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult, Refused
from headrace.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The target replicas of a partition; None cancels its reassignment."""

    topic: str
    index: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Reassigned:
    """The result for one partition."""

    topic: str
    index: int
    error: ApiError = NO_ERROR


@dataclass(frozen=True, slots=True)
class Ongoing:
    """A partition that is being reassigned."""

    topic: str
    index: int
    partition: Partition


def alter_reassignments(
    image: MetadataImage,
    rules: Rules,
    wanted: Sequence[Reassignment],
    *,
    allow_factor_change: bool = True,
) -> ControllerResult[Reassigned]:
    """One result for each requested change, in order; the last one for a partition wins."""
    times = Counter((item.topic, item.index) for item in wanted)
    records: list[MetadataRecord] = []
    results: list[Reassigned] = []
    for item in wanted:
        try:
            record = _reassignment_record(image, rules, item, allow_factor_change)
        except Refused as refused:
            results.append(Reassigned(item.topic, item.index, refused.error))
            continue
        if record is not None:
            records.append(record)
            if times[item.topic, item.index] > 1:
                # The next change must build on this one: two states must not share one epoch.
                image = image.apply([record])
        results.append(Reassigned(item.topic, item.index))
    return ControllerResult(tuple(records), results)


def list_reassignments(
    image: MetadataImage, partitions: Iterable[tuple[str, int]] | None = None
) -> list[Ongoing]:
    """The reassignments in progress, of these partitions or of all."""
    if partitions is None:
        partitions = (
            (topic.name, index)
            for topic in image.topics.values()
            for index in range(len(topic.partitions))
        )
    ongoing = []
    for name, index in partitions:
        partition = image.partition(name, index)
        if partition is not None and (partition.adding or partition.removing):
            ongoing.append(Ongoing(name, index, partition))
    return ongoing


def _reassignment_record(
    image: MetadataImage, rules: Rules, item: Reassignment, allow_factor_change: bool
) -> PartitionChanged | None:
    topic = image.topics.get(item.topic)
    if topic is None:
        raise Refused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {item.topic}."
        )
    partition = topic.partition(item.index)
    if partition is None:
        raise Refused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {item.topic}:{item.index}.",
        )
    change = PartitionChange(partition, election_context(image, rules, item.topic))
    under_way = bool(partition.adding or partition.removing)
    if item.replicas is None:
        if not under_way:
            raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        change.cancel_reassignment()
    else:
        _check_target(image, partition, item.replicas, allow_factor_change)
        change.reassign(item.replicas)
    if change.loses_every_complete_replica:
        what = "cancelled" if item.replicas is None else "changed"
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The reassignment cannot be {what}: no remaining replica is in sync.",
        )
    after = change.result()
    return None if after is None else PartitionChanged(topic.topic_id, item.index, after)


def _check_target(
    image: MetadataImage,
    partition: Partition,
    target: tuple[int, ...],
    allow_factor_change: bool,
) -> None:
    check_assignment(target, image.brokers)
    factor = len(set(partition.replicas) - set(partition.adding))
    if not allow_factor_change and len(target) != factor:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(target)}",
        )
