"""OffsetCommit (key 8), versions 2-10: stores where a group goes on reading.

Up to v4 a commit can bring its own retention time, v6 adds leader epochs, v7 static members, v9
serves members of consumer groups (KIP-848), v10 names topics by id.
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Final

from headrace.broker.commit_gathering import Commit, Committer
from headrace.broker.connection import HELD, Connection, Held
from headrace.broker.dispatch import Context, encode
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

_OFFSET: Final = struct.Struct(">q")
_CORRELATION_ID_AT: Final = 4  # in a request
_BEHIND_CORRELATION_ID: Final = 8
_SPEC: Final = APIS[ApiKey.OFFSET_COMMIT]


def handle(
    broker: Broker, context: Context, request: OffsetCommitRequest
) -> OffsetCommitResponse | asyncio.Future[OffsetCommitResponse]:
    version = context.version
    answer = broker.groups.answer(
        request.group_id,
        lambda shard, now_ms: shard.offsets.commit(version, request, now_ms),
        lambda error: _refused(request, error),
    )
    if isinstance(answer, asyncio.Future):
        answer.add_done_callback(lambda done: _remember_later(broker, context, request, done))
    else:
        _remember(broker, context, request, answer)
    return answer


def shortcut(broker: Broker, connection: Connection, frame: bytes) -> Held | None:
    """Holds the connection if this is its last commit again, with another offset."""
    last = connection.remembered
    if last.__class__ is not _Remembered or not last.is_in(frame) or connection.in_flight:
        return None
    last.commit.caller.frame = frame
    broker.coordinators.commits.add(last.commit)
    return HELD


def _remember_later(
    broker: Broker,
    context: Context,
    request: OffsetCommitRequest,
    done: asyncio.Future[OffsetCommitResponse],
) -> None:
    if not done.cancelled():
        _remember(broker, context, request, done.result())


def _remember(
    broker: Broker, context: Context, request: OffsetCommitRequest, answer: OffsetCommitResponse
) -> None:
    """Keeps what may come again. On a connection where it did not come again, not any more."""
    connection = context.connection
    if connection.remembered is _NOTHING or len(request.topics) != 1:
        return
    if connection.remembered is not None and not connection.remembered.was_of_use:
        connection.remembered = _NOTHING
        return
    connection.remembered = _Remembered.of(broker, context, request, answer)


class _Remembered:
    """A commit, and the bytes of its request before and behind the offset."""

    __slots__ = ("_head", "_offset_at", "_size", "_start", "_tail", "commit", "was_of_use")

    def __init__(self, commit: Commit, frame: bytes, offset_at: int) -> None:
        self.commit = commit
        self.was_of_use = False
        self._size = len(frame)
        self._offset_at = offset_at
        self._start = frame[:_CORRELATION_ID_AT]
        self._head = frame[_BEHIND_CORRELATION_ID:offset_at]
        self._tail = frame[offset_at + _OFFSET.size :]

    @classmethod
    def of(
        cls,
        broker: Broker,
        context: Context,
        request: OffsetCommitRequest,
        answer: OffsetCommitResponse,
    ) -> _Remembered | None:
        """None for a request or an answer that is not of the usual form."""
        frame, version = bytes(context.frame), context.version
        framed = b"".join(encode(_SPEC, version, 0, answer))
        committer = Committer(context.connection, framed)
        commit = Commit.of(broker.metadata.image, version, request, committer)
        body = request.encode(version)
        if commit is None or not frame.endswith(body) or answer.topics[0].partitions[0].error_code:
            return None
        partition = request.topics[0].partitions[0]
        partition.committed_offset = ~commit.offset  # changes each of its bytes
        changed = request.encode(version)
        partition.committed_offset = commit.offset
        before = next(pos for pos, byte in enumerate(changed) if byte != body[pos])
        return cls(commit, frame, len(frame) - len(body) + before)

    def is_in(self, frame: bytes) -> bool:
        """Whether it is the same request; its offset is then the commit's."""
        at = self._offset_at
        if (
            len(frame) == self._size
            and frame.endswith(self._tail)
            and frame.startswith(self._head, _BEHIND_CORRELATION_ID)
            and frame.startswith(self._start)
        ):
            (self.commit.offset,) = _OFFSET.unpack_from(frame, at)
            self.was_of_use = True
            return True
        return False


_NOTHING: Final = object()


def _refused(request: OffsetCommitRequest, error: CoordinatorError) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error.code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
