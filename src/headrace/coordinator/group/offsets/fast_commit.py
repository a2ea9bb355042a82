"""Commits that are made again, with other offsets.

A consumer of one partition sends the same request all its life, but for the offset. What the first
one came to, its topic, its record's key and its answer, holds for the next as long as the topic
is the same; whether the member may commit is asked every time. Commits of many consumers that come
together become one turn: one batch in the log.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from headrace.cluster.image import MetadataImage, Topic
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import PreparedRecords, SetTimer
from headrace.coordinator.group.group import Group
from headrace.coordinator.group.offsets.offset_table import OffsetAndMetadata, OffsetTable
from headrace.coordinator.group.records.format import RepeatedOffset
from headrace.coordinator.group.records.offsets import OffsetCommitKey, OffsetCommitValue
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
)

if TYPE_CHECKING:
    from headrace.coordinator.group.group_shard import GroupShard

_NO_RETENTION: Final = -1
_NOT_STORED: Final = -1


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
    """An accepted commit of one partition; `offset` is what the next one asks for.

    By itself it is a turn (`coordinator.turn.Prepared`): most turns hold one commit, or a few.
    """

    __slots__ = (
        "_committed",
        "_generation",
        "_instance_id",
        "_now_ms",
        "_partition",
        "_record",
        "_table",
        "_version",
        "group_id",
        "member_id",
        "offset",
        "payload",
        "topic",
    )

    count = 1

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
        value = OffsetCommitValue(
            offset=self.offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            topic_id=topic.topic_id,
        )
        # Nobody keeps what the table holds, so that one serves all commits.
        self._committed = OffsetAndMetadata(_NOT_STORED, value)
        key = OffsetCommitKey(
            group_id=request.group_id, topic=topic.name, partition=self._partition
        )
        self._record = RepeatedOffset(key, value)
        self.payload = b""

    def admit(
        self, groups: Mapping[str, Group], topics: Mapping[str, Topic]
    ) -> Sequence[SetTimer] | None:
        """The timers that the commit sets. None if something has changed, e.g. the group does not
        let the member commit any more: its request must be looked at again."""
        group = groups.get(self.group_id)
        topic = self.topic
        if group is None or topics.get(topic.name) is not topic:
            return None
        try:
            check = group.check_commit(
                self.member_id,
                self._instance_id,
                self._generation,
                transactional=False,
                version=self._version,
            )
            if check is not None:
                check(topic.name, topic.topic_id, self._partition)
        except CoordinatorError:
            return None
        return group.timers_after_commit(self.member_id)

    def prepare(self, delta: int, table: OffsetTable, now_ms: int) -> bytes:
        """The record, `delta` behind the first of its batch. What `replay` needs is kept."""
        self._table = table
        self._now_ms = now_ms
        self.payload = self._record.record(delta, self.offset, now_ms)
        return self.payload

    def replay(self, record_offset: int) -> None:
        """What the replay of the commit's record would do."""
        committed = self._committed
        committed.record_offset = record_offset
        value = committed.value
        value.offset = self.offset
        value.commit_timestamp = self._now_ms
        self._table.put(self.group_id, self.topic.name, self._partition, committed)


R = TypeVar("R", bound=Recommit)


class _Several:
    """Commits that go into one batch: implements `coordinator.turn.Prepared`."""

    __slots__ = ("_commits", "count", "payload")

    def __init__(self, commits: Sequence[Recommit], table: OffsetTable, now_ms: int) -> None:
        self._commits = commits
        self.count = len(commits)
        self.payload = b"".join(
            [commit.prepare(delta, table, now_ms) for delta, commit in enumerate(commits)]
        )

    def replay(self, first_offset: int) -> None:
        for commit in self._commits:
            commit.replay(first_offset)
            first_offset += 1


def commit_again(
    commits: Sequence[R], topics: Mapping[str, Topic], shard: "GroupShard", now_ms: int
) -> tuple[PreparedRecords | None, Sequence[SetTimer], Sequence[R]]:
    """The records to append, if any; the timers to set then; and the commits that are not among
    them because something has changed: their requests must be looked at again.

    A bare tuple: a named one costs a tenth of the whole.
    """
    groups = shard.groups
    table = shard.offsets.state.committed
    if len(commits) == 1:
        (alone,) = commits
        session = alone.admit(groups, topics)
        if session is None:
            return None, (), commits
        alone.prepare(0, table, now_ms)
        return alone, session, ()
    accepted: list[R] = []
    refused: list[R] = []
    timers: list[SetTimer] = []
    for commit in commits:
        session = commit.admit(groups, topics)
        if session is None:
            refused.append(commit)
        else:
            accepted.append(commit)
            timers += session
    return _Several(accepted, table, now_ms) if accepted else None, timers, refused
