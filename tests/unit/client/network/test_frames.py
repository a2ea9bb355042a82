"""Frames come out whole and in order, however the bytes arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.errors import BadResponse
from headrace.client.network.frames import READ_BYTES, ROOM_BYTES, Frame, FrameReader

MAX_BYTES = 1000


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def fed(reader: FrameReader, data: bytes) -> list[Frame]:
    """The frames that the reader returns when a transport writes `data` into its buffer."""
    frames: list[Frame] = []
    left = memoryview(data)
    while left:
        room = reader.writable()
        count = min(len(room), len(left))
        room[:count] = left[:count]
        frames += reader.received(count)
        left = left[count:]
    return frames


@given(
    bodies=st.lists(st.binary(min_size=4, max_size=60), max_size=8),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_frames_are_the_same_however_their_bytes_are_split(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(map(framed, bodies))
    ends = sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)})
    reader, start, frames = FrameReader(MAX_BYTES), 0, []
    for end in ends:
        frames += fed(reader, stream[start:end])
        start = end
    assert [bytes(frame) for frame in frames] == bodies


def test_a_frame_received_in_pieces_is_read_only() -> None:
    reader = FrameReader(MAX_BYTES)
    assert fed(reader, framed(b"x" * 10)[:8]) == []
    (frame,) = fed(reader, b"x" * 6)
    assert memoryview(frame).readonly
    assert bytes(frame) == b"x" * 10


@pytest.mark.parametrize("size", [-1, 3, MAX_BYTES + 1])
def test_a_size_outside_the_limits_is_refused_before_its_bytes_are_stored(size: int) -> None:
    with pytest.raises(BadResponse, match="claims"):
        fed(FrameReader(MAX_BYTES), size.to_bytes(4, "big", signed=True) + b"rest")


def test_a_large_frame_is_not_copied_and_not_overwritten_by_the_next() -> None:
    rooms: list[bytearray] = []

    def room(size: int) -> bytearray:
        rooms.append(bytearray(size))
        return rooms[-1]

    reader = FrameReader(10 * READ_BYTES, room)
    bodies = [bytes([number]) * (3 * READ_BYTES) for number in (1, 2)]
    frames = fed(reader, b"".join(map(framed, bodies)))
    assert [bytes(frame) for frame in frames] == bodies
    assert list(map(len, rooms)) == [3 * READ_BYTES] * 2


def test_memory_grows_with_the_received_bytes_not_with_the_claimed_size() -> None:
    made: list[int] = []

    def room(size: int) -> bytearray:
        made.append(size)
        return bytearray(size)

    size = 3 * ROOM_BYTES
    reader = FrameReader(size, room)
    body = bytes(range(256)) * (size // 256)
    assert fed(reader, framed(body)[:-1]) == []
    assert made == [ROOM_BYTES, 2 * ROOM_BYTES, size]
    (frame,) = fed(reader, body[-1:])
    assert frame == body


def test_the_receive_buffer_is_never_empty() -> None:
    reader = FrameReader(READ_BYTES)
    stream = framed(b"head" * 5) * 3
    for at in range(len(stream)):
        assert reader.writable()
        fed(reader, stream[at : at + 1])
