"""Compiles the decoder and the JSON reader before the first batch. Numba caches them on disk."""

import time

import pyarrow as pa

from headrace.pipeline.formats.schema import parse_ddl
from headrace.pipeline.formats.simple_json.reader import SimpleReader
from headrace.records.arrow.decoder import decode_batches
from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch


def warm_up() -> float:
    """Reads one batch in each way that a pipeline does. Returns the seconds that it took."""
    began = time.perf_counter()
    record = Record(0, 1, b"key", b"value", (("name", b"value"),))
    for codec in (Codec.NONE, Codec.ZSTD):
        batch = build_batch([record], codec=codec)
        for with_headers in (False, True):
            for data in (batch, memoryview(bytearray(batch))):
                next(decode_batches(data, start=0, end=1, with_headers=with_headers))
    reader = SimpleReader(
        parse_ddl("id BIGINT"), limit_bytes=1 << 20, zoneless=True, unknown_names=True
    )
    reader.read(pa.array([b'{"id":1}'], pa.binary()))
    return time.perf_counter() - began
