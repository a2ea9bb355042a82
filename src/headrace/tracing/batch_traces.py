"""The traces of a record batch, within limits on its size and on its records. Pure."""

from itertools import islice
from typing import Final

from headrace.records.batch_header import read_header
from headrace.records.buffer import Buffer
from headrace.records.errors import RecordError
from headrace.records.record import iter_records
from headrace.tracing.trace_context import TRACEPARENT, TraceContext, is_sampled, parse_traceparent

MAX_BATCH_BYTES: Final = 64 * 1024
"""A larger batch is not looked at: it is copied on the event loop."""
MAX_PLAIN_BYTES: Final = 1 << 20
MAX_RECORDS: Final = 100
MAX_TRACES: Final = 8
"""Of one batch; every trace gets its own spans."""


def copy_first_batch(records: Buffer | None) -> bytes | None:
    """A copy of the first batch, if it is whole and small enough."""
    try:
        size = read_header(records or b"").size
    except RecordError:
        return None
    if records is None or size > min(len(records), MAX_BATCH_BYTES):
        return None
    return bytes(records[:size])


def traces_in(batch: bytes, ratio: float) -> list[TraceContext]:
    """The contexts of the first records, each once; none if the batch cannot be read."""
    found: dict[TraceContext, None] = {}
    try:
        for record in islice(iter_records(batch, max_bytes=MAX_PLAIN_BYTES), MAX_RECORDS):
            for name, value in record.headers:
                if name == TRACEPARENT:
                    context = parse_traceparent(value)
                    if context is not None and is_sampled(context.trace_id, ratio):
                        found[context] = None
            if len(found) >= MAX_TRACES:
                break
    except RecordError:
        return list(found)
    return list(found)
