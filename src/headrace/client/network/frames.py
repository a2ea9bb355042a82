"""Length-prefixed frames: bytes in, whole responses out. Pure.

Guarantees: a size outside the limits is refused before its bytes are stored. Beyond `ROOM_BYTES`,
memory grows with the bytes received, not with the declared size of a frame.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from headrace.client.errors import BadResponse

Frame: TypeAlias = bytes | memoryview
"""A whole response without its size; read-only in both forms."""

Room: TypeAlias = Callable[[int], bytearray | memoryview]
"""Allocates this many bytes, which need not be cleared."""

READ_BYTES: Final = 64 * 1024
"""The size of one read between frames; frames that fit are copied out of it."""
ROOM_BYTES: Final = 8 * 1024 * 1024
"""The first allocation for a partial frame, at most its claimed size; doubled as it fills."""
_SIZE_BYTES: Final = 4
_CORRELATION_BYTES: Final = 4


class FrameReader:
    """Provides the receive buffer of a connection and splits the bytes into frames.

    The bytes of a large frame are received directly into the returned memory: the megabytes of a
    fetch are not copied. `room` can allocate memory that is not cleared first.
    """

    __slots__ = (
        "_filled",
        "_leftover",
        "_max_frame_bytes",
        "_partial",
        "_room",
        "_shared",
        "_size",
    )

    def __init__(self, max_frame_bytes: int, room: Room = bytearray) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._room = room
        self._shared = memoryview(bytearray(READ_BYTES))
        self._leftover = 0  # bytes at its start that are less than a whole size field
        self._partial: memoryview | None = None  # the memory of a partial frame
        self._filled = 0
        self._size = 0

    def writable(self) -> memoryview:
        """The buffer for the next bytes; never empty."""
        if self._partial is None:
            return self._shared[self._leftover :]
        if self._filled == len(self._partial):
            old, self._partial = self._partial, self._allocate(2 * self._filled)
            self._partial[: self._filled] = old
        return self._partial[self._filled :]

    def received(self, count: int) -> list[Frame]:
        """The frames that are now complete, without their size; raises `BadResponse`."""
        if self._partial is None:
            return self._split_frames(self._leftover + count)
        self._filled += count
        if self._filled < self._size:
            return []
        frame, self._partial = self._partial.toreadonly(), None
        return [frame]

    def _split_frames(self, end: int) -> list[Frame]:
        """Splits the bytes of a read that started between frames."""
        frames: list[Frame] = []
        read, pos = self._shared, 0
        while end - pos >= _SIZE_BYTES:
            size = int.from_bytes(read[pos : pos + _SIZE_BYTES], "big", signed=True)
            if not _CORRELATION_BYTES <= size <= self._max_frame_bytes:
                raise BadResponse(
                    f"a response claims {size} bytes; {_CORRELATION_BYTES} to "
                    f"{self._max_frame_bytes} are accepted (is this a Kafka listener, without TLS?)"
                )
            pos += _SIZE_BYTES
            if end - pos < size:
                self._begin_frame(size, read[pos:end])
                self._leftover = 0
                return frames
            frames.append(bytes(read[pos : pos + size]))
            pos += size
        self._leftover = end - pos
        if pos and self._leftover:
            read[: self._leftover] = bytes(read[pos:end])
        return frames

    def _begin_frame(self, size: int, first: memoryview) -> None:
        self._size, self._filled = size, len(first)
        self._partial = self._allocate(ROOM_BYTES)
        self._partial[: self._filled] = first

    def _allocate(self, count: int) -> memoryview:
        return memoryview(self._room(min(self._size, count)))
