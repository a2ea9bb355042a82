"""A connection's commit of one partition, which it makes again and again.

It is known by its bytes: all but the correlation id and the offset are the same. Its answer is the
same, too, but for the correlation id.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context, encode
from headrace.broker.network.frames import SIZE_BYTES
from headrace.coordinator.group.offsets.fast_commit import Recommit, Repeatable
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

if TYPE_CHECKING:
    from headrace.broker.coordinators.commit_batcher import CommitBatcher
    from headrace.broker.node import Broker

_CORRELATION_ID: Final = slice(4, 8)  # of a request, and of an answer behind its size
_OFFSET_BYTES: Final = 8
_SPEC: Final = APIS[ApiKey.OFFSET_COMMIT]


class CommitFastPath(Recommit):
    """The commit and its connection, which is held while one is under way."""

    __slots__ = (
        "_answer_end",
        "_answer_start",
        "_connection",
        "_correlation_id",
        "_gathering",
        "_head",
        "_layout",
        "_start",
        "_tail",
        "packet_bytes",
        "packet_start",
        "size_bytes",
        "was_of_use",
    )

    def __init__(
        self,
        gathering: CommitBatcher,
        context: Context,
        request: OffsetCommitRequest,
        asked: Repeatable,
        answer: bytes,
        offset_at: int,
    ) -> None:
        """`offset_at` is where the request has its offset; `answer` is what every commit gets, but
        for the correlation id."""
        super().__init__(context.version, request, asked)
        frame = bytes(context.frame)
        behind = offset_at + _OFFSET_BYTES
        self.was_of_use = False
        self._gathering = gathering
        self._connection = context.connection
        self._correlation_id = frame[_CORRELATION_ID]
        self._start = frame[: _CORRELATION_ID.start]
        self._head = frame[_CORRELATION_ID.stop : offset_at]
        self._tail = frame[behind:]
        self.size_bytes = len(frame)
        self.packet_start = self.size_bytes.to_bytes(SIZE_BYTES, "big")
        self.packet_bytes = SIZE_BYTES + self.size_bytes
        self._layout = struct.Struct(f">4s4s{len(self._head)}sq{len(self._tail)}s")
        self._answer_start = answer[: _CORRELATION_ID.start]
        self._answer_end = answer[_CORRELATION_ID.stop :]

    @classmethod
    def of(
        cls,
        broker: Broker,
        context: Context,
        request: OffsetCommitRequest,
        answer: OffsetCommitResponse,
    ) -> CommitFastPath | None:
        """None for a request or an answer that is not of the usual form."""
        version, size = context.version, len(context.frame)
        asked = Repeatable.of(broker.metadata.image, request)
        body = request.encode(version)
        if (
            asked is None
            or bytes(context.frame[size - len(body) :]) != body
            or answer.topics[0].partitions[0].error_code
        ):
            return None
        partition = asked.partition
        partition.committed_offset ^= -1  # changes each of its bytes
        changed = request.encode(version)
        partition.committed_offset ^= -1
        before = next(pos for pos, byte in enumerate(changed) if byte != body[pos])
        framed = b"".join(encode(_SPEC, version, 0, answer))
        gathering = broker.coordinators.commits
        return cls(gathering, context, request, asked, framed, size - len(body) + before)

    def again(self, buffer: bytearray | memoryview, at: int) -> bool:
        """Whether the frame at `at` is this commit, with another offset. It is gathered then, and
        the connection must be held until `answer` or `start_again`."""
        start, correlation_id, head, offset, tail = self._layout.unpack_from(buffer, at)
        if head != self._head or tail != self._tail or start != self._start:
            return False
        self.offset = offset
        self._correlation_id = correlation_id
        self.was_of_use = True
        self._gathering.add(self)
        return True

    def answer(self) -> None:
        self._connection.answer_held(self._answer_start + self._correlation_id + self._answer_end)

    def start_again(self) -> None:
        """The commit needs a closer look."""
        frame = self._layout.pack(
            self._start, self._correlation_id, self._head, self.offset, self._tail
        )
        self._connection.start_again(frame)


class NeverAgain:
    """Stands where a commit would: the connection's commits differ, and none is remembered."""

    was_of_use = False
    size_bytes = packet_bytes = -1  # no frame has it
    packet_start = b""

    def again(self, buffer: bytearray | memoryview, at: int) -> bool:
        return False


NEVER_AGAIN: Final = NeverAgain()
