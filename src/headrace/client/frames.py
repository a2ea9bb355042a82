"""Length-prefixed frames: bytes in, whole responses out. Pure.

Guarantees: a size outside the limits is refused before its bytes are kept, and memory follows the
bytes that arrived, never the size a frame claims.
"""

from headrace.client.errors import BadResponse

_SIZE_BYTES = 4
_CORRELATION_BYTES = 4


class FrameReader:
    """Collects one connection's bytes and cuts them into frames."""

    __slots__ = ("_buffer", "_max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole now, without their size; raises `BadResponse`."""
        buffer = self._buffer
        buffer += data
        frames = []
        pos = 0
        while len(buffer) - pos >= _SIZE_BYTES:
            size = int.from_bytes(buffer[pos : pos + _SIZE_BYTES], "big", signed=True)
            if not _CORRELATION_BYTES <= size <= self._max_frame_bytes:
                raise BadResponse(
                    f"a response claims {size} bytes; {_CORRELATION_BYTES} to "
                    f"{self._max_frame_bytes} are accepted (is this a Kafka listener, without TLS?)"
                )
            end = pos + _SIZE_BYTES + size
            if end > len(buffer):
                break
            with memoryview(buffer) as view:
                frames.append(bytes(view[pos + _SIZE_BYTES : end]))
            pos = end
        del buffer[:pos]
        return frames
