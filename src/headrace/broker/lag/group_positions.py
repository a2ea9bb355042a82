"""The positions of groups, as their coordinator knows them. Pure.

A position is a copy: the fast path of commits changes committed offsets in place.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.broker.lag.positions import PartitionKey, Position
from headrace.cluster.image import MetadataImage
from headrace.coordinator.group.group import Group, GroupType
from headrace.coordinator.group.group_shard import GroupShard
from headrace.coordinator.group.share.share_group import ShareGroup
from headrace.coordinator.group.share.state_topics import Partitions
from headrace.coordinator.share_state.share_state_shard import StateSummary
from headrace.protocol.types import ZERO_UUID

READ_UNCOMMITTED = "read_uncommitted"


@dataclass(frozen=True, slots=True)
class CommittedPositions:
    """The committed offsets of a classic or consumer group.

    `positions` has all partitions of a topic in which the group has committed an offset; None for
    those without one. Offsets of a topic that was deleted, or created again, are not included.
    """

    group_id: str
    members: int
    positions: Mapping[PartitionKey, Position | None]


@dataclass(frozen=True, slots=True)
class SharePositions:
    """The share partitions of a group whose state is stored."""

    group_id: str
    members: int
    skip_aborted: bool
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class SharePosition:
    """The progress of a share group in one partition (KIP-1226)."""

    start_offset: int
    complete_count: int
    """Finished records from the start offset on; -1 if unknown."""
    next: Position
    """The first record that is not finished: the stored start offset may be behind it."""


def positions_of(
    shard: GroupShard, group: Group, image: MetadataImage
) -> CommittedPositions | SharePositions:
    """The positions of one group of the shard."""
    if group.kind is GroupType.SHARE:
        assert isinstance(group, ShareGroup)
        isolation = shard.config(group.group_id).share_isolation_level
        return SharePositions(
            group.group_id,
            group.member_count,
            isolation != READ_UNCOMMITTED,
            group.state_topics.initialized_partitions(),
        )
    return CommittedPositions(group.group_id, group.member_count, _committed(shard, group, image))


def _committed(
    shard: GroupShard, group: Group, image: MetadataImage
) -> dict[PartitionKey, Position | None]:
    positions: dict[PartitionKey, Position | None] = {}
    for name, committed in shard.offsets.state.committed.topics(group.group_id).items():
        topic = image.topics.get(name)
        if topic is None:
            continue
        topic_id = topic.topic_id
        current = {
            index: Position(each.value.offset)
            for index, each in committed.items()
            if each.value.topic_id in (topic_id, ZERO_UUID)
        }
        if current:
            for index in range(len(topic.partitions)):
                positions[PartitionKey(topic_id, index)] = current.get(index)
    return positions


def share_position(summary: StateSummary, *, skip_aborted: bool) -> SharePosition | None:
    """None before the leader has chosen where the group starts."""
    if summary.start_offset < 0:
        return None
    first_unfinished = max(summary.start_offset, summary.first_unfinished)
    return SharePosition(
        summary.start_offset, summary.complete_count, Position(first_unfinished, skip_aborted)
    )
