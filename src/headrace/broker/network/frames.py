"""Splits received bytes into whole request frames.

Guarantees: a frame is returned as a view into the buffer, without a copy. Memory grows with the
bytes that arrived, never with the declared size of a frame. A size outside the limits is refused
before anything is allocated. A frame is valid until the next call of `writable`.
"""

import mmap
import struct

from headrace.protocol.errors import ProtocolError

_SIZE = struct.Struct(">i")
SIZE_BYTES = _SIZE.size
BASE_CAPACITY_BYTES = 16 * 1024  # the buffer of a connection with small requests
SMALL_READS_CAPACITY_BYTES = 256 * 1024  # growth for pipelined small frames stops here
MAPPED_FROM_BYTES = 128 * 1024
"""A buffer of this size is a mapping of its own, which the kernel gets back when it is freed. From
the heap, the process would keep it: 0.5 MB for each connection that ever sent 300 kB."""
ROOM_FOR_FRAMES = 2  # a buffer that fits two large frames moves a partial one half as often
FRAMES_BETWEEN_SHRINKS = 256


class FrameRefused(ProtocolError):
    """A frame's declared size is outside this listener's limits."""


class ReceiveBuffer:
    """One connection's receive buffer; grows with the data, shrinks when frames are small.

    `bytes[start:end]` was received and not yet returned. Both are 0 if `writable` found no such
    bytes. `frames` counts the returned frames.
    """

    __slots__ = (
        "_capacity",
        "_largest",
        "_view",
        "bytes",
        "end",
        "frames",
        "max_frame_bytes",
        "start",
    )

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.start = 0
        self.end = 0
        self.frames = 0
        self._largest = 0
        self._allocate(BASE_CAPACITY_BYTES)

    @property
    def capacity(self) -> int:
        return self._capacity

    def writable(self) -> memoryview:
        """The region for the next bytes; invalidates the frames returned before."""
        if self.start == self.end:
            self.start = self.end = 0
            if self.frames >= FRAMES_BETWEEN_SHRINKS:
                self._shrink()
            return self._view
        if self.end == self._capacity:
            self._make_room()
        return self._view[self.end :]

    def received(self, count: int) -> None:
        self.end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size, or None until more bytes arrive."""
        start = self.start
        available = self.end - start
        if available < SIZE_BYTES:
            return None
        (size,) = _SIZE.unpack_from(self.bytes, start)
        if size < 0 or size > self.max_frame_bytes:
            msg = f"frame of {size} bytes; this listener accepts 0 to {self.max_frame_bytes}"
            raise FrameRefused(msg)
        if available < SIZE_BYTES + size:
            return None
        start += SIZE_BYTES
        self.start = start + size
        self.frames += 1
        if size > self._largest:
            self._largest = size
        return self._view[start : start + size]

    def discard(self) -> None:
        """Forgets the bytes that were received and not returned."""
        self.start = self.end = 0

    def release(self) -> None:
        """Frees the memory of a quiet connection; the next `writable` allocates it again."""
        if self.start == self.end and self._capacity:
            self.start = self.end = 0
            self._allocate(0)
            self.frames = FRAMES_BETWEEN_SHRINKS  # `writable` checks the capacity then

    def _allocate(self, capacity: int) -> None:
        self._capacity = capacity
        self.bytes: bytearray | memoryview
        if capacity < MAPPED_FROM_BYTES:
            self.bytes = bytearray(capacity)
            self._view = memoryview(self.bytes)
        else:
            self.bytes = self._view = memoryview(
                mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            )

    def _make_room(self) -> None:
        """Moves the incomplete last frame, or enlarges the buffer, when the buffer is full to its
        end."""
        pending = self.end - self.start
        if pending >= SIZE_BYTES:
            (size,) = _SIZE.unpack_from(self.bytes, self.start)
            wanted = (SIZE_BYTES + size) * ROOM_FOR_FRAMES
        else:
            wanted = SMALL_READS_CAPACITY_BYTES
        capacity = self._capacity
        # At least half full: doubling keeps the buffer below twice the bytes that have arrived.
        if capacity < wanted and (pending * 2 > capacity or capacity < SMALL_READS_CAPACITY_BYTES):
            capacity *= 2
        old = self._view[self.start : self.end]
        if capacity != self._capacity:
            self._allocate(capacity)
        # The copy comes first, so the regions may overlap.
        self._view[:pending] = bytes(old)
        self.start, self.end = 0, pending

    def _shrink(self) -> None:
        if not self._capacity:
            self._allocate(BASE_CAPACITY_BYTES)
        fitting = max(BASE_CAPACITY_BYTES, self._largest * ROOM_FOR_FRAMES * 2)
        if self._capacity > fitting:
            self._allocate(max(BASE_CAPACITY_BYTES, self._capacity // 2))
        self.frames = self._largest = 0
