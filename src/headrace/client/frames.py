"""Length-prefixed frames: bytes in, whole responses out. Pure.

Guarantees: a size outside the limits is refused before its bytes are kept, and memory follows the
bytes that arrived, never the size a frame claims, beyond `ROOM_BYTES`.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from headrace.client.errors import BadResponse

Frame: TypeAlias = bytes | memoryview
"""Read-only in both forms."""

Room: TypeAlias = Callable[[int], bytearray | memoryview]
"""Makes room for so many bytes, whatever is in it."""

READ_BYTES: Final = 64 * 1024
"""What is read at a time while no frame has begun; frames that fit are copied out of it."""
ROOM_BYTES: Final = 8 * 1024 * 1024
"""What a frame that has begun gets at once if it claims to be so large; doubled as it fills."""
_SIZE_BYTES: Final = 4
_CORRELATION_BYTES: Final = 4


class FrameReader:
    """Gives one connection room for its bytes and cuts them into frames.

    The bytes of a large frame are received into the memory that is handed out: the megabytes of a
    fetch are not copied. `room` is for whoever has memory that need not be cleared first.
    """

    __slots__ = ("_begun", "_filled", "_held", "_max_frame_bytes", "_room", "_shared", "_size")

    def __init__(self, max_frame_bytes: int, room: Room = bytearray) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._room = room
        self._shared = memoryview(bytearray(READ_BYTES))
        self._held = 0  # bytes at its beginning that are not even a size
        self._begun: memoryview | None = None  # where the frame goes that has begun
        self._filled = 0
        self._size = 0

    def writable(self) -> memoryview:
        """Where the next bytes are to go; never empty."""
        if self._begun is None:
            return self._shared[self._held :]
        if self._filled == len(self._begun):
            old, self._begun = self._begun, self._room_for(2 * self._filled)
            self._begun[: self._filled] = old
        return self._begun[self._filled :]

    def received(self, count: int) -> list[Frame]:
        """The frames that are whole now, without their size; raises `BadResponse`."""
        if self._begun is None:
            return self._cut(self._held + count)
        self._filled += count
        if self._filled < self._size:
            return []
        frame, self._begun = self._begun.toreadonly(), None
        return [frame]

    def _cut(self, end: int) -> list[Frame]:
        """Takes apart what was read before any frame had begun."""
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
                self._begin(size, read[pos:end])
                self._held = 0
                return frames
            frames.append(bytes(read[pos : pos + size]))
            pos += size
        self._held = end - pos
        if pos and self._held:
            read[: self._held] = bytes(read[pos:end])
        return frames

    def _begin(self, size: int, first: memoryview) -> None:
        self._size, self._filled = size, len(first)
        self._begun = self._room_for(ROOM_BYTES)
        self._begun[: self._filled] = first

    def _room_for(self, count: int) -> memoryview:
        return memoryview(self._room(min(self._size, count)))
