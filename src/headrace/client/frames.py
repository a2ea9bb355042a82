"""Length-prefixed frames: bytes in, whole responses out. Pure.

Guarantees: a size outside the limits is refused before its bytes are kept, and memory follows the
bytes that arrived, never the size a frame claims.
"""

from typing import TypeAlias

from headrace.client.errors import BadResponse

Frame: TypeAlias = bytes | memoryview
"""Read-only in both forms."""

_SIZE_BYTES = 4
_CORRELATION_BYTES = 4


class FrameReader:
    """Collects one connection's bytes and cuts them into frames.

    Each piece is copied once, as it comes and while the processor's caches still hold it: pieces
    that are kept and joined at the end cost three times as much for the megabytes of a fetch.
    """

    __slots__ = ("_begun", "_max_frame_bytes", "_missing", "_size")

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._size = b""  # of the next frame, while it is not whole
        self._missing = 0  # bytes of the frame that has begun
        self._begun = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now, without their size; raises `BadResponse`."""
        frames: list[Frame] = []
        pos, end = 0, len(data)
        while pos < end:
            if not self._missing:
                pos = self._begin(data, pos)
                continue
            piece = data if not pos and end <= self._missing else data[pos : pos + self._missing]
            pos += len(piece)
            self._missing -= len(piece)
            if not self._missing and not self._begun:
                frames.append(piece)
                continue
            self._begun += piece
            if not self._missing:
                frames.append(memoryview(self._begun).toreadonly())
                self._begun = bytearray()
        return frames

    def _begin(self, data: bytes, pos: int) -> int:
        """Takes the size of a frame, or a part of it; returns where it ends."""
        end = pos + _SIZE_BYTES - len(self._size)
        self._size += data[pos:end]
        if len(self._size) == _SIZE_BYTES:
            size = int.from_bytes(self._size, "big", signed=True)
            if not _CORRELATION_BYTES <= size <= self._max_frame_bytes:
                raise BadResponse(
                    f"a response claims {size} bytes; {_CORRELATION_BYTES} to "
                    f"{self._max_frame_bytes} are accepted (is this a Kafka listener, without TLS?)"
                )
            self._missing, self._size = size, b""
        return end
