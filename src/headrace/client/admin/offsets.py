"""Offsets: of partitions (start, end, by time), and those that groups have committed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.client import ClusterClient, ToBroker
from headrace.client.coordinators import CoordinatorNode
from headrace.client.errors import UnsupportedByBroker, check_error_code
from headrace.client.leader_requests import PATIENCE_S, Answers, send_to_leaders
from headrace.client.results import Refusal, TopicPartition, group_by_topic, moved, refusal, refused
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

LATEST: Final = -1
EARLIEST: Final = -2
NO_OFFSET: Final = -1
_CONSUMER: Final = -1  # the replica id of a client that is not a replica
_DEBUGGER: Final = -2  # the replica id of a client that may read from followers, too
_ONE_GROUP: Final = 7  # the last version of OffsetFetch for one group, with topic names
_MANY_GROUPS: Final = 8  # the first version of OffsetFetch for several groups
_GROUPS_BY_NAME: Final = 9  # the last version of OffsetFetch with topic names
_BY_NAME: Final = 9  # the last version of OffsetCommit with topic names instead of ids


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """The first record at or after a time; the offset is -1 if there is none."""

    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's position in one partition."""

    offset: int
    leader_epoch: int
    metadata: str


async def list_offsets(
    client: ClusterClient,
    timestamps: Mapping[TopicPartition, int],
    *,
    timeout_s: float,
    read_committed: bool = False,
    patience_s: float = PATIENCE_S,
) -> dict[TopicPartition, FoundOffset | Refusal]:
    """The offset of each partition at its timestamp, `EARLIEST` or `LATEST`.

    With `read_committed` the end is before the first open transaction. The call waits up to
    `patience_s` for leaders that are being elected.
    """

    async def send(leader: int, partitions: Sequence[TopicPartition]) -> Answers[FoundOffset]:
        topics = group_by_topic(
            partitions,
            lambda each: ListOffsetsPartition(
                partition_index=each.partition, timestamp=timestamps[each]
            ),
        )
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=int(read_committed),
            topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
            timeout_ms=int(timeout_s * 1000),
        )
        answer = await client.send(
            request, ListOffsetsResponse, to=ToBroker(leader), timeout_s=timeout_s, retry=False
        )
        return {
            TopicPartition(topic.name, each.partition_index): (
                refused(each.error_code)
                if each.error_code
                else FoundOffset(each.offset, each.timestamp)
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    return await send_to_leaders(
        client, list(timestamps), send, timeout_s=timeout_s, patience_s=patience_s
    )


async def replica_ends(
    client: ClusterClient, broker: int, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> dict[TopicPartition, int]:
    """The log end offsets of a broker's own replicas, whether it leads or follows.

    A partition for which the broker returns an error is left out. Headrace answers for leaders.
    """
    topics = group_by_topic(
        partitions,
        lambda each: ListOffsetsPartition(partition_index=each.partition, timestamp=LATEST),
    )
    request = ListOffsetsRequest(
        replica_id=_DEBUGGER,
        topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
        timeout_ms=int(timeout_s * 1000),
    )
    answer = await client.send(
        request, ListOffsetsResponse, to=ToBroker(broker), timeout_s=timeout_s, retry=False
    )
    return {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code and each.offset >= 0
    }


async def list_bounds(
    client: ClusterClient, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> dict[TopicPartition, tuple[int, int] | Refusal]:
    """For each partition, the first offset and the one after the last readable record."""
    first = await list_offsets(client, dict.fromkeys(partitions, EARLIEST), timeout_s=timeout_s)
    last = await list_offsets(client, dict.fromkeys(partitions, LATEST), timeout_s=timeout_s)
    bounds: dict[TopicPartition, tuple[int, int] | Refusal] = {}
    for each in partitions:
        start, end = first[each], last[each]
        if isinstance(start, Refusal):
            bounds[each] = start
        elif isinstance(end, Refusal):
            bounds[each] = end
        else:
            bounds[each] = (start.offset, end.offset)
    return bounds


async def committed_offsets(
    client: ClusterClient, group: str, *, timeout_s: float
) -> dict[TopicPartition, CommittedOffset]:
    """All offsets that the group has committed; raises `RequestRefused`."""
    answer = await client.send(
        OffsetFetchRequest(group_id=group, topics=None),
        OffsetFetchResponse,
        to=CoordinatorNode(group),
        timeout_s=timeout_s,
        at_most=_ONE_GROUP,
    )
    check_error_code(answer.error_code, f"cannot read the offsets of group {group!r}")
    return _committed(answer.topics)


def _committed(
    topics: Sequence[OffsetFetchResponseTopic] | Sequence[OffsetFetchResponseTopics],
) -> dict[TopicPartition, CommittedOffset]:
    return {
        TopicPartition(topic.name, each.partition_index): CommittedOffset(
            each.committed_offset, each.committed_leader_epoch, each.metadata or ""
        )
        for topic in topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset != NO_OFFSET
    }


async def offsets_of_groups(
    client: ClusterClient, groups: Sequence[str], coordinator: int, *, timeout_s: float
) -> dict[str, dict[TopicPartition, CommittedOffset] | Refusal]:
    """The committed offsets of several groups of one coordinator, in one request.

    Brokers before Kafka 3.0 are asked for one group after another.
    """
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    )
    try:
        answer = await client.send(
            request,
            OffsetFetchResponse,
            to=ToBroker(coordinator),
            timeout_s=timeout_s,
            at_least=_MANY_GROUPS,
            at_most=_GROUPS_BY_NAME,
        )
    except UnsupportedByBroker:
        return {
            group: await committed_offsets(client, group, timeout_s=timeout_s) for group in groups
        }
    return {
        group.group_id: refused(group.error_code) if group.error_code else _committed(group.topics)
        for group in answer.groups
    }


async def commit_offsets(
    client: ClusterClient,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    timeout_s: float,
    metadata: str = "",
) -> dict[TopicPartition, Refusal | None]:
    """Commits offsets from outside the group; the broker refuses while it has members."""
    topics = group_by_topic(
        offsets,
        lambda each: OffsetCommitRequestPartition(
            partition_index=each.partition,
            committed_offset=offsets[each],
            committed_metadata=metadata,
        ),
    )
    answer = await client.send(
        OffsetCommitRequest(
            group_id=group,
            topics=[
                OffsetCommitRequestTopic(name=name, partitions=each)
                for name, each in topics.items()
            ],
        ),
        OffsetCommitResponse,
        to=CoordinatorNode(group),
        timeout_s=timeout_s,
        at_most=_BY_NAME,
        code_of=lambda got: moved(
            each.error_code for topic in got.topics for each in topic.partitions
        ),
    )
    return {
        TopicPartition(topic.name, each.partition_index): refusal(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


async def delete_offsets(
    client: ClusterClient, group: str, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> dict[TopicPartition, Refusal | None]:
    """Deletes the group's offsets of these partitions; raises `RequestRefused`."""
    topics = group_by_topic(
        partitions, lambda each: OffsetDeleteRequestPartition(partition_index=each.partition)
    )
    answer = await client.send(
        OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(name=name, partitions=each)
                for name, each in topics.items()
            ],
        ),
        OffsetDeleteResponse,
        to=CoordinatorNode(group),
        timeout_s=timeout_s,
    )
    check_error_code(answer.error_code, f"cannot delete the offsets of group {group!r}")
    return {
        TopicPartition(topic.name, each.partition_index): refusal(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }
