"""The fast path of OffsetCommit: a connection's commits of one partition, served without decoding.

A consumer of one partition sends the same request for its whole run: all bytes but the correlation
id and the offset are equal. So is the response, apart from the correlation id. The handler
registers a `CommitFastPath` at the connection, which serves the commits that follow.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.network.dispatch import Context, encode
from headrace.broker.network.frames import SIZE_BYTES
from headrace.coordinator.group.offsets.fast_commit import FastCommit, SinglePartitionCommit
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

if TYPE_CHECKING:
    from headrace.broker.coordinators.commit_batcher import CommitBatcher
    from headrace.broker.coordinators.coordinator_registry import CoordinatorRegistry
    from headrace.broker.metadata.standalone_metadata import MetadataView

_CORRELATION_ID: Final = slice(4, 8)  # in a request, and in a response with its size field
_OFFSET_BYTES: Final = 8
_SPEC: Final = APIS[ApiKey.OFFSET_COMMIT]


class CommitFastPathHost(Protocol):
    """The part of the broker that a fast path uses."""

    @property
    def metadata(self) -> MetadataView: ...

    @property
    def coordinators(self) -> CoordinatorRegistry: ...


class CommitFastPath(FastCommit):
    """Implements `FastPath` for the commits of one partition."""

    __slots__ = (
        "_batcher",
        "_connection",
        "_correlation_id",
        "_head",
        "_layout",
        "_response_head",
        "_response_tail",
        "_start",
        "_tail",
        "frame_bytes",
        "packet_bytes",
        "packet_prefix",
        "version",
        "was_used",
    )

    def __init__(
        self,
        batcher: CommitBatcher,
        context: Context,
        request: OffsetCommitRequest,
        commit: SinglePartitionCommit,
        response: bytes,
        offset_at: int,
    ) -> None:
        """`offset_at` is the position of the offset in the request; `response` is the response
        frame of every commit, apart from the correlation id."""
        super().__init__(context.version, request, commit)
        frame = bytes(context.frame)
        offset_end = offset_at + _OFFSET_BYTES
        self.version = context.version
        self.was_used = False
        self._batcher = batcher
        self._connection = context.connection
        self._correlation_id = frame[_CORRELATION_ID]
        self._start = frame[: _CORRELATION_ID.start]
        self._head = frame[_CORRELATION_ID.stop : offset_at]
        self._tail = frame[offset_end:]
        self.frame_bytes = len(frame)
        self.packet_prefix = self.frame_bytes.to_bytes(SIZE_BYTES, "big")
        self.packet_bytes = SIZE_BYTES + self.frame_bytes
        self._layout = struct.Struct(f">4s4s{len(self._head)}sq{len(self._tail)}s")
        self._response_head = response[: _CORRELATION_ID.start]
        self._response_tail = response[_CORRELATION_ID.stop :]

    @classmethod
    def from_commit(
        cls,
        host: CommitFastPathHost,
        context: Context,
        request: OffsetCommitRequest,
        response: OffsetCommitResponse,
    ) -> CommitFastPath | None:
        """The fast path for commits like this one. None if the request has more than one
        partition, asks for something unusual, or failed."""
        version, size = context.version, len(context.frame)
        commit = SinglePartitionCommit.from_request(host.metadata.image, request)
        body = request.encode(version)
        if (
            commit is None
            or bytes(context.frame[size - len(body) :]) != body
            or response.topics[0].partitions[0].error_code
        ):
            return None
        partition = commit.partition
        partition.committed_offset ^= -1  # changes every byte of the offset
        changed = request.encode(version)
        partition.committed_offset ^= -1
        before = next(pos for pos, byte in enumerate(changed) if byte != body[pos])
        framed = b"".join(encode(_SPEC, version, 0, response))
        batcher = host.coordinators.commits
        return cls(batcher, context, request, commit, framed, size - len(body) + before)

    def try_serve(self, buffer: bytearray | memoryview, at: int) -> bool:
        """Adds the commit to the batch if the frame at `at` differs from the first commit only in
        its correlation id and its offset."""
        start, correlation_id, head, offset, tail = self._layout.unpack_from(buffer, at)
        if head != self._head or tail != self._tail or start != self._start:
            return False
        self.offset = offset
        self._correlation_id = correlation_id
        self.was_used = True
        self._batcher.add(self)
        return True

    def respond(self) -> None:
        """Called when the commit is stored."""
        self._connection.complete_fast_path(
            self._response_head + self._correlation_id + self._response_tail
        )

    def fall_back(self) -> None:
        """Called when the commit is not stored: the handler must process it."""
        frame = self._layout.pack(
            self._start, self._correlation_id, self._head, self.offset, self._tail
        )
        self._connection.fall_back(frame)


class NoFastPath:
    """Serves no frame. It marks a connection whose commits differ from each other, so that the
    handler does not prepare a fast path for each of them in vain."""

    frame_bytes = packet_bytes = -1  # no frame has this size
    packet_prefix = b""

    def try_serve(self, buffer: bytearray | memoryview, at: int) -> bool:
        return False


NO_FAST_PATH: Final = NoFastPath()
