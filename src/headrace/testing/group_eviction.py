"""Removes members from groups, and triggers rebalances, with requests of Kafka's protocol.

This works with any broker. A removed member sees the same as after an expired session; the members
of a rebalanced group see another member that joins and leaves.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from headrace.client.admin.groups import (
    CLASSIC,
    CONSUMER,
    SHARE,
    GroupDescription,
    GroupMember,
    describe_group,
)
from headrace.client.admin.shares import describe_share_group
from headrace.client.client import ClusterClient
from headrace.client.coordinators import CoordinatorNode
from headrace.client.errors import RequestRefused, code_of_number
from headrace.client.results import Refusal
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headrace.protocol.messages.describe_groups import (
    DescribeGroupsDescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headrace.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

T = TypeVar("T")

LEAVING: Final = -1  # the epoch of a member that leaves
PAUSE_S: Final = 0.01
TEMPORARY_SESSION_MS: Final = 10_000
_GONE: Final = (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
_NO_GROUP: Final = (
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_GROUP_ID,
)


async def describe(
    client: ClusterClient, group: str, *, timeout_s: float
) -> GroupDescription | None:
    """Describes a group of any type; None if it does not exist."""
    found = await describe_group(client, group, timeout_s=timeout_s)
    if isinstance(found, Refusal) and found.code in _NO_GROUP:
        found = await describe_share_group(client, group, timeout_s=timeout_s)
    if not isinstance(found, Refusal):
        return found
    if found.code in _NO_GROUP:
        return None
    raise RequestRefused(found.code, f"the group {group!r}")


async def remove_members(
    client: ClusterClient,
    group: GroupDescription,
    members: Sequence[GroupMember],
    *,
    timeout_s: float,
) -> None:
    """Removes these members from the group; raises `RequestRefused`."""
    for member in members:
        code = await _remove_member(client, group, member, timeout_s)
        if code not in _GONE:
            raise RequestRefused(code, f"member {member.member_id} of {group.group_id!r}")


async def _remove_member(
    client: ClusterClient, group: GroupDescription, member: GroupMember, timeout_s: float
) -> ErrorCode:
    to = CoordinatorNode(group.group_id)
    if group.kind == SHARE:
        shared = await client.send(
            ShareGroupHeartbeatRequest(
                group_id=group.group_id, member_id=member.member_id, member_epoch=LEAVING
            ),
            ShareGroupHeartbeatResponse,
            to=to,
            timeout_s=timeout_s,
        )
        return code_of_number(shared.error_code)
    if group.kind == CONSUMER:
        left = await client.send(
            ConsumerGroupHeartbeatRequest(
                group_id=group.group_id,
                member_id=member.member_id,
                member_epoch=LEAVING,
                instance_id=member.instance_id,
            ),
            ConsumerGroupHeartbeatResponse,
            to=to,
            timeout_s=timeout_s,
        )
        return code_of_number(left.error_code)
    return await _leave_group(
        client, group.group_id, member.member_id, member.instance_id, timeout_s
    )


async def _leave_group(
    client: ClusterClient, group: str, member_id: str, instance_id: str | None, timeout_s: float
) -> ErrorCode:
    answer = await client.send(
        LeaveGroupRequest(
            group_id=group,
            members=[MemberIdentity(member_id=member_id, group_instance_id=instance_id)],
        ),
        LeaveGroupResponse,
        to=CoordinatorNode(group),
        timeout_s=timeout_s,
    )
    codes = [answer.error_code, *(each.error_code for each in answer.members)]
    return code_of_number(next((code for code in codes if code), 0))


async def rebalance(
    client: ClusterClient,
    new_client: Callable[[], ClusterClient],
    group: str,
    *,
    timeout_s: float,
) -> None:
    """Triggers a rebalance. In a classic group, a temporary member joins and leaves at once. Newer
    protocols move only the partitions that must move, so all members are removed and rejoin."""
    found = await describe(client, group, timeout_s=timeout_s)
    if found is None or not found.members:
        msg = f"the group {group!r} has no member to rebalance"
        raise ValueError(msg)
    if found.kind != CLASSIC:
        await remove_members(client, found, found.members, timeout_s=timeout_s)
        return
    async with new_client() as temporary:
        await _join_and_leave(client, temporary, group, timeout_s)


async def _join_and_leave(
    client: ClusterClient, temporary: ClusterClient, group: str, timeout_s: float
) -> None:
    async def stable() -> DescribeGroupsDescribedGroup | None:
        known = await _describe_classic(client, group, timeout_s)
        return known if known.group_state == "Stable" else None

    known = await _wait_until(stable, f"{group!r} is stable", timeout_s)
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=TEMPORARY_SESSION_MS,
        rebalance_timeout_ms=TEMPORARY_SESSION_MS,
        protocol_type=known.protocol_type,
        # The other members must be able to decode it, and only the membership may change.
        protocols=[
            JoinGroupRequestProtocol(
                name=known.protocol_data, metadata=known.members[0].member_metadata
            )
        ],
    )
    to = CoordinatorNode(group)
    named = await temporary.send(join, JoinGroupResponse, to=to, timeout_s=timeout_s)
    if named.error_code != ErrorCode.MEMBER_ID_REQUIRED:
        raise RequestRefused(code_of_number(named.error_code), f"temporary member of {group!r}")
    member_id = join.member_id = named.member_id
    joining = asyncio.ensure_future(
        temporary.send(join, JoinGroupResponse, to=to, timeout_s=timeout_s, retry=False)
    )

    async def joined() -> bool:
        known = await _describe_classic(client, group, timeout_s)
        return any(member.member_id == member_id for member in known.members)

    try:
        await _wait_until(joined, f"temporary member has joined {group!r}", timeout_s)
    finally:
        await _leave_group(client, group, member_id, None, timeout_s)
        joining.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await joining


async def _describe_classic(
    client: ClusterClient, group: str, timeout_s: float
) -> DescribeGroupsDescribedGroup:
    answer = await client.send(
        DescribeGroupsRequest(groups=[group]),
        DescribeGroupsResponse,
        to=CoordinatorNode(group),
        timeout_s=timeout_s,
    )
    (found,) = answer.groups
    return found


async def _wait_until(
    condition: Callable[[], Awaitable[T | None]], what: str, timeout_s: float
) -> T:
    deadline = time.monotonic() + timeout_s
    while True:
        value = await condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        await asyncio.sleep(PAUSE_S)
