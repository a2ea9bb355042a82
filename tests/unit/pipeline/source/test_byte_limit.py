"""Records that are taken together never exceed the byte limit."""

import pytest

from headrace.pipeline.source.byte_limit import ByteLimit, ByteLimitWatch, RecordsTooLarge
from headrace.records.arrow.columns import RecordArrays
from headrace.records.arrow.decoder import decode_batches
from headrace.records.record import Record, build_batch

HEADER_BYTES = 500


def chunk(count: int, size: int, *, header: bool = False) -> RecordArrays:
    headers = (("h", bytes(HEADER_BYTES)),) if header else ()
    records = [Record(at, 0, None, bytes(size), headers) for at in range(count)]
    decoded = decode_batches(build_batch(records), start=0, end=count, with_headers=True)
    return next(iter(decoded)).records


def test_any_number_of_small_records_passes() -> None:
    watch = ByteLimitWatch(ByteLimit(records=10, size_bytes=1000))
    for _ in range(5):
        watch.add_chunk(chunk(100, 50))
    for _ in range(100):
        watch.add_chunk(chunk(1, 90))


def test_large_records_are_found_in_one_chunk() -> None:
    with pytest.raises(RecordsTooLarge, match="3 records"):
        ByteLimitWatch(ByteLimit(records=10, size_bytes=1000)).add_chunk(chunk(3, 400))


def test_large_records_are_found_over_several_chunks() -> None:
    watch = ByteLimitWatch(ByteLimit(records=10, size_bytes=1000))
    watch.add_chunk(chunk(1, 400))
    watch.add_chunk(chunk(1, 400))
    with pytest.raises(RecordsTooLarge):
        watch.add_chunk(chunk(1, 400))


def test_headers_count_towards_the_limit() -> None:
    watch = ByteLimitWatch(ByteLimit(records=10, size_bytes=HEADER_BYTES + 100))
    watch.add_chunk(chunk(1, 10, header=True))
    with pytest.raises(RecordsTooLarge):
        watch.add_chunk(chunk(1, 10, header=True))
