"""Turns the values of simple records into rows."""

import numpy as np
import pyarrow as pa

from headrace.pipeline.formats.schema import StructOf
from headrace.pipeline.formats.simple_json.columns import JsonColumns
from headrace.pipeline.formats.simple_json.kinds import DONE, Bytes, Ends, Flags
from headrace.pipeline.formats.simple_json.layout import layout


class SimpleReader:
    """Reads the records of one schema; raises `Unsupported` for a schema that it cannot read."""

    def __init__(
        self, columns: StructOf, *, limit_bytes: int, zoneless: bool, unknown_names: bool
    ) -> None:
        self._layout = layout(columns)
        self._limit_bytes = limit_bytes
        self._zoneless = zoneless
        self._unknown_names = unknown_names

    @property
    def schema(self) -> pa.Schema:
        root = self._layout.nodes[0].type
        return pa.schema([root.field(at) for at in range(root.num_fields)])

    def read(self, values: pa.Array) -> tuple[pa.RecordBatch, Flags]:
        """The rows of the simple records, in order, and a flag for each record."""
        from headrace.pipeline.formats.simple_json.compiled import read
        from headrace.pipeline.formats.simple_json.floats import POWERS

        made, simple = JsonColumns(self._layout, len(values)), np.zeros(len(values), np.bool_)
        ends, data, valid = _buffers(values)
        tables = self._layout
        full, row = 0, 0
        while True:
            full, row = read(
                data,
                ends,
                valid,
                row,
                self._limit_bytes,
                self._zoneless,
                self._unknown_names,
                tables.kinds,
                tables.ends,
                tables.required,
                tables.lows,
                tables.highs,
                tables.parents,
                tables.names,
                tables.name_starts,
                POWERS,
                made.counts,
                made.room,
                made.room_bytes,
                made.valid_at,
                made.ends_at,
                made.data_at,
                simple,
            )
            if full == DONE:
                return made.batch(), simple
            made.grow(full)


def _buffers(values: pa.Array) -> tuple[Ends, Bytes, Flags]:
    """The ends of the values, their bytes, and a flag for each value that is not null."""
    bitmap, ends, data = values.buffers()
    begin, count = values.offset, len(values)
    valid = np.ones(count, np.bool_)
    if bitmap is not None and values.null_count:
        bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
        valid = bits[begin : begin + count].astype(np.bool_)
    places = np.frombuffer(ends, np.int32)[begin : begin + count + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(1, np.uint8)
    # As read-only views, all buffers share one compiled version.
    places.flags.writeable = raw.flags.writeable = False
    return places, raw, valid
