"""Commits that are made again, with other offsets.

A consumer of one partition sends the same request all its life, but for the offset. What the first
one came to, its topic, its record's key and its answer, holds for the next as long as the topic
is the same; whether the member may commit is asked every time. Commits of many consumers that come
together become one turn: one batch in the log.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from headrace.cluster.image import MetadataImage, Topic
from headrace.coordinator.errors import CoordinatorError
from headrace.coordinator.record_format import Change
from headrace.coordinator.turn import SetTimer, Turn
from headrace.groups.group import Group
from headrace.groups.records.format import RepeatedOffset
from headrace.groups.records.offsets import OffsetCommitKey, OffsetCommitValue
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
)
from headrace.records.plain import KeyAndValue

if TYPE_CHECKING:
    from headrace.groups.shard import GroupShard

C = TypeVar("C")

_NO_RETENTION: Final = -1


class Recommit(Generic[C]):
    """An accepted commit of one partition; `offset` is what the next one asks for."""

    __slots__ = (
        "_generation",
        "_instance_id",
        "_key",
        "_leader_epoch",
        "_metadata",
        "_version",
        "caller",
        "group_id",
        "member_id",
        "offset",
        "record",
        "topic",
    )

    def __init__(
        self,
        version: int,
        request: OffsetCommitRequest,
        topic: Topic,
        partition: OffsetCommitRequestPartition,
        caller: C,
    ) -> None:
        self.group_id = request.group_id
        self.member_id = request.member_id
        self.offset = partition.committed_offset
        self.topic = topic
        self.caller = caller
        self._version = version
        self._instance_id = request.group_instance_id
        self._generation = request.generation_id_or_member_epoch
        self._leader_epoch = partition.committed_leader_epoch
        self._metadata = partition.committed_metadata or ""
        self._key = OffsetCommitKey(
            group_id=request.group_id, topic=topic.name, partition=partition.partition_index
        )
        self.record = RepeatedOffset(self._key, self._value(commit_timestamp=0))

    @classmethod
    def of(
        cls, image: MetadataImage, version: int, request: OffsetCommitRequest, caller: C
    ) -> "Recommit[C] | None":
        """Only for a request of one partition that asks for nothing special. `caller` is whatever
        stands for who sent it."""
        if len(request.topics) != 1 or request.retention_time_ms != _NO_RETENTION:
            return None
        asked = request.topics[0]
        topic = image.topics_by_id.get(asked.topic_id) or image.topics.get(asked.name)
        if topic is None or len(asked.partitions) != 1:
            return None
        return cls(version, request, topic, asked.partitions[0], caller)

    def change(self, group: Group, now_ms: int) -> Change:
        """Raises CoordinatorError if the group does not let the member commit."""
        check = group.check_commit(
            self.member_id,
            self._instance_id,
            self._generation,
            transactional=False,
            version=self._version,
        )
        if check is not None:
            check(self.topic.name, self.topic.topic_id, self._key.partition)
        return Change(self._key, self._value(now_ms))

    def _value(self, commit_timestamp: int) -> OffsetCommitValue:
        return OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self._leader_epoch,
            metadata=self._metadata,
            commit_timestamp=commit_timestamp,
            topic_id=self.topic.topic_id,
        )


def commit_again(
    commits: Sequence[Recommit[C]], shard: "GroupShard", now_ms: int
) -> Turn[Sequence[Recommit[C]]]:
    """Stores all but those that it answers with. For these something has changed: their requests
    must be looked at again."""
    topics = shard.image().topics
    refused: list[Recommit[C]] = []
    changes: list[Change] = []
    encoded: list[KeyAndValue] = []
    timers: list[SetTimer] = []
    for commit in commits:
        group = shard.groups.get(commit.group_id)
        topic = commit.topic
        if group is None or topics.get(topic.name) is not topic:
            refused.append(commit)
            continue
        try:
            changes.append(commit.change(group, now_ms))
        except CoordinatorError:
            refused.append(commit)
            continue
        encoded.append(commit.record.encode(commit.offset, now_ms))
        timers += group.timers_after_commit(commit.member_id)
    return Turn(refused, changes, (), timers, encoded=encoded)
