"""Share groups (KIP-932): their members and their start offsets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.client.client import ClusterClient
from headrace.client.coordinator_request import send_to_coordinator
from headrace.client.coordinators import CoordinatorNode
from headrace.client.errors import RequestRefused, code_of_number
from headrace.client.groups import SHARE, GroupDescription, GroupMember, partitions_of
from headrace.client.results import Refusal, TopicPartition, refusal, refused
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


async def describe_share_group(
    client: ClusterClient, group: str, *, timeout_s: float
) -> GroupDescription | Refusal:
    """Describes the state and members of one share group."""
    found = await send_to_coordinator(
        CoordinatorNode(group),
        client,
        ShareGroupDescribeRequest(group_ids=[group]),
        ShareGroupDescribeResponse,
        lambda got: got.groups,
        timeout_s=timeout_s,
    )
    if found.error_code:
        return refused(found.error_code, found.error_message)
    members = tuple(
        GroupMember(
            each.member_id,
            None,
            each.client_id,
            each.client_host,
            partitions_of(each.assignment),
        )
        for each in found.members
    )
    return GroupDescription(
        found.group_id, SHARE, found.group_state, found.assignor_name, found.group_epoch, members
    )


async def share_offsets(
    client: ClusterClient, group: str, *, timeout_s: float
) -> dict[TopicPartition, SharePosition]:
    """Every partition for which the group has a start offset; raises `RequestRefused`."""
    found = await send_to_coordinator(
        CoordinatorNode(group),
        client,
        DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
        ),
        DescribeShareGroupOffsetsResponse,
        lambda got: got.groups,
        timeout_s=timeout_s,
    )
    _check_code(group, found.error_code)
    return {
        TopicPartition(topic.topic_name, each.partition_index): SharePosition(
            each.start_offset, each.lag
        )
        for topic in found.topics
        for each in topic.partitions
        if not each.error_code
    }


async def alter_share_offsets(
    client: ClusterClient, group: str, offsets: Mapping[TopicPartition, int], *, timeout_s: float
) -> dict[TopicPartition, Refusal | None]:
    """Sets the start offsets; raises `RequestRefused` for the group while it has members."""
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        each = AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
        topics.setdefault(topic, []).append(each)
    answer = await client.send(
        AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=[
                AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=of)
                for name, of in topics.items()
            ],
        ),
        AlterShareGroupOffsetsResponse,
        to=CoordinatorNode(group),
        timeout_s=timeout_s,
    )
    _check_code(group, answer.error_code)
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
    _check_code(group, answer.error_code)
    return {
        topic.topic_name: refusal(topic.error_code, topic.error_message)
        for topic in answer.responses
    }


def _check_code(group: str, number: int) -> None:
    if number:
        raise RequestRefused(code_of_number(number), f"the offsets of share group {group!r}")
