"""Share groups (KIP-932): their members and their start offsets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.client.admin.groups import SHARE, GroupDescription, describe_modern_group
from headrace.client.admin.share_locks import ShareLocks, locks_of
from headrace.client.client import ClusterClient, ToBroker
from headrace.client.coordinator_request import send_or_refuse, send_to_coordinator
from headrace.client.coordinators import CoordinatorNode
from headrace.client.errors import check_error_code
from headrace.client.results import (
    Refusal,
    TopicPartition,
    group_by_topic,
    refusal,
    refused,
)
from headrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from headrace.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from headrace.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


@dataclass(frozen=True, slots=True)
class SharePosition:
    """The first offset of a partition that a share group delivers; the lag is -1 if unknown."""

    start_offset: int
    lag: int
    lag_ms: int = -1
    """The age of the first record that is not finished; only Headrace sends it."""
    locks: ShareLocks | None = None
    """If the request asked for them; only Headrace sends them."""


async def describe_share_group(
    client: ClusterClient, group: str, *, timeout_s: float
) -> GroupDescription | Refusal:
    """Describes the state and members of one share group."""
    found = await send_or_refuse(
        CoordinatorNode(group),
        client,
        ShareGroupDescribeRequest(group_ids=[group]),
        ShareGroupDescribeResponse,
        lambda got: got.groups,
        timeout_s=timeout_s,
    )
    return found if isinstance(found, Refusal) else describe_modern_group(found, SHARE)


async def share_offsets(
    client: ClusterClient, group: str, *, timeout_s: float, locks: bool = False
) -> dict[TopicPartition, SharePosition]:
    """Every partition for which the group has a start offset; raises `RequestRefused`.

    With `locks`, also the records that members hold now.
    """
    found = await send_to_coordinator(
        CoordinatorNode(group),
        client,
        DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)],
            include_locks=locks,
        ),
        DescribeShareGroupOffsetsResponse,
        lambda got: got.groups,
        timeout_s=timeout_s,
    )
    check_error_code(found.error_code, f"cannot read the start offsets of share group {group!r}")
    return _positions(found)


async def share_offsets_of_groups(
    client: ClusterClient, groups: Sequence[str], coordinator: int, *, timeout_s: float
) -> dict[str, dict[TopicPartition, SharePosition] | Refusal]:
    """The start offsets of several share groups of one coordinator, in one request."""
    answer = await client.send(
        DescribeShareGroupOffsetsRequest(
            groups=[
                DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
                for group in groups
            ]
        ),
        DescribeShareGroupOffsetsResponse,
        to=ToBroker(coordinator),
        timeout_s=timeout_s,
    )
    return {
        found.group_id: refused(found.error_code) if found.error_code else _positions(found)
        for found in answer.groups
    }


def _positions(
    found: DescribeShareGroupOffsetsResponseGroup,
) -> dict[TopicPartition, SharePosition]:
    return {
        TopicPartition(topic.topic_name, each.partition_index): SharePosition(
            each.start_offset, each.lag, each.lag_ms, locks_of(each)
        )
        for topic in found.topics
        for each in topic.partitions
        if not each.error_code
    }


async def alter_share_offsets(
    client: ClusterClient, group: str, offsets: Mapping[TopicPartition, int], *, timeout_s: float
) -> dict[TopicPartition, Refusal | None]:
    """Sets the start offsets; raises `RequestRefused` for the group while it has members."""
    topics = group_by_topic(
        offsets,
        lambda each: AlterShareGroupOffsetsRequestPartition(
            partition_index=each.partition, start_offset=offsets[each]
        ),
    )
    answer = await client.send(
        AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=[
                AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        ),
        AlterShareGroupOffsetsResponse,
        to=CoordinatorNode(group),
        timeout_s=timeout_s,
    )
    check_error_code(answer.error_code, f"cannot alter the start offsets of share group {group!r}")
    return {
        TopicPartition(topic.topic_name, each.partition_index): refusal(
            each.error_code, each.error_message
        )
        for topic in answer.responses
        for each in topic.partitions
    }


async def delete_share_offsets(
    client: ClusterClient, group: str, topics: Sequence[str], *, timeout_s: float
) -> dict[str, Refusal | None]:
    """Deletes the group's state for these topics; raises `RequestRefused`."""
    answer = await client.send(
        DeleteShareGroupOffsetsRequest(
            group_id=group,
            topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
        ),
        DeleteShareGroupOffsetsResponse,
        to=CoordinatorNode(group),
        timeout_s=timeout_s,
    )
    check_error_code(answer.error_code, f"cannot delete the start offsets of share group {group!r}")
    return {
        topic.topic_name: refusal(topic.error_code, topic.error_message)
        for topic in answer.responses
    }
