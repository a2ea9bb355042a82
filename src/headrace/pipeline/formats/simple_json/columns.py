"""The memory for a chunk's columns, and their conversion to an Arrow batch."""

from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from headrace.pipeline.formats.simple_json.kinds import (
    BOOLEAN,
    DATE,
    DECIMAL,
    FLOAT,
    INTEGER,
    LIST,
    MAP,
    STRING,
    STRUCT,
    Bytes,
    Ends,
    Numbers,
)
from headrace.pipeline.formats.simple_json.layout import Layout

FIRST_LIST_ITEMS: Final = 1024
FIRST_STRING_BYTES: Final = 16
"""The initial size for each value. It grows when needed."""
_NUMBER_BYTES: Final = 8
_NO_ENDS: Final = np.zeros(1, np.int32)
_NO_DATA: Final = np.zeros(0, np.uint8)


class JsonColumns:
    """The arrays of each node, and their addresses for the compiled reader."""

    def __init__(self, layout: Layout, rows: int) -> None:
        count = len(layout.nodes)
        self._layout = layout
        self.counts: Numbers = np.zeros(count, np.int64)
        self.room: Numbers = np.zeros(count, np.int64)
        self.room_bytes: Numbers = np.zeros(count, np.int64)
        self.valid_at: Numbers = np.zeros(count, np.int64)
        self.ends_at: Numbers = np.zeros(count, np.int64)
        self.data_at: Numbers = np.zeros(count, np.int64)
        self._valid: list[Bytes] = [_NO_DATA] * count
        self._ends: list[Ends] = [_NO_ENDS] * count
        self._data: list[Bytes] = [_NO_DATA] * count
        for at, node in enumerate(layout.nodes):
            self._make_room(at, min(rows, FIRST_LIST_ITEMS) if node.in_list else rows)

    def grow(self, at: int) -> None:
        """Doubles the room for a node and keeps its content."""
        node = self._layout.nodes[at]
        if node.in_list:
            self._make_room(at, 2 * max(FIRST_LIST_ITEMS, int(self.room[at])))
        if node.kind == STRING:
            self._make_bytes(at, 2 * max(FIRST_STRING_BYTES, int(self.room_bytes[at])))

    def _make_room(self, at: int, room: int) -> None:
        kind = self._layout.nodes[at].kind
        self._valid[at] = _larger(self._valid[at], room)
        self.valid_at[at] = self._valid[at].ctypes.data
        if kind in (STRING, LIST, MAP):
            self._ends[at] = _larger(self._ends[at], room + 1)
            self._ends[at][0] = 0
            self.ends_at[at] = self._ends[at].ctypes.data
        if kind == STRING:
            if not self.room_bytes[at]:
                self._make_bytes(at, FIRST_STRING_BYTES * room)
        elif kind not in (STRUCT, LIST, MAP):
            self._make_bytes(at, _NUMBER_BYTES * room)
        self.room[at] = room

    def _make_bytes(self, at: int, size_bytes: int) -> None:
        self._data[at] = _larger(self._data[at], size_bytes)
        self.data_at[at] = self._data[at].ctypes.data
        self.room_bytes[at] = size_bytes

    def batch(self) -> pa.RecordBatch:
        """The rows."""
        children = list(self._layout.children(0))
        names = [self._layout.nodes[at].name for at in children]
        return pa.RecordBatch.from_arrays([self._array(at) for at in children], names=names)

    def _array(self, at: int) -> pa.Array:
        node, count = self._layout.nodes[at], int(self.counts[at])
        valid = self._valid[at][:count]
        bitmap = None
        if not valid.all():
            bitmap = pa.py_buffer(np.packbits(valid.view(np.bool_), bitorder="little"))
        if node.kind == STRUCT:
            inner = [self._array(child) for child in self._layout.children(at)]
            return pa.Array.from_buffers(node.type, count, [bitmap], children=inner)
        if node.kind in (LIST, MAP):
            ends = pa.py_buffer(self._ends[at][: count + 1])
            inner = [self._array(child) for child in self._layout.children(at)]
            if node.kind == MAP:
                pairs = pa.StructArray.from_arrays(
                    inner, fields=[node.type.key_field, node.type.item_field]
                )
                inner = [pairs]
            return pa.Array.from_buffers(node.type, count, [bitmap, ends], children=inner)
        if node.kind == STRING:
            ends = pa.py_buffer(self._ends[at][: count + 1])
            data = pa.py_buffer(self._data[at][: int(self._ends[at][count])])
            return pa.Array.from_buffers(node.type, count, [bitmap, ends, data])
        numbers = self._data[at][: count * _NUMBER_BYTES].view(np.int64)
        return pa.Array.from_buffers(
            node.type, count, [bitmap, _buffer(node.kind, node.type, numbers)]
        )


def _buffer(kind: int, type_: pa.DataType, numbers: Numbers) -> pa.Buffer:
    """The values in Arrow's format. Here, each value has 64 bits."""
    if kind == BOOLEAN:
        return pa.py_buffer(np.packbits(numbers != 0, bitorder="little"))
    if kind == INTEGER:
        return pa.py_buffer(numbers.astype(type_.to_pandas_dtype(), copy=False))
    if kind == DATE:
        return pa.py_buffer(numbers.astype(np.int32))
    if kind == FLOAT:
        return pa.py_buffer(numbers.view(np.float64).astype(np.float32))
    if kind == DECIMAL:
        wide = np.empty((len(numbers), 2), np.int64)
        wide[:, 0] = numbers
        wide[:, 1] = numbers >> 63
        return pa.py_buffer(wide)
    return pa.py_buffer(numbers)


_Array = TypeVar("_Array", Bytes, Ends)


def _larger(array: _Array, size: int) -> _Array:
    made: _Array = np.empty(size, array.dtype)
    made[: len(array)] = array[:size]
    return made
