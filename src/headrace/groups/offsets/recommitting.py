"""A commit that is made again, with another offset.

A consumer of one partition sends the same request all its life, but for the offset. What the first
one came to, its topic, its record's key and its answer, holds for the next as long as the topic
is the same; whether the member may commit is asked every time.
"""

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from headrace.cluster.image import MetadataImage, Topic
from headrace.coordinator.errors import CoordinatorError
from headrace.coordinator.record_format import Change
from headrace.coordinator.turn import Turn
from headrace.groups.records.offsets import OffsetCommitKey, OffsetCommitValue
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
)

if TYPE_CHECKING:
    from headrace.groups.shard import GroupShard

R = TypeVar("R")

_NO_RETENTION: Final = -1


class Recommit(Generic[R]):
    """An accepted commit of one partition; `offset` is to be set before `decide`."""

    __slots__ = (
        "_answer",
        "_key",
        "_partition",
        "_request",
        "_topic",
        "_version",
        "group_id",
        "offset",
    )

    def __init__(
        self,
        version: int,
        request: OffsetCommitRequest,
        topic: Topic,
        partition: OffsetCommitRequestPartition,
        answer: R,
    ) -> None:
        self.group_id = request.group_id
        self.offset = partition.committed_offset
        self._answer = answer
        self._version = version
        self._request = request
        self._topic = topic
        self._partition = partition
        self._key = OffsetCommitKey(
            group_id=request.group_id, topic=topic.name, partition=partition.partition_index
        )

    @classmethod
    def of(
        cls, image: MetadataImage, version: int, request: OffsetCommitRequest, answer: R
    ) -> "Recommit[R] | None":
        """Only for a request of one partition that asks for nothing special. `answer` is what the
        caller had, and will have again."""
        if len(request.topics) != 1 or request.retention_time_ms != _NO_RETENTION:
            return None
        asked = request.topics[0]
        topic = image.topics_by_id.get(asked.topic_id) or image.topics.get(asked.name)
        if topic is None or len(asked.partitions) != 1:
            return None
        return cls(version, request, topic, asked.partitions[0], answer)

    def decide(self, shard: "GroupShard", now_ms: int) -> Turn[R]:
        """The commit; raises CoordinatorError when something has changed: the whole request must
        then be looked at again."""
        group = shard.groups.get(self.group_id)
        topic = self._topic
        if group is None or shard.image().topics.get(topic.name) is not topic:
            raise CoordinatorError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        request, partition = self._request, self._partition
        member_id = request.member_id
        check = group.check_commit(
            member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            transactional=False,
            version=self._version,
        )
        if check is not None:
            check(topic.name, topic.topic_id, partition.partition_index)
        value = OffsetCommitValue(
            offset=self.offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp=now_ms,
            topic_id=topic.topic_id,
        )
        changes = (Change(self._key, value),)
        return Turn(self._answer, changes, (), group.timers_after_commit(member_id))
