"""Arrow columns equal the records of the reader, for valid and damaged batches."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.arrow.columns import RecordArrays
from headrace.records.arrow.decoder import Aborted, DamagedBatch, decode_batches
from headrace.records.batch_header import HEADER_SIZE, TimestampType, crc_of
from headrace.records.codec import Codec
from headrace.records.control import end_txn_marker
from headrace.records.record import Record, build_batch, iter_records

CAP_BYTES = 1 << 20
ALL = 1 << 62
some_bytes = st.one_of(st.none(), st.binary(max_size=200))
headers = st.lists(st.tuples(st.text(max_size=4), some_bytes), max_size=3).map(tuple)


@st.composite
def records(draw: st.DrawFn, first_offset: int = 0) -> list[Record]:
    offset = first_offset
    drawn = []
    for _ in range(draw(st.integers(1, 6))):
        offset += draw(st.integers(0, 3))  # compaction leaves gaps
        drawn.append(
            Record(
                offset,
                draw(st.integers(0, 1 << 41)),
                draw(some_bytes),
                draw(some_bytes),
                draw(headers),
            )
        )
        offset += 1
    return drawn


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Some batches, one behind the other."""
    built = []
    offset = draw(st.integers(0, 1 << 40))
    for _ in range(draw(st.integers(1, 4))):
        chosen = draw(records(first_offset=offset))
        built.append(
            build_batch(
                chosen,
                base_offset=offset,
                codec=draw(st.sampled_from(list(Codec))),
                timestamp_type=draw(st.sampled_from(list(TimestampType))),
            )
        )
        offset = chosen[-1].offset + 1
    return built


def rows(arrays: RecordArrays) -> list[Record]:
    headers = arrays.headers.to_pylist() if arrays.headers is not None else [()] * len(arrays)
    return [
        Record(offset, timestamp, key, value, tuple((h["key"], h["value"]) for h in pairs))
        for offset, timestamp, key, value, pairs in zip(
            arrays.offset.to_pylist(),
            arrays.timestamp_ms.to_pylist(),
            arrays.key.to_pylist(),
            arrays.value.to_pylist(),
            headers,
            strict=True,
        )
    ]


@settings(max_examples=100, deadline=None)
@given(logs(), st.data())
def test_the_columns_hold_the_requested_records(log: list[bytes], data: st.DataObject) -> None:
    everything = [record for batch in log for record in iter_records(batch, max_bytes=CAP_BYTES)]
    first, last = everything[0].offset, everything[-1].offset
    start = data.draw(st.integers(first, last + 1))
    end = data.draw(st.integers(start, last + 2))
    (decoded,) = decode_batches(b"".join(log), start=start, end=end, with_headers=True)
    assert rows(decoded.records) == [r for r in everything if start <= r.offset < end]
    assert decoded.next_offset == min(end, last + 1)


@settings(max_examples=50, deadline=None)
@given(logs(), st.integers(1, 2000))
def test_pieces_add_up_to_the_whole_in_order(log: list[bytes], piece_bytes: int) -> None:
    everything = [record for batch in log for record in iter_records(batch, max_bytes=CAP_BYTES)]
    pieces = list(
        decode_batches(b"".join(log), start=0, end=ALL, with_headers=True, piece_bytes=piece_bytes)
    )
    assert [row for piece in pieces for row in rows(piece.records)] == everything
    assert pieces[-1].next_offset == everything[-1].offset + 1
    for before, after in pairwise(pieces):
        assert before.next_offset <= after.records.offset[0].as_py()


@settings(max_examples=50, deadline=None)
@given(logs(), st.data())
def test_a_partial_batch_at_the_end_is_left_for_the_next_fetch(
    log: list[bytes], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(log[-1]) - 1))
    (decoded,) = decode_batches(b"".join(log)[:-cut], start=0, end=ALL, with_headers=True)
    whole = [record for batch in log[:-1] for record in iter_records(batch, max_bytes=CAP_BYTES)]
    assert rows(decoded.records) == whole
    assert decoded.next_offset == (whole[-1].offset + 1 if whole else 0)


@settings(max_examples=200, deadline=None)
@given(logs(), st.data())
def test_a_damaged_batch_is_reported_and_never_crashes(
    log: list[bytes], data: st.DataObject
) -> None:
    """The CRC is correct, so only the decoder can detect the damage."""
    place = data.draw(st.integers(HEADER_SIZE, len(log[-1]) - 1))
    batch = bytearray(log[-1])
    batch[place] = data.draw(st.integers(0, 255))
    batch[17:21] = crc_of(batch, 0, len(batch)).to_bytes(4, "big")
    try:
        list(decode_batches(batch, start=0, end=ALL, with_headers=True))
    except DamagedBatch as damaged:
        assert damaged.reason


def test_a_wrong_crc_is_reported_with_its_offset() -> None:
    good = build_batch([Record(7, 1, b"k", b"v")])
    bad = bytearray(build_batch([Record(8, 1, b"k", b"v")]))
    bad[-1] ^= 1
    try:
        list(decode_batches(good + bad, start=7, end=ALL))
    except DamagedBatch as damaged:
        assert "crc" in damaged.reason
    else:
        raise AssertionError("the damage was not seen")


def test_aborted_records_and_markers_are_not_returned() -> None:
    def of(producer: int, *offsets: int) -> bytes:
        return build_batch(
            [Record(offset, 1, None, b"%d" % producer) for offset in offsets],
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )

    def marker(producer: int, offset: int, *, commit: bool) -> bytes:
        return end_txn_marker(
            commit=commit,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=1,
            base_offset=offset,
        )

    log = (
        of(1, 0, 1)
        + of(2, 2)
        + marker(1, 3, commit=False)
        + of(1, 4)
        + marker(2, 5, commit=True)
        + marker(1, 6, commit=True)
    )
    (decoded,) = decode_batches(log, start=0, end=ALL, aborted=[Aborted(1, 0)])
    assert decoded.records.offset.to_pylist() == [2, 4]
    assert decoded.next_offset == 7
    (uncommitted,) = decode_batches(log, start=0, end=ALL)
    assert uncommitted.records.offset.to_pylist() == [0, 1, 2, 4]
