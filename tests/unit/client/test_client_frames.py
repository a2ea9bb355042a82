"""Frames come out whole and in order, however the bytes arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.errors import BadResponse
from headrace.client.frames import FrameReader

MAX_BYTES = 1000


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@given(
    bodies=st.lists(st.binary(min_size=4, max_size=60), max_size=8),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_frames_are_the_same_however_their_bytes_are_cut(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(map(framed, bodies))
    ends = sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)})
    reader, start, frames = FrameReader(MAX_BYTES), 0, []
    for end in ends:
        frames += reader.feed(stream[start:end])
        start = end
    assert [bytes(frame) for frame in frames] == bodies


def test_a_frame_that_came_in_pieces_cannot_be_written_to() -> None:
    reader = FrameReader(MAX_BYTES)
    assert reader.feed(framed(b"x" * 10)[:8]) == []
    (frame,) = reader.feed(b"x" * 6)
    assert memoryview(frame).readonly
    assert bytes(frame) == b"x" * 10


@pytest.mark.parametrize("size", [-1, 3, MAX_BYTES + 1])
def test_a_size_outside_the_limits_is_refused_before_its_bytes_are_kept(size: int) -> None:
    with pytest.raises(BadResponse, match="claims"):
        FrameReader(MAX_BYTES).feed(size.to_bytes(4, "big", signed=True) + b"rest")
