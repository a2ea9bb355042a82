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

R = TypeVar("R")

_NO_RETENTION: Final = -1


class Recommit(Generic[R]):
    """An accepted commit of one partition; `offset` is what the next one asks for."""

    __slots__ = (
        "_generation",
        "_instance_id",
        "_leader_epoch",
        "_metadata",
        "_version",
        "answer",
        "group_id",
        "key",
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
        answer: R,
    ) -> None:
        self.group_id = request.group_id
        self.member_id = request.member_id
        self.offset = partition.committed_offset
        self.topic = topic
        self.answer = answer
        self._version = version
        self._instance_id = request.group_instance_id
        self._generation = request.generation_id_or_member_epoch
        self._leader_epoch = partition.committed_leader_epoch
        self._metadata = partition.committed_metadata or ""
        self.key = OffsetCommitKey(
            group_id=request.group_id, topic=topic.name, partition=partition.partition_index
        )
        self.record = RepeatedOffset(self.key, self.value(commit_timestamp=0))

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

    def check(self, group: Group) -> None:
        """Raises CoordinatorError if the group does not let the member commit."""
        check = group.check_commit(
            self.member_id,
            self._instance_id,
            self._generation,
            transactional=False,
            version=self._version,
        )
        if check is not None:
            check(self.topic.name, self.topic.topic_id, self.key.partition)

    def value(self, commit_timestamp: int) -> OffsetCommitValue:
        return OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self._leader_epoch,
            metadata=self._metadata,
            commit_timestamp=commit_timestamp,
            topic_id=self.topic.topic_id,
        )


def commit_again(
    commits: Sequence[Recommit[R]], shard: "GroupShard", now_ms: int
) -> Turn[list[R | None]]:
    """The answers in order; None where something has changed: the whole request must then be
    looked at again."""
    topics = shard.image().topics
    answers: list[R | None] = []
    changes: list[Change] = []
    encoded: list[KeyAndValue] = []
    timers: list[SetTimer] = []
    for commit in commits:
        group = shard.groups.get(commit.group_id)
        topic = commit.topic
        if group is None or topics.get(topic.name) is not topic:
            answers.append(None)
            continue
        try:
            commit.check(group)
        except CoordinatorError:
            answers.append(None)
            continue
        answers.append(commit.answer)
        changes.append(Change(commit.key, commit.value(now_ms)))
        encoded.append(commit.record.encode(commit.offset, now_ms))
        timers += group.timers_after_commit(commit.member_id)
    return Turn(answers, changes, timers=timers, encoded=encoded)
