"""The columns for a chunk of records, and their conversion to Arrow arrays.

The payload's size determines the arrays' sizes: keys and values are never larger than the payload.
The conversion to Arrow copies no data.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from headrace.records.arrow.kernel import (
    CURSORS,
    HEADER_NAME_BYTES,
    HEADER_VALUE_BYTES,
    HEADERS,
    KEY_BYTES,
    ROWS,
    VALUE_BYTES,
    Bytes,
    Ends,
    Flags,
    Numbers,
    decoder,
)
from headrace.records.buffer import Buffer

SMALLEST_RECORD_BYTES: Final = 7
SMALLEST_HEADER_BYTES: Final = 2
HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


class _Binary:
    """A column of bytes: the end of each value, whether it is null, and the bytes."""

    __slots__ = ("data", "ends", "valid")

    def __init__(self, rows: int, size_bytes: int) -> None:
        self.ends: Ends = np.zeros(rows + 1, np.int32)
        self.valid: Flags = np.empty(rows, np.bool_)
        self.data: Bytes = np.empty(size_bytes, np.uint8)

    def array(self, rows: int, kind: pa.DataType) -> pa.Array:
        bitmap = None
        if not self.valid[:rows].all():
            bitmap = pa.py_buffer(np.packbits(self.valid[:rows], bitorder="little"))
        return pa.Array.from_buffers(
            kind, rows, [bitmap, pa.py_buffer(self.ends), pa.py_buffer(self.data)]
        )


class RecordColumns:
    """Columns for `rows` records from `size_bytes` of payload."""

    def __init__(self, rows: int, size_bytes: int, *, with_headers: bool) -> None:
        self._with_headers = with_headers
        self._cursors: Numbers = np.zeros(CURSORS, np.int64)
        self._offsets: Numbers = np.empty(rows, np.int64)
        self._timestamps: Numbers = np.empty(rows, np.int64)
        self._append_time: Flags = np.zeros(rows, np.bool_)
        self._keys = _Binary(rows, size_bytes)
        self._values = _Binary(rows, size_bytes)
        header_bytes = size_bytes if with_headers else 0
        headers = header_bytes // SMALLEST_HEADER_BYTES
        self._header_ends: Ends = np.zeros(rows + 1 if with_headers else 1, np.int32)
        self._header_names = _Binary(headers, header_bytes)
        self._header_values = _Binary(headers, header_bytes)

    @property
    def rows(self) -> int:
        return int(self._cursors[ROWS])

    def fill(
        self,
        payload: Buffer,
        *,
        count: int,
        base_offset: int,
        last_delta: int,
        base_timestamp: int,
        append_time: int,
        start: int,
        end: int,
    ) -> tuple[int, int]:
        """Adds one batch's records; returns a status (kernel.REASONS) and a record's index."""
        before = self.rows
        data = np.frombuffer(payload, np.uint8)
        data.flags.writeable = False  # one compiled version serves views of all buffers
        status, index = decoder()(
            data,
            count,
            base_offset,
            last_delta,
            base_timestamp,
            append_time,
            start,
            end,
            self._with_headers,
            self._cursors,
            self._offsets,
            self._timestamps,
            self._keys.ends,
            self._keys.valid,
            self._keys.data,
            self._values.ends,
            self._values.valid,
            self._values.data,
            self._header_ends,
            self._header_names.ends,
            self._header_names.data,
            self._header_values.ends,
            self._header_values.valid,
            self._header_values.data,
        )
        if append_time >= 0:
            self._append_time[before : self.rows] = True
        return status, index

    def arrays(self) -> "RecordArrays":
        rows = self.rows
        headers = None
        if self._with_headers:
            count = int(self._cursors[HEADERS])
            self._header_names.valid[:count] = True
            pairs = pa.StructArray.from_arrays(
                [
                    _text(self._header_names, count, int(self._cursors[HEADER_NAME_BYTES])),
                    self._header_values.array(count, pa.binary()),
                ],
                fields=list(HEADER),
            )
            headers = pa.ListArray.from_arrays(pa.array(self._header_ends[: rows + 1]), pairs)
        return RecordArrays(
            key=self._keys.array(rows, pa.binary()),
            value=self._values.array(rows, pa.binary()),
            offset=pa.array(self._offsets[:rows]),
            timestamp_ms=pa.array(self._timestamps[:rows]),
            timestamp_type=pa.array(self._append_time[:rows].astype(np.int32)),
            headers=headers,
            key_bytes=int(self._cursors[KEY_BYTES]),
            value_bytes=int(self._cursors[VALUE_BYTES] + self._cursors[HEADER_VALUE_BYTES]),
        )


class RecordArrays:
    """Records as Arrow arrays of one length."""

    __slots__ = (
        "damage",
        "headers",
        "key",
        "key_bytes",
        "offset",
        "timestamp_ms",
        "timestamp_type",
        "value",
        "value_bytes",
    )

    def __init__(
        self,
        *,
        key: pa.Array,
        value: pa.Array,
        offset: pa.Array,
        timestamp_ms: pa.Array,
        timestamp_type: pa.Array,
        headers: pa.Array | None,
        key_bytes: int,
        value_bytes: int,
        damage: pa.Array | None = None,
    ) -> None:
        self.key = key
        self.value = value
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.timestamp_type = timestamp_type
        """0 for CreateTime, 1 for LogAppendTime."""
        self.headers = headers
        """Lists of (key, value), or None if headers were not requested."""
        self.key_bytes = key_bytes
        self.value_bytes = value_bytes
        self.damage = damage
        """The reason, for rows that represent a whole unreadable batch."""

    def __len__(self) -> int:
        return len(self.offset)


def _text(column: _Binary, rows: int, size_bytes: int) -> pa.Array:
    """Header names as strings; bytes that are not UTF-8 are replaced, as Java clients do."""
    raw = column.array(rows, pa.binary())
    try:
        column.data[:size_bytes].tobytes().decode()
        return raw.cast(pa.string())
    except (UnicodeDecodeError, pa.ArrowInvalid):
        return pa.array([bytes(name).decode("utf-8", "replace") for name in raw.to_pylist()])
