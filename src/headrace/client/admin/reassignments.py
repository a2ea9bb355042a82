"""Partition reassignments: start, list, cancel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.client.client import ClusterClient, ToController
from headrace.client.errors import check_error_code
from headrace.client.results import (
    Refusal,
    TopicPartition,
    group_by_topic,
    indexes_by_topic,
    refusal,
)
from headrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


@dataclass(frozen=True, slots=True)
class Move:
    """A reassignment in progress: all current replicas, those being added and those removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(each for each in self.replicas if each not in self.removing)


async def alter_reassignments(
    client: ClusterClient,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    *,
    timeout_s: float,
) -> dict[TopicPartition, Refusal | None]:
    """Starts moving each partition to these replicas; None cancels its reassignment."""

    def reassignment(partition: TopicPartition) -> ReassignablePartition:
        replicas = targets[partition]
        return ReassignablePartition(
            partition_index=partition.partition,
            replicas=None if replicas is None else list(replicas),
        )

    topics = group_by_topic(targets, reassignment)
    answer = await client.send(
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=name, partitions=each) for name, each in topics.items()],
            timeout_ms=int(timeout_s * 1000),
        ),
        AlterPartitionReassignmentsResponse,
        to=ToController(),
        timeout_s=timeout_s,
    )
    check_error_code(answer.error_code, "cannot change reassignments")
    return {
        TopicPartition(topic.name, each.partition_index): refusal(
            each.error_code, each.error_message
        )
        for topic in answer.responses
        for each in topic.partitions
    }


async def list_reassignments(
    client: ClusterClient,
    partitions: Sequence[TopicPartition] | None = None,
    *,
    timeout_s: float,
) -> dict[TopicPartition, Move]:
    """The reassignments in progress, of these partitions or of all."""
    topics = indexes_by_topic(partitions or ())
    answer = await client.send(
        ListPartitionReassignmentsRequest(
            topics=None
            if partitions is None
            else [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
                for name, indexes in topics.items()
            ],
            timeout_ms=int(timeout_s * 1000),
        ),
        ListPartitionReassignmentsResponse,
        to=ToController(),
        timeout_s=timeout_s,
    )
    check_error_code(answer.error_code, "cannot list reassignments")
    return {
        TopicPartition(topic.name, each.partition_index): Move(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in answer.topics
        for each in topic.partitions
    }
