"""The cleaner's inner loops read the same records as the strict reader and accept any bytes."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.batch_header import HEADER_SIZE, BatchHeader, read_header
from headrace.records.record import Record, build_batch, iter_records
from headrace.storage.cleaning.batch_filter import (
    empty_batch,
    rebuild_batch,
)
from headrace.storage.cleaning.record_selection import MAX_PLAIN_KEY_BYTES, map_keys, select_records
from headrace.storage.cleaning.segment_reader import Uncleanable

BASE_MS = 1_700_000_000_000

record_parts = st.tuples(
    st.integers(1, 40_000),  # the gap to the next offset
    st.integers(-(2**40), 2**40),
    st.none() | st.binary(max_size=8) | st.sampled_from([b"k" * n for n in (31, 32, 33, 64, 9000)]),
    st.none() | st.binary(max_size=200) | st.just(bytes(20_000)),
)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    offset, records = 1000, []
    for gap, timestamp, key, value in draw(st.lists(record_parts, min_size=1, max_size=20)):
        headers = (("h", b"x"),) if gap % 3 == 0 else ()
        records.append(Record(offset, BASE_MS + timestamp, key, value, headers))
        offset += gap
    return build_batch(records, base_offset=1000)


def opened(batch: bytes) -> tuple[BatchHeader, bytes, int, int]:
    return read_header(batch), batch, HEADER_SIZE, len(batch)


def reference(batch: bytes) -> list[Record]:
    return list(iter_records(batch, max_bytes=1 << 26))


@settings(max_examples=60, deadline=None)
@given(batches())
def test_the_offset_map_has_the_last_offset_of_each_key(batch: bytes) -> None:
    found: dict[bytes, int] = {}
    has_tombstones = map_keys(*opened(batch), found)
    records = [record for record in reference(batch) if record.key is not None]
    expected = {record.key: record.offset for record in records}
    assert sorted(found.values()) == sorted(expected.values())
    for key, offset in expected.items():
        if key is not None and len(key) <= MAX_PLAIN_KEY_BYTES:
            assert found[key] == offset
    assert has_tombstones == any(record.value is None for record in records)


@settings(max_examples=60, deadline=None)
@given(batches(), st.sampled_from([None, BASE_MS - 5, BASE_MS + 10**9]))
def test_retained_records_are_unchanged(batch: bytes, horizon_ms: int | None) -> None:
    header, data, pos, end = opened(batch)
    latest: dict[bytes, int] = {}
    map_keys(header, data, pos, end, latest)
    kept, _ = select_records(header, data, pos, end, latest, drops_tombstones=False)
    offsets = sorted(latest.values())
    picked, _ = select_records(header, data, pos, end, {}, survivors=offsets)
    assert kept == picked
    if not kept:
        return
    written, again = rebuild_batch(header, data, kept, horizon_ms)
    expected = [record for record in reference(batch) if record.offset in offsets]
    assert reference(again) == expected
    assert read_header(again) == written
    assert (written.base_offset, written.last_offset) == (header.base_offset, header.last_offset)
    assert written.max_timestamp == max(record.timestamp for record in expected)
    assert written.has_delete_horizon == (horizon_ms is not None)
    assert horizon_ms is None or written.base_timestamp == horizon_ms
    assert reference(empty_batch(header)[1]) == []


@settings(max_examples=150, deadline=None)
@given(batches(), st.data())
def test_any_bytes_give_records_or_an_error(batch: bytes, data: st.DataObject) -> None:
    damaged = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
        damaged[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    header, buffer, pos, end = opened(bytes(damaged))
    with contextlib.suppress(Uncleanable):
        latest: dict[bytes, int] = {}
        map_keys(header, buffer, pos, end, latest)
        select_records(header, buffer, pos, end, latest, drops_tombstones=True)
