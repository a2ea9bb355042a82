"""Slices of records: complete, in order, in whole batches and bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.replication.replication_slices import BATCH_COST, TURN_COST, turns
from headrace.records.record import Record, build_batch

SIZES = st.lists(st.sampled_from([1, 100, 10_000, 400_000, TURN_COST, 2 * TURN_COST]), max_size=12)


def batch(size: int) -> bytes:
    return bytes(build_batch([Record(0, 0, None, bytes(size), ())]))


@given(SIZES, st.integers(0, 60))
@pytest.mark.slow
def test_slices_are_whole_batches_in_order(sizes: list[int], rest: int) -> None:
    batches = [batch(size) for size in sizes]
    whole = b"".join(batches)
    found = list(turns(whole + batch(1)[:rest]))
    assert b"".join(bytes(turn.records) for turn in found) == whole
    assert sum(turn.cost for turn in found) == len(whole) + BATCH_COST * len(batches)
    largest = max(map(len, batches), default=0) + BATCH_COST
    assert all(turn.cost <= max(TURN_COST, largest) for turn in found)


def test_the_number_of_small_batches_limits_a_slice() -> None:
    small = batch(1)
    first, *_ = turns(small * 1000)
    assert len(first.records) // len(small) == TURN_COST // (BATCH_COST + len(small))


def test_empty_input_gives_one_slice() -> None:
    (only,) = turns(b"")
    assert (bytes(only.records), only.cost) == (b"", 0)
