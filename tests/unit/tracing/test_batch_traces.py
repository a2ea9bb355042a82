"""The traces of a batch: of any codec, within limits, and none of a batch that cannot be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch
from headrace.tracing.batch_traces import (
    MAX_BATCH_BYTES,
    MAX_RECORDS,
    MAX_TRACES,
    copy_first_batch,
    traces_in,
)
from headrace.tracing.trace_context import TraceContext


def record(offset: int, trace: int, span: int = 1) -> Record:
    value = f"00-{trace:032x}-{span:016x}-01".encode()
    return Record(offset, 0, None, b"v", (("traceparent", value),))


@pytest.mark.parametrize("codec", Codec)
def test_each_context_is_found_once(codec: Codec) -> None:
    batch = build_batch([record(0, 7), record(1, 7), record(2, 8)], codec=codec)
    assert traces_in(batch, 1.0) == [TraceContext(7, 1), TraceContext(8, 1)]


def test_only_the_first_records_and_some_traces_are_used() -> None:
    many = build_batch([record(n, n + 1) for n in range(50)])
    assert len(traces_in(many, 1.0)) == MAX_TRACES
    plain = [Record(n, 0, None, b"v") for n in range(MAX_RECORDS)]
    assert traces_in(build_batch([*plain, record(MAX_RECORDS, 1)]), 1.0) == []


def test_a_bomb_has_no_traces() -> None:
    bomb = build_batch([Record(0, 0, None, bytes(4 << 20))], codec=Codec.ZSTD)
    assert len(bomb) < MAX_BATCH_BYTES
    assert traces_in(bomb, 1.0) == []


def test_only_a_whole_and_small_first_batch_is_copied() -> None:
    first, second = build_batch([record(0, 1)]), build_batch([record(1, 2)])
    assert copy_first_batch(memoryview(first + second)) == first
    assert copy_first_batch(first[:-1]) is None
    assert copy_first_batch(b"") is None
    assert copy_first_batch(None) is None
    assert copy_first_batch(build_batch([Record(0, 0, None, bytes(MAX_BATCH_BYTES))])) is None


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(data: bytes) -> None:
    copied = copy_first_batch(data)
    if copied is not None:
        traces_in(copied, 1.0)
