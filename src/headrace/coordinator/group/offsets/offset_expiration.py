"""Removal of offsets: expired, of deleted topics, or on request."""

from collections.abc import Iterator, Set
from itertools import chain
from typing import Final

from headrace.cluster.image import MetadataImage, Topic
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.group.group import Group
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.offsets.offset_state import OffsetState, tombstone
from headrace.coordinator.group.offsets.offset_table import OffsetAndMetadata
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from headrace.protocol.types import ZERO_UUID

_NO_EXPIRY: Final = -1


def delete(
    state: OffsetState, group: Group, image: MetadataImage, request: OffsetDeleteRequest
) -> tuple[list[RecordChange], OffsetDeleteResponse]:
    """OffsetDelete: deletes offsets, except of topics that the group reads."""
    changes: list[RecordChange] = []
    response = OffsetDeleteResponse(
        topics=[
            _delete_topic(state, group, image.topics.get(asked.name), asked, changes)
            for asked in request.topics
        ]
    )
    return changes, response


def _delete_topic(
    state: OffsetState,
    group: Group,
    topic: Topic | None,
    asked: OffsetDeleteRequestTopic,
    changes: list[RecordChange],
) -> OffsetDeleteResponseTopic:
    subscribed = group.subscribes_to(asked.name)
    partitions = []
    for partition in asked.partitions:
        index = partition.partition_index
        error = ErrorCode.NONE
        if topic is None or topic.partition(index) is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif subscribed:
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        elif state.holds(group.group_id, asked.name, index):
            changes.append(tombstone(group.group_id, asked.name, index))
        partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
    return OffsetDeleteResponseTopic(name=asked.name, partitions=partitions)


def expired(
    state: OffsetState, group: Group, config: GroupConfig, now_ms: int
) -> tuple[list[RecordChange], bool]:
    """The tombstones of a group's expired offsets, and whether none is left.

    An offset does not expire while a member reads its topic, while the state of the group prevents
    it, or while a transaction may still commit a new one.
    """
    group_id = group.group_id
    changes: list[RecordChange] = []
    keeps_some = state.pending.has_group(group_id)
    for topic, partitions in state.committed.topics(group_id).items():
        if group.subscribes_to(topic):
            keeps_some = True
            continue
        for partition, committed in partitions.items():
            if _is_expired(
                committed, group, config.offsets_retention_ms, now_ms
            ) and not state.pending.contains(group_id, topic, partition):
                changes.append(tombstone(group_id, topic, partition))
            else:
                keeps_some = True
    return changes, not keeps_some


def _is_expired(committed: OffsetAndMetadata, group: Group, retention_ms: int, now_ms: int) -> bool:
    value = committed.value
    start_ms = group.retention_start_ms(value.commit_timestamp)
    if start_ms is None:
        return False
    if value.expire_timestamp != _NO_EXPIRY:
        return now_ms >= value.expire_timestamp
    return now_ms - start_ms >= retention_ms


def of_deleted_topics(
    state: OffsetState, names: Set[str], image: MetadataImage
) -> Iterator[RecordChange]:
    """The tombstones of offsets that were committed for deleted topics of these names, even if
    there are new topics with the same names."""
    seen = set()
    for entry in chain(state.committed.of_topics(names), state.pending.of_topics(names)):
        topic = image.topics.get(entry.topic)
        topic_id = entry.committed.value.topic_id
        gone = topic is None or topic_id not in (ZERO_UUID, topic.topic_id)
        where = entry[:3]
        if gone and where not in seen:
            seen.add(where)
            yield tombstone(*where)
