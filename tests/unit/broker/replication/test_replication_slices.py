"""Slices of records: complete, in order, in whole batches and bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.replication.replication_slices import BATCH_COST, SLICE_COST, slices
from headrace.records.record import Record, build_batch

SIZES = st.lists(
    st.sampled_from([1, 100, 10_000, 400_000, SLICE_COST, 2 * SLICE_COST]), max_size=12
)


def batch(size: int) -> bytes:
    return bytes(build_batch([Record(0, 0, None, bytes(size), ())]))


@given(SIZES, st.integers(0, 60))
@pytest.mark.slow
def test_slices_are_whole_batches_in_order(sizes: list[int], rest: int) -> None:
    batches = [batch(size) for size in sizes]
    whole = b"".join(batches)
    found = list(slices(whole + batch(1)[:rest]))
    assert b"".join(bytes(slice_.records) for slice_ in found) == whole
    assert sum(slice_.cost for slice_ in found) == len(whole) + BATCH_COST * len(batches)
    largest = max(map(len, batches), default=0) + BATCH_COST
    assert all(slice_.cost <= max(SLICE_COST, largest) for slice_ in found)


def test_the_number_of_small_batches_limits_a_slice() -> None:
    small = batch(1)
    first, *_ = slices(small * 1000)
    assert len(first.records) // len(small) == SLICE_COST // (BATCH_COST + len(small))


def test_empty_input_gives_one_slice() -> None:
    (only,) = slices(b"")
    assert (bytes(only.records), only.cost) == (b"", 0)
