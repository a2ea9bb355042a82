"""OffsetFetch: a group's offsets, of given partitions or of all that it has.

A partition without an offset has -1, without an error; so has a group that does not exist.
"""

from typing import Final

from headrace.cluster.image import MetadataImage
from headrace.coordinator.group.offsets.offset_state import OffsetState
from headrace.coordinator.group.offsets.offset_table import OffsetAndMetadata
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from headrace.protocol.types import ZERO_UUID

FIRST_VERSION_WITH_IDS: Final = 10
_NO_OFFSET: Final = -1


class OffsetFetcher:
    """One request, answered from one image. `stable` refuses offsets that an open transaction may
    still change."""

    def __init__(
        self, state: OffsetState, image: MetadataImage, *, version: int, stable: bool
    ) -> None:
        self._state = state
        self._image = image
        self._by_id = version >= FIRST_VERSION_WITH_IDS
        self._stable = stable

    def fetch(self, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        topics = self._all(request) if request.topics is None else self._named(request)
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)

    def _named(self, request: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
        group_id = request.group_id
        committed = self._state.committed.topics(group_id)
        topics: list[OffsetFetchResponseTopics] = []
        unknown: list[OffsetFetchResponseTopics] = []
        for asked in request.topics or ():
            name = asked.name
            if self._by_id:
                topic = self._image.topics_by_id.get(asked.topic_id)
                if topic is None:
                    unknown.append(_unknown_id(asked))
                    continue
                name = topic.name
            offsets = committed.get(name, {})
            topics.append(
                OffsetFetchResponseTopics(
                    name=name,
                    topic_id=asked.topic_id,
                    partitions=[
                        self._partition(group_id, name, asked.topic_id, index, offsets.get(index))
                        for index in asked.partition_indexes
                    ],
                )
            )
        return topics + unknown

    def _all(self, request: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
        """All offsets of the group; in a request by topic id, only those of existing topics."""
        group_id = request.group_id
        topics = []
        for name, offsets in self._state.committed.topics(group_id).items():
            topic_id = ZERO_UUID
            if self._by_id:
                topic = self._image.topics.get(name)
                if topic is None:
                    continue
                topic_id = topic.topic_id
            topics.append(
                OffsetFetchResponseTopics(
                    name=name,
                    topic_id=topic_id,
                    partitions=[
                        self._partition(group_id, name, ZERO_UUID, index, committed)
                        for index, committed in offsets.items()
                    ],
                )
            )
        return topics

    def _partition(
        self,
        group_id: str,
        topic: str,
        topic_id: bytes,
        index: int,
        committed: OffsetAndMetadata | None,
    ) -> OffsetFetchResponsePartitions:
        if self._stable and self._state.pending.contains(group_id, topic, index):
            return no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if committed is None:
            return no_offset(index)
        value = committed.value
        if ZERO_UUID not in (topic_id, value.topic_id) and value.topic_id != topic_id:
            return no_offset(index)  # the offset is for a deleted topic with the same name
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=value.offset,
            committed_leader_epoch=value.leader_epoch,
            metadata=value.metadata,
        )


def no_offset(index: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    """A partition without an offset, or with one that must not be returned."""
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=_NO_OFFSET,
        committed_leader_epoch=-1,
        metadata="",
        error_code=error,
    )


def _unknown_id(asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=asked.topic_id,
        partitions=[
            no_offset(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in asked.partition_indexes
        ],
    )
