"""Commits that are made again, with other offsets.

A consumer of one partition sends the same request all its life, but for the offset. What the first
one came to, its topic, its record's key and its answer, holds for the next as long as the topic
is the same; whether the member may commit is asked every time. Commits of many consumers that come
together become one turn: one batch in the log.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from headrace.cluster.image import MetadataImage, Topic
from headrace.coordinator.errors import CoordinatorError
from headrace.coordinator.turn import SetTimer, Turn
from headrace.groups.group import Group
from headrace.groups.offsets.table import Committed, OffsetTable
from headrace.groups.records.format import RepeatedOffset
from headrace.groups.records.offsets import OffsetCommitKey, OffsetCommitValue
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
)

if TYPE_CHECKING:
    from headrace.groups.shard import GroupShard

_NO_RETENTION: Final = -1


class Repeatable(NamedTuple):
    """A request of one partition that asks for nothing special."""

    topic: Topic
    partition: OffsetCommitRequestPartition

    @classmethod
    def of(cls, image: MetadataImage, request: OffsetCommitRequest) -> "Repeatable | None":
        if len(request.topics) != 1 or request.retention_time_ms != _NO_RETENTION:
            return None
        asked = request.topics[0]
        topic = image.topics_by_id.get(asked.topic_id) or image.topics.get(asked.name)
        if topic is None or len(asked.partitions) != 1:
            return None
        return cls(topic, asked.partitions[0])


class Recommit:
    """An accepted commit of one partition; `offset` is what the next one asks for."""

    __slots__ = (
        "_generation",
        "_instance_id",
        "_partition",
        "_value",
        "_version",
        "group_id",
        "member_id",
        "offset",
        "record",
        "topic",
    )

    def __init__(self, version: int, request: OffsetCommitRequest, asked: Repeatable) -> None:
        topic, partition = asked
        self.group_id = request.group_id
        self.member_id = request.member_id
        self.offset = partition.committed_offset
        self.topic = topic
        self._version = version
        self._instance_id = request.group_instance_id
        self._generation = request.generation_id_or_member_epoch
        self._partition = partition.partition_index
        # Nobody keeps what the table holds, so one value serves all commits.
        self._value = OffsetCommitValue(
            offset=self.offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            topic_id=topic.topic_id,
        )
        key = OffsetCommitKey(
            group_id=request.group_id, topic=topic.name, partition=self._partition
        )
        self.record = RepeatedOffset(key, self._value)

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
            check(self.topic.name, self.topic.topic_id, self._partition)

    def replay(self, table: OffsetTable, record_offset: int, now_ms: int) -> None:
        """What the replay of the commit's record would do."""
        value = self._value
        value.offset = self.offset
        value.commit_timestamp = now_ms
        table.put(self.group_id, self.topic.name, self._partition, Committed(record_offset, value))


R = TypeVar("R", bound=Recommit)


class _Accepted:
    """Implements `coordinator.turn.Prepared`."""

    __slots__ = ("_commits", "_now_ms", "_table", "count", "payload")

    def __init__(self, commits: Sequence[Recommit], table: OffsetTable, now_ms: int) -> None:
        first = commits[0]
        self.count = len(commits)
        self.payload = first.record.first(first.offset, now_ms)
        if self.count > 1:
            self.payload += b"".join(
                [
                    commit.record.later(delta, commit.offset, now_ms)
                    for delta, commit in enumerate(commits[1:], 1)
                ]
            )
        self._commits = commits
        self._table = table
        self._now_ms = now_ms

    def replay(self, first_offset: int) -> None:
        for commit in self._commits:
            commit.replay(self._table, first_offset, self._now_ms)
            first_offset += 1


def commit_again(commits: Sequence[R], shard: "GroupShard", now_ms: int) -> Turn[Sequence[R]]:
    """Stores all but those that it answers with. For these something has changed: their requests
    must be looked at again."""
    topics, groups = shard.image().topics, shard.groups
    accepted: list[R] = []
    refused: list[R] = []
    timers: list[SetTimer] = []
    for commit in commits:
        group = groups.get(commit.group_id)
        topic = commit.topic
        if group is None or topics.get(topic.name) is not topic:
            refused.append(commit)
            continue
        try:
            commit.check(group)
        except CoordinatorError:
            refused.append(commit)
            continue
        accepted.append(commit)
        timers += group.timers_after_commit(commit.member_id)
    if not accepted:
        return Turn(refused)
    prepared = _Accepted(accepted, shard.offsets.state.committed, now_ms)
    return Turn(refused, (), (), timers, (), None, None, prepared)
