"""The fast builder's batches equal those of the general builder."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.record import Record, build_batch
from headrace.records.small_batch_builder import build_plain_batch

RECORDS = st.lists(
    st.tuples(st.binary(max_size=700), st.none() | st.binary(max_size=700)),
    min_size=1,
    max_size=5,
)


@settings(max_examples=50, deadline=None)
@given(RECORDS, st.integers(0, 2**60), st.none() | st.tuples(st.integers(0, 2**60), st.just(7)))
def test_a_plain_batch_has_the_bytes_of_the_general_builder(
    records: list[tuple[bytes, bytes | None]],
    timestamp_ms: int,
    producer: tuple[int, int] | None,
) -> None:
    producer_id, epoch = producer or (-1, -1)
    expected = build_batch(
        [Record(n, timestamp_ms, key, value) for n, (key, value) in enumerate(records)],
        producer_id=producer_id,
        producer_epoch=epoch,
        is_transactional=producer is not None,
    )
    built = build_plain_batch(records, timestamp_ms, producer_id=producer_id, producer_epoch=epoch)
    assert built == expected


@pytest.mark.parametrize("count", [63, 64, 511, 512, 513, 9000])
def test_a_plain_batch_encodes_any_offset_delta(count: int) -> None:
    expected = build_batch([Record(n, 1, b"k" * (n % 70), b"v") for n in range(count)])
    built = build_plain_batch([(b"k" * (n % 70), b"v") for n in range(count)], 1)
    assert built == expected
