"""AlterPartition: checks the in-sync sets that leaders propose, and applies them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import MetadataRecord, PartitionChanged
from headrace.cluster.topology import BrokerRegistration, Partition, Topic
from headrace.controller.leader_election import Rules, election_context, live_ids
from headrace.controller.partition_change import PartitionChange
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult, Refused
from headrace.protocol.errors import ErrorCode


class IsrMember(NamedTuple):
    """A broker that the leader reports in sync; the epoch is -1 if the leader does not know it."""

    broker_id: int
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class IsrChange:
    """The in-sync set that a leader proposes for one partition."""

    topic_id: bytes
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]


@dataclass(frozen=True, slots=True)
class IsrResult:
    """The partition's new state, or an error."""

    topic_id: bytes
    index: int
    partition: Partition | None = None
    error: ApiError = NO_ERROR


def alter_partitions(
    image: MetadataImage,
    rules: Rules,
    broker_id: int,
    broker_epoch: int,
    changes: Sequence[IsrChange],
) -> ControllerResult[IsrResult]:
    """Applies a leader's new in-sync sets. The caller has checked the broker's epoch.

    A broker with a failed disk sends a set without itself. It leaves the in-sync set and the
    eligible leaders; if it led the partition, another replica is elected.
    """
    records: list[MetadataRecord] = []
    results: list[IsrResult] = []
    for change in changes:
        try:
            topic, partition = _find_partition(image, change.topic_id, change.index)
            isr = tuple(member.broker_id for member in change.isr)
            leaves = broker_id not in isr and broker_id in partition.eligible_leaders
            if leaves or not _is_already_applied(partition, change, isr):
                _check_isr_change(image, partition, broker_id, change)
                altered = PartitionChange(partition, election_context(image, rules, topic.name))
                altered.set_isr(isr)
                if broker_id not in isr:
                    altered.mark_unclean(broker_id)
                after = altered.result()
                if after is not None:
                    records.append(PartitionChanged(change.topic_id, change.index, after))
                    partition = after
        except Refused as refused:
            results.append(IsrResult(change.topic_id, change.index, error=refused.error))
            continue
        results.append(IsrResult(change.topic_id, change.index, partition))
    return ControllerResult(tuple(records), results)


def _find_partition(image: MetadataImage, topic_id: bytes, index: int) -> tuple[Topic, Partition]:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partition(index)
    if partition is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic, partition


def _is_already_applied(partition: Partition, change: IsrChange, isr: tuple[int, ...]) -> bool:
    """Whether a request repeats one whose response was lost: that is a success, not a conflict."""
    return (
        change.leader_epoch == partition.leader_epoch
        and change.partition_epoch <= partition.partition_epoch
        and sorted(isr) == sorted(partition.isr)
    )


def _check_isr_change(
    image: MetadataImage, partition: Partition, broker_id: int, change: IsrChange
) -> None:
    if (
        change.leader_epoch > partition.leader_epoch
        or change.partition_epoch > partition.partition_epoch
    ):
        raise Refused(ErrorCode.NOT_CONTROLLER)  # the leader follows a newer controller
    if change.leader_epoch < partition.leader_epoch:
        raise Refused(ErrorCode.FENCED_LEADER_EPOCH)
    ids = [member.broker_id for member in change.isr]
    resigns = broker_id not in ids
    least = 1 if live_ids(image).isdisjoint(partition.eligible_leaders) else 0
    if resigns and not least <= len(ids) <= len(set(partition.isr) - {broker_id}):
        raise Refused(ErrorCode.INVALID_REQUEST)
    if broker_id != partition.leader and set(ids) != set(partition.isr) - {broker_id}:
        raise Refused(ErrorCode.INVALID_REQUEST)  # a follower may remove only itself
    if change.partition_epoch < partition.partition_epoch:
        raise Refused(ErrorCode.INVALID_UPDATE_VERSION)
    if len(set(ids)) != len(ids) or not set(ids) <= set(
        partition.isr if resigns else partition.replicas
    ):
        raise Refused(ErrorCode.INVALID_REQUEST)
    if any(not _may_join(image.brokers.get(member.broker_id), member) for member in change.isr):
        raise Refused(ErrorCode.INELIGIBLE_REPLICA)


def _may_join(broker: BrokerRegistration | None, member: IsrMember) -> bool:
    """Whether this incarnation may join: a restarted broker may have lost the end of its log."""
    return (
        broker is not None
        and not broker.fenced
        and not broker.leaving
        and member.broker_epoch in (-1, broker.epoch)
    )
