"""A receive buffer hands out exactly the frames that were sent, however the bytes arrive."""

import mmap
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.network.frames import BASE_CAPACITY_BYTES, FrameRefused, ReceiveBuffer

MAX_FRAME_BYTES = 1 << 20


def feed(buffer: ReceiveBuffer, data: bytes, chunk: int) -> list[bytes]:
    """Writes `data` in chunks as a transport would; copies the frames that come out."""
    frames = []
    pos = 0
    while pos < len(data):
        room = buffer.writable()
        count = min(len(room), chunk, len(data) - pos)
        assert count > 0, "the transport would see a full buffer and close"
        room[:count] = data[pos : pos + count]
        pos += count
        buffer.received(count)
        while (frame := buffer.next_frame()) is not None:
            frames.append(bytes(frame))
    return frames


def framed(payloads: list[bytes]) -> bytes:
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.one_of(st.integers(0, 300), st.integers(0, 200_000)), max_size=12),
    chunk=st.one_of(st.integers(1, 64), st.integers(1000, 100_000)),
)
def test_frames_are_reassembled_from_any_chunks(sizes: list[int], chunk: int) -> None:
    if chunk < 64:
        sizes = [min(size, 4000) for size in sizes]
    payloads = [bytes([i % 251]) * size for i, size in enumerate(sizes)]
    assert feed(ReceiveBuffer(MAX_FRAME_BYTES), framed(payloads), chunk) == payloads


def test_frames_are_reassembled_from_single_bytes() -> None:
    payloads = [b"abc", b"", b"x" * 100]
    assert feed(ReceiveBuffer(MAX_FRAME_BYTES), framed(payloads), 1) == payloads


@pytest.mark.parametrize("size", [-1, -(2**31), MAX_FRAME_BYTES + 1, 2**31 - 1])
def test_a_size_outside_the_limits_is_rejected_before_allocation(size: int) -> None:
    buffer = ReceiveBuffer(MAX_FRAME_BYTES)
    buffer.writable()[:4] = size.to_bytes(4, "big", signed=True)
    buffer.received(4)
    with pytest.raises(FrameRefused, match=str(size)):
        buffer.next_frame()
    assert buffer.capacity == BASE_CAPACITY_BYTES


def test_memory_grows_with_received_bytes_not_with_the_claimed_size() -> None:
    buffer = ReceiveBuffer(100 << 20)
    claimed = (50 << 20).to_bytes(4, "big")
    assert feed(buffer, claimed + b"x" * 10, 100) == []
    assert buffer.capacity == BASE_CAPACITY_BYTES
    assert feed(buffer, b"x" * 100_000, 4096) == []
    assert buffer.capacity <= 4 * 100_000


def test_a_buffer_that_grew_shrinks_again_with_small_frames() -> None:
    buffer = ReceiveBuffer(MAX_FRAME_BYTES)
    feed(buffer, framed([b"x" * 900_000]), 1 << 20)
    grown = buffer.capacity
    feed(buffer, framed([b"y" * 10] * 20_000), 140)
    assert buffer.capacity < grown // 4


def test_an_idle_connection_releases_its_memory() -> None:
    buffer = ReceiveBuffer(MAX_FRAME_BYTES)
    feed(buffer, framed([b"x" * 900_000]), 1 << 20)
    buffer.release()
    assert buffer.capacity == 0
    assert len(buffer.writable()) == BASE_CAPACITY_BYTES
    assert feed(buffer, framed([b"y" * 10]), 100) == [b"y" * 10]


def test_a_released_buffer_may_be_released_again() -> None:
    buffer = ReceiveBuffer(MAX_FRAME_BYTES)
    buffer.release()
    buffer.release()
    assert feed(buffer, framed([b"z" * 40_000]), 1_000) == [b"z" * 40_000]


def test_a_partial_frame_is_not_released() -> None:
    buffer = ReceiveBuffer(MAX_FRAME_BYTES)
    whole = framed([b"x" * 900_000])
    assert feed(buffer, whole[:-1], 1 << 20) == []
    buffer.release()
    assert feed(buffer, whole[-1:], 1) == [b"x" * 900_000]


def test_a_large_buffer_is_a_mapping_that_the_kernel_gets_back() -> None:
    buffer = ReceiveBuffer(MAX_FRAME_BYTES)
    assert feed(buffer, framed([b"x" * 300_000]), 100_000) == [b"x" * 300_000]
    assert isinstance(buffer.bytes, memoryview)
    mapped = weakref.ref(buffer.bytes.obj)
    assert isinstance(mapped(), mmap.mmap)
    buffer.writable()
    buffer.release()
    assert mapped() is None
