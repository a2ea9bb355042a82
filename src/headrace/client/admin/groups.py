"""Groups of every type: list, describe classic and KIP-848 groups, delete."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.client.broker_requests import Listing, list_at_brokers
from headrace.client.client import ClusterClient, ToBroker
from headrace.client.coordinator_request import send_or_refuse, send_to_coordinator
from headrace.client.coordinators import CoordinatorNode
from headrace.client.errors import UnsupportedByBroker, check_error_code
from headrace.client.results import Refusal, TopicPartition, refusal, refused
from headrace.protocol.errors import ErrorCode, MalformedMessage
from headrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from headrace.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from headrace.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headrace.protocol.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsDescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.protocol.messages.share_group_describe import (
    ShareGroupDescribeDescribedGroup,
    ShareGroupDescribeMember,
)

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"
DEAD = "Dead"
_CONSUMER_PROTOCOL = "consumer"
_VERSION_BYTES = 2
_NEWEST_ASSIGNMENT = 3  # later versions append fields, which a reader of this version ignores
_ELSEWHERE = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """One listed group; state and type are empty if the broker does not send them."""

    group_id: str
    kind: str
    state: str
    protocol_type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member and the partitions it owns."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A classic group (`epoch` is None) or a KIP-848 group."""

    group_id: str
    kind: str
    state: str
    assignor: str
    epoch: int | None
    members: tuple[GroupMember, ...]


async def list_groups(client: ClusterClient, *, timeout_s: float) -> Listing[ListedGroup]:
    """The groups of all coordinators that answer, by id."""

    async def ask(broker: int, limit_s: float) -> list[ListedGroup]:
        return await list_groups_of(client, broker, timeout_s=limit_s)

    found = await list_at_brokers(client, ask, timeout_s=timeout_s)
    return Listing(sorted(found.items, key=lambda group: group.group_id), found.failures)


async def list_groups_of(
    client: ClusterClient, broker: int, *, timeout_s: float
) -> list[ListedGroup]:
    """The groups that this broker coordinates; raises `RequestRefused`."""
    answer = await client.send(
        ListGroupsRequest(), ListGroupsResponse, to=ToBroker(broker), timeout_s=timeout_s
    )
    check_error_code(answer.error_code, f"cannot list the groups of broker {broker}")
    return [
        ListedGroup(
            group.group_id, group.group_type.lower(), group.group_state, group.protocol_type, broker
        )
        for group in answer.groups
    ]


async def describe_group(
    client: ClusterClient, group: str, *, timeout_s: float
) -> GroupDescription | Refusal:
    """Describes a classic or a KIP-848 group."""
    try:
        modern = await _describe_consumer_group(client, group, timeout_s)
    except UnsupportedByBroker:
        return await _describe_classic_group(client, group, timeout_s)
    if isinstance(modern, Refusal) and modern.code in _ELSEWHERE:
        return await _describe_classic_group(client, group, timeout_s)
    return modern


async def _describe_consumer_group(
    client: ClusterClient, group: str, timeout_s: float
) -> GroupDescription | Refusal:
    found = await send_or_refuse(
        CoordinatorNode(group),
        client,
        ConsumerGroupDescribeRequest(group_ids=[group]),
        ConsumerGroupDescribeResponse,
        lambda got: got.groups,
        timeout_s=timeout_s,
    )
    return found if isinstance(found, Refusal) else describe_modern_group(found, CONSUMER)


def describe_modern_group(
    found: ConsumerGroupDescribeDescribedGroup | ShareGroupDescribeDescribedGroup, kind: str
) -> GroupDescription:
    """The description of a consumer group or a share group."""
    return GroupDescription(
        found.group_id,
        kind,
        found.group_state,
        found.assignor_name,
        found.group_epoch,
        tuple(_describe_modern_member(each) for each in found.members),
    )


def _describe_modern_member(
    member: ConsumerGroupDescribeMember | ShareGroupDescribeMember,
) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id if isinstance(member, ConsumerGroupDescribeMember) else None,
        member.client_id,
        member.client_host,
        tuple(
            TopicPartition(topic.topic_name, index)
            for topic in member.assignment.topic_partitions
            for index in topic.partitions
        ),
    )


async def _describe_classic_group(
    client: ClusterClient, group: str, timeout_s: float
) -> GroupDescription | Refusal:
    found = await send_or_refuse(
        CoordinatorNode(group),
        client,
        DescribeGroupsRequest(groups=[group]),
        DescribeGroupsResponse,
        lambda got: got.groups,
        timeout_s=timeout_s,
    )
    if isinstance(found, Refusal):
        return found
    if found.group_state == DEAD and not found.members:  # a missing group, in older brokers
        return refused(ErrorCode.GROUP_ID_NOT_FOUND)
    return _describe_classic(found)


def _describe_classic(found: DescribeGroupsDescribedGroup) -> GroupDescription:
    consumers = found.protocol_type in {_CONSUMER_PROTOCOL, ""}
    members = tuple(
        GroupMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            assigned_partitions(each) if consumers else (),
        )
        for each in found.members
    )
    return GroupDescription(
        found.group_id, CLASSIC, found.group_state, found.protocol_data, None, members
    )


def assigned_partitions(member: DescribedGroupMember) -> tuple[TopicPartition, ...]:
    """The partitions in a consumer's assignment bytes; none if the bytes are not a consumer's."""
    data = bytes(member.member_assignment)
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if len(data) < _VERSION_BYTES or version < 0:
        return ()
    known = min(version, _NEWEST_ASSIGNMENT)
    try:
        assignment, _ = ConsumerProtocolAssignment.read(data, _VERSION_BYTES, len(data), known)
    except MalformedMessage:
        return ()
    return tuple(
        TopicPartition(topic.topic, index)
        for topic in assignment.assigned_partitions
        for index in topic.partitions
    )


async def delete_groups(
    client: ClusterClient, groups: Sequence[str], *, timeout_s: float
) -> dict[str, Refusal | None]:
    """Deletes groups without members, with their offsets."""

    async def delete(group: str) -> Refusal | None:
        result = await send_to_coordinator(
            CoordinatorNode(group),
            client,
            DeleteGroupsRequest(groups_names=[group]),
            DeleteGroupsResponse,
            lambda got: got.results,
            timeout_s=timeout_s,
        )
        return refusal(result.error_code)

    done = await asyncio.gather(*(delete(group) for group in groups))
    return dict(zip(groups, done, strict=True))
