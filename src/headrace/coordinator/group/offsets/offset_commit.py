"""OffsetCommit and TxnOffsetCommit: whether the group accepts a commit, and its records.

Topics and partitions that do not exist are refused individually, and so is metadata that is too
long. If the group refuses the member, all existing partitions get its error.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headrace.cluster.image import MetadataImage, Topic
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.common.result import CoordinatorResult, ProducerIdentity, SetTimer
from headrace.coordinator.group.group import CommitCheck, CommittingMember, Group
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.records.offsets import OffsetCommitKey, OffsetCommitValue
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from headrace.protocol.types import ZERO_UUID

FIRST_VERSION_WITH_IDS: Final = 10
FIRST_VERSION_WITH_GROUP_NOT_FOUND: Final = 9
_NO_RETENTION: Final = -1
_NO_EXPIRY: Final = -1
# Plain numbers: an enum member costs more to write than the rest of an answer.
_NO_ERROR: Final = int(ErrorCode.NONE)
_UNKNOWN_PARTITION: Final = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_UNKNOWN_ID: Final = int(ErrorCode.UNKNOWN_TOPIC_ID)
_TOO_LARGE: Final = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)


class OffsetCommitter:
    """Turns OffsetCommit and TxnOffsetCommit requests into records."""

    def __init__(
        self,
        groups: Mapping[str, Group],
        image: Callable[[], MetadataImage],
        config: Callable[[str], GroupConfig],
    ) -> None:
        self._groups = groups
        self._image = image
        self._config = config

    def commit(
        self, version: int, request: OffsetCommitRequest, now_ms: int
    ) -> CoordinatorResult[OffsetCommitResponse]:
        """A commit by a member, by a consumer without a group, or by an admin tool."""
        group_id = request.group_id
        group = self._groups.get(group_id)
        commit = _PendingCommit(group_id, now_ms, self._config)
        timers: Sequence[SetTimer] = ()
        try:
            if group is not None:
                commit.check = group.check_commit(commit_sender(request, version))
                timers = group.timers_after_commit(request.member_id)
            elif request.generation_id_or_member_epoch >= 0:
                raise _no_group(group_id, version)
            if request.retention_time_ms != _NO_RETENTION:
                commit.expire_ms = now_ms + request.retention_time_ms
            answer = self._commit(commit, request, version)
        except CoordinatorError as error:
            refused = _PendingCommit(group_id, now_ms, self._config, refusal=error.code)
            return CoordinatorResult(self._commit(refused, request, version))
        return CoordinatorResult(answer, commit.changes, timers=timers)

    def _commit(
        self, commit: "_PendingCommit", request: OffsetCommitRequest, version: int
    ) -> OffsetCommitResponse:
        image = self._image()
        by_id = version >= FIRST_VERSION_WITH_IDS
        topics = []
        for asked in request.topics:
            if by_id:
                topic, missing = image.topics_by_id.get(asked.topic_id), _UNKNOWN_ID
            else:
                topic, missing = image.topics.get(asked.name), _UNKNOWN_PARTITION
            partitions = []
            for partition in asked.partitions:
                code = missing if topic is None else commit.add(topic, topic.topic_id, partition)
                partitions.append(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                )
            topics.append(
                OffsetCommitResponseTopic(
                    name=asked.name, topic_id=asked.topic_id, partitions=partitions
                )
            )
        return OffsetCommitResponse(topics=topics)

    def commit_in_transaction(
        self, version: int, request: TxnOffsetCommitRequest, now_ms: int
    ) -> CoordinatorResult[TxnOffsetCommitResponse]:
        """A commit that takes effect when the producer's transaction commits."""
        group = self._groups.get(request.group_id)
        commit = _PendingCommit(request.group_id, now_ms, self._config)
        try:
            if not request.group_id:
                raise CoordinatorError(ErrorCode.INVALID_GROUP_ID)
            if group is not None:
                sender = CommittingMember(
                    request.member_id,
                    request.group_instance_id,
                    request.generation_id,
                    transactional=True,
                    version=version,
                )
                commit.check = group.check_commit(sender)
            elif request.generation_id >= 0:
                raise CoordinatorError(ErrorCode.ILLEGAL_GENERATION)
            answer = self._commit_in_transaction(commit, request)
        except CoordinatorError as error:
            # Producers have generations, not member epochs.
            stale = error.code is ErrorCode.STALE_MEMBER_EPOCH
            refusal = ErrorCode.ILLEGAL_GENERATION if stale else error.code
            refused = _PendingCommit(request.group_id, now_ms, self._config, refusal=refusal)
            return CoordinatorResult(self._commit_in_transaction(refused, request))
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        return CoordinatorResult(answer, commit.changes, producer=producer)

    def _commit_in_transaction(
        self, commit: "_PendingCommit", request: TxnOffsetCommitRequest
    ) -> TxnOffsetCommitResponse:
        image = self._image()
        topics = []
        for asked in request.topics:
            topic = image.topics.get(asked.name)
            topics.append(
                TxnOffsetCommitResponseTopic(
                    name=asked.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(
                            partition_index=partition.partition_index,
                            error_code=_UNKNOWN_PARTITION
                            if topic is None
                            else commit.add(topic, ZERO_UUID, partition),
                        )
                        for partition in asked.partitions
                    ],
                )
            )
        return TxnOffsetCommitResponse(topics=topics)


class _PendingCommit:
    """One request while it is decided: its records so far."""

    __slots__ = ("_config", "_group_id", "_now_ms", "_refusal", "changes", "check", "expire_ms")

    def __init__(
        self,
        group_id: str,
        now_ms: int,
        config: Callable[[str], GroupConfig],
        refusal: ErrorCode | None = None,
    ) -> None:
        self._group_id = group_id
        self._now_ms = now_ms
        self._config = config
        self._refusal = refusal
        self.check: CommitCheck | None = None
        self.expire_ms = _NO_EXPIRY
        self.changes: list[RecordChange] = []

    def add(
        self,
        topic: Topic,
        topic_id: bytes,
        asked: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    ) -> int:
        """Adds the record of one partition; returns its error code. Raises if the group refuses the
        partition: then no offset of the request is committed."""
        partition = asked.partition_index
        if not 0 <= partition < len(topic.partitions):
            return _UNKNOWN_PARTITION
        if self._refusal is not None:
            return self._refusal
        metadata = asked.committed_metadata
        if (
            metadata
            and _utf16_length(metadata) > self._config(self._group_id).offset_metadata_max_chars
        ):
            return _TOO_LARGE
        if self.check is not None:
            self.check(topic.name, topic.topic_id, partition)
        self.changes.append(
            RecordChange(
                OffsetCommitKey(group_id=self._group_id, topic=topic.name, partition=partition),
                OffsetCommitValue(
                    offset=asked.committed_offset,
                    leader_epoch=asked.committed_leader_epoch,
                    metadata=metadata or "",
                    commit_timestamp=self._now_ms,
                    expire_timestamp=self.expire_ms,
                    topic_id=topic_id,
                ),
            )
        )
        return _NO_ERROR


def commit_sender(request: OffsetCommitRequest, version: int) -> CommittingMember:
    """The member that sends an OffsetCommit."""
    return CommittingMember(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        transactional=False,
        version=version,
    )


def _no_group(group_id: str, version: int) -> CoordinatorError:
    """Clients before KIP-848 rejoin when they get ILLEGAL_GENERATION."""
    if version >= FIRST_VERSION_WITH_GROUP_NOT_FOUND:
        return CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return CoordinatorError(ErrorCode.ILLEGAL_GENERATION)


def _utf16_length(text: str) -> int:
    """The length in UTF-16 code units, as Java counts."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
