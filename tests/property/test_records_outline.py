"""An outline agrees with a full read, for valid and damaged batches."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.batch_header import HEADER_SIZE
from headrace.records.codec import Codec
from headrace.records.errors import RecordError
from headrace.records.record import Record, build_batch, iter_records
from headrace.records.record_outline import iter_outlines

CAP_BYTES = 1 << 20
some_bytes = st.one_of(st.none(), st.binary(max_size=200))
headers = st.lists(st.tuples(st.text(max_size=4), some_bytes), max_size=3).map(tuple)


@st.composite
def batches(draw: st.DrawFn) -> bytearray:
    count = draw(st.integers(1, 6))
    records = [
        Record(
            index, draw(st.integers(0, 1 << 41)), draw(some_bytes), draw(some_bytes), draw(headers)
        )
        for index in range(count)
    ]
    return bytearray(build_batch(records, codec=draw(st.sampled_from(list(Codec)))))


def read_both(batch: bytearray) -> tuple[object, object]:
    """The results of both readers; None for an error."""
    try:
        full: object = [
            (record.offset, record.timestamp, record.key is not None)
            for record in iter_records(batch, max_bytes=CAP_BYTES)
        ]
    except RecordError:
        full = None
    try:
        outlined: object = [
            tuple(outline) for outline in iter_outlines(batch, max_bytes=CAP_BYTES, max_records=100)
        ]
    except RecordError:
        outlined = None
    return full, outlined


@settings(max_examples=150, deadline=None)
@given(batches())
def test_outlines_agree_with_the_records(batch: bytearray) -> None:
    full, outlined = read_both(batch)
    assert full is not None
    assert outlined == full


@settings(max_examples=300, deadline=None)
@given(batches(), st.data())
def test_a_damaged_batch_is_rejected_by_both_or_by_neither(
    batch: bytearray, data: st.DataObject
) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
        batch[place] = data.draw(st.integers(0, 255))
    full, outlined = read_both(batch)
    assert outlined == full
