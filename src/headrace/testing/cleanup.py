"""Deletes the topics and groups that a test has created, including groups with members."""

import asyncio
from dataclasses import dataclass

from headrace.client.admin.groups import delete_groups, list_groups
from headrace.client.admin.topics import delete_topics, list_topics
from headrace.client.client import ClusterClient
from headrace.protocol.errors import ErrorCode
from headrace.testing.group_eviction import describe, remove_members


@dataclass(frozen=True, slots=True)
class Inventory:
    """The topics and groups of a broker. A topic that was created again is a new one."""

    topics: frozenset[tuple[str, bytes]]
    groups: frozenset[str]


async def take_inventory(client: ClusterClient, timeout_s: float) -> Inventory:
    topics, groups = await asyncio.gather(
        list_topics(client, timeout_s=timeout_s), list_groups(client, timeout_s=timeout_s)
    )
    return Inventory(
        frozenset((topic.name, topic.topic_id) for topic in topics if not topic.is_internal),
        frozenset(group.group_id for group in groups.complete()),
    )


async def clean(client: ClusterClient, before: Inventory, timeout_s: float) -> None:
    """Deletes the topics and groups that are not in `before`."""
    now = await take_inventory(client, timeout_s)
    groups = sorted(now.groups - before.groups)
    if groups:
        await _delete_groups(client, groups, timeout_s)
    topics = sorted(name for name, _ in now.topics - before.topics)
    if topics:
        await delete_topics(client, topics, timeout_s=timeout_s)


async def _delete_groups(client: ClusterClient, groups: list[str], timeout_s: float) -> None:
    """Removes the members of clients that were not closed before it deletes a group."""
    done = await delete_groups(client, groups, timeout_s=timeout_s)
    for group, refusal in done.items():
        if refusal is None or refusal.code is not ErrorCode.NON_EMPTY_GROUP:
            continue
        found = await describe(client, group, timeout_s=timeout_s)
        if found is not None:
            await remove_members(client, found, found.members, timeout_s=timeout_s)
            await delete_groups(client, [group], timeout_s=timeout_s)
