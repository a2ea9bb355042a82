"""A fast path for commits that differ from an earlier commit only in the offset.

A consumer of one partition sends the same request for its whole run, apart from the offset. The
topic, the record's key and the response of the first commit hold for the next ones as long as the
topic is the same; whether the member may commit is checked every time. Commits of many consumers
that arrive together become one batch in the log.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from headrace.cluster.image import MetadataImage, Topic
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import PreparedRecords, SetTimer
from headrace.coordinator.group.group import Group
from headrace.coordinator.group.offsets.offset_commit import commit_sender
from headrace.coordinator.group.offsets.offset_table import OffsetAndMetadata, OffsetTable
from headrace.coordinator.group.records.format import OffsetCommitTemplate
from headrace.coordinator.group.records.offsets import OffsetCommitKey, OffsetCommitValue
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
)

if TYPE_CHECKING:
    from headrace.coordinator.group.group_shard import GroupShard

_NO_RETENTION: Final = -1
_NOT_STORED: Final = -1


class SinglePartitionCommit(NamedTuple):
    """A request that commits one partition and has no retention time."""

    topic: Topic
    partition: OffsetCommitRequestPartition

    @classmethod
    def from_request(
        cls, image: MetadataImage, request: OffsetCommitRequest
    ) -> "SinglePartitionCommit | None":
        """The commit in the request; None if the request has another form or its topic does not
        exist."""
        if len(request.topics) != 1 or request.retention_time_ms != _NO_RETENTION:
            return None
        requested = request.topics[0]
        topic = image.topics_by_id.get(requested.topic_id) or image.topics.get(requested.name)
        if topic is None or len(requested.partitions) != 1:
            return None
        return cls(topic, requested.partitions[0])


class FastCommit:
    """An accepted commit of one partition; `offset` is the offset of the next one.

    A commit alone is a batch of one: it implements `PreparedRecords` itself, since most
    batches hold one commit or a few.
    """

    __slots__ = (
        "_committed",
        "_now_ms",
        "_partition",
        "_record",
        "_sender",
        "_table",
        "group_id",
        "member_id",
        "offset",
        "payload",
        "topic",
    )

    count = 1

    def __init__(
        self, version: int, request: OffsetCommitRequest, commit: SinglePartitionCommit
    ) -> None:
        topic, partition = commit
        self.group_id = request.group_id
        self.member_id = request.member_id
        self.offset = partition.committed_offset
        self.topic = topic
        self._sender = commit_sender(request, version)
        self._partition = partition.partition_index
        value = OffsetCommitValue(
            offset=self.offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            topic_id=topic.topic_id,
        )
        # The table's readers keep no entry, so one object serves all commits.
        self._committed = OffsetAndMetadata(_NOT_STORED, value)
        key = OffsetCommitKey(
            group_id=request.group_id, topic=topic.name, partition=self._partition
        )
        self._record = OffsetCommitTemplate(key, value)
        self.payload = b""

    def admit(
        self, groups: Mapping[str, Group], topics: Mapping[str, Topic]
    ) -> Sequence[SetTimer] | None:
        """The timers that the commit sets. None if the fast path no longer applies, e.g. because
        the member may not commit any more: the handler must process the request."""
        group = groups.get(self.group_id)
        topic = self.topic
        if group is None or topics.get(topic.name) is not topic:
            return None
        try:
            check = group.check_commit(self._sender)
            if check is not None:
                check(topic.name, topic.topic_id, self._partition)
        except CoordinatorError:
            return None
        return group.timers_after_commit(self.member_id)

    def prepare(self, delta: int, table: OffsetTable, now_ms: int) -> bytes:
        """Encodes the record, at offset delta `delta` of its batch, and keeps the values for
        `replay`."""
        self._table = table
        self._now_ms = now_ms
        self.payload = self._record.record(delta, self.offset, now_ms)
        return self.payload

    def replay(self, record_offset: int) -> None:
        """Changes the table exactly as the replay of the commit's record would."""
        committed = self._committed
        committed.record_offset = record_offset
        value = committed.value
        value.offset = self.offset
        value.commit_timestamp = self._now_ms
        self._table.put(self.group_id, self.topic.name, self._partition, committed)


CommitT = TypeVar("CommitT", bound=FastCommit)


class _CommitBatch:
    """Commits that become one batch: implements `PreparedRecords`."""

    __slots__ = ("_commits", "count", "payload")

    def __init__(self, commits: Sequence[FastCommit], table: OffsetTable, now_ms: int) -> None:
        self._commits = commits
        self.count = len(commits)
        self.payload = b"".join(
            [commit.prepare(delta, table, now_ms) for delta, commit in enumerate(commits)]
        )

    def replay(self, first_offset: int) -> None:
        for commit in self._commits:
            commit.replay(first_offset)
            first_offset += 1


def prepare_commits(
    commits: Sequence[CommitT], topics: Mapping[str, Topic], shard: "GroupShard", now_ms: int
) -> tuple[PreparedRecords | None, Sequence[SetTimer], Sequence[CommitT]]:
    """The records to append, if any; the timers to set after the append; and the commits to which
    the fast path no longer applies: the handler must process these.

    A plain tuple: with a named one the function takes a tenth longer.
    """
    groups = shard.groups
    table = shard.offsets.state.committed
    if len(commits) == 1:
        (commit,) = commits
        session = commit.admit(groups, topics)
        if session is None:
            return None, (), commits
        commit.prepare(0, table, now_ms)
        return commit, session, ()
    accepted: list[CommitT] = []
    refused: list[CommitT] = []
    timers: list[SetTimer] = []
    for commit in commits:
        session = commit.admit(groups, topics)
        if session is None:
            refused.append(commit)
        else:
            accepted.append(commit)
            timers += session
    return _CommitBatch(accepted, table, now_ms) if accepted else None, timers, refused
