"""Record batches against random records, mutated bytes and another implementation."""

import contextlib
import tracemalloc

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.batch_header import check_batch, headers, read_header
from headrace.records.codec import Codec, decompress
from headrace.records.errors import CorruptBatch, RecordError
from headrace.records.record import Record, build_batch, iter_records
from headrace.records.record_validation import Rules, inspect
from headrace.records.varint import encode, read_varint, read_varlong

MAX_BYTES = 1_000_000
INT64 = st.integers(-(2**63), 2**63 - 1)
BLOBS = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=8), BLOBS), max_size=3).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn, *, gaps: bool = True) -> list[Record]:
    """With gaps: as compaction leaves them. Without: as producers send them, with real times.

    (aiokafka's builder takes a timestamp of -1 for `none yet` and shifts the others.)
    """
    offset = draw(st.integers(0, 2**50)) if gaps else 0
    timestamps = st.integers(-1 if gaps else 0, 2**48)
    records = []
    for _ in range(draw(st.integers(1, 12))):
        records.append(Record(offset, draw(timestamps), draw(BLOBS), draw(BLOBS), draw(HEADERS)))
        offset += draw(st.integers(1, 1_000)) if gaps else 1
    return records


@given(records=record_lists(), codec=st.sampled_from(Codec))
def test_a_built_batch_is_read_back(records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, codec=codec)
    ((pos, header),) = headers(batch)
    check_batch(batch, pos, header)
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert list(iter_records(batch, max_bytes=MAX_BYTES)) == records


@given(records=record_lists(gaps=False), codec=st.sampled_from(Codec))
def test_aiokafka_reads_our_batches(records: list[Record], codec: Codec) -> None:
    theirs = DefaultRecordBatch(build_batch(records, codec=codec))
    assert theirs.validate_crc()
    assert [_from_aiokafka(record) for record in theirs] == records


@given(records=record_lists(gaps=False), codec=st.sampled_from(Codec))
def test_our_reader_reads_aiokafkas_batches(records: list[Record], codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, 1, 7, 3, 40, 10_000_000)
    for record in records:
        builder.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
    batch = bytes(builder.build())
    check_batch(batch, 0, read_header(batch))
    assert list(iter_records(batch, max_bytes=MAX_BYTES)) == records


def _from_aiokafka(record: object) -> Record:
    fields = ("offset", "timestamp", "key", "value")
    offset, timestamp, key, value = (getattr(record, name) for name in fields)
    return Record(offset, timestamp, key, value, tuple(getattr(record, "headers", ())))


@st.composite
def mutated_batches(draw: st.DrawFn) -> bytes:
    """A valid batch with bytes replaced, cut out or put in; its length made to fit, mostly."""
    batch = bytearray(build_batch(draw(record_lists()), codec=draw(st.sampled_from(Codec))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(batch) - 1))
        match draw(st.sampled_from(["replace", "cut", "insert"])):
            case "replace":
                batch[at] = draw(st.integers(0, 255))
            case "cut":
                del batch[at : at + draw(st.integers(1, 5))]
            case _:
                batch[at:at] = draw(st.binary(min_size=1, max_size=6))
        if not batch:
            return b""
    if len(batch) > 61 and draw(st.booleans()):
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        batch[16] = 2
    return bytes(batch)


@settings(max_examples=400)
@given(batch=mutated_batches())
def test_a_mutated_batch_gives_records_or_the_documented_error(batch: bytes) -> None:
    for read in (
        lambda: [check_batch(batch, pos, header) for pos, header in headers(batch)],
        lambda: list(iter_records(memoryview(batch), max_bytes=MAX_BYTES)),
        lambda: inspect(batch, Rules(max_bytes=MAX_BYTES, now_ms=0, needs_key=True)),
    ):
        with contextlib.suppress(RecordError):
            read()


@settings(max_examples=150)
@given(batch=mutated_batches())
def test_a_mutated_batch_uses_little_memory(batch: bytes) -> None:
    tracemalloc.start()
    try:
        list(iter_records(batch, max_bytes=MAX_BYTES))
    except RecordError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 4 * MAX_BYTES


@given(data=st.binary(max_size=400), codec=st.sampled_from(Codec))
def test_random_bytes_decompress_within_the_limit_or_fail(data: bytes, codec: Codec) -> None:
    with contextlib.suppress(RecordError):
        assert len(decompress(codec, data, max_bytes=10_000)) <= 10_000


@given(data=st.binary(max_size=200))
def test_random_bytes_are_never_accepted_as_batches(data: bytes) -> None:
    found = []
    try:
        for pos, header in headers(data):
            check_batch(data, pos, header)
            found.append(header)
    except (CorruptBatch, RecordError):
        pass
    assert not found


@given(value=INT64)
def test_varlongs_round_trip(value: int) -> None:
    encoded = encode(value)
    assert len(encoded) <= 10
    assert read_varlong(encoded, 0) == (value, len(encoded))


@given(value=st.integers(-(2**31), 2**31 - 1))
def test_varints_round_trip(value: int) -> None:
    encoded = encode(value)
    assert len(encoded) <= 5
    assert read_varint(encoded, 0) == (value, len(encoded))
    assert read_varlong(encoded, 0) == (value, len(encoded))
