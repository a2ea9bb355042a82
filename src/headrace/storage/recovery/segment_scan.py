"""Scans a segment whose bytes may be damaged.

Every length, offset and checksum is checked before it is used; the first damaged batch ends the
scan with `BadBatch` and its position. Memory is bounded even if a damaged header has a very large
length.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

from headrace.records.batch_header import ATTRIBUTES_AT, HEADER_SIZE, BatchHeader, read_header
from headrace.records.buffer import Buffer
from headrace.records.checksum import crc32c
from headrace.records.control import MAX_CONTROL_BYTES, ControlType, read_control
from headrace.records.errors import RecordError
from headrace.records.record import iter_records
from headrace.storage.files.filesystem import FileSystem, read_exactly
from headrace.storage.segment.batch_check import BadBatch
from headrace.storage.segment.segment import Segment
from headrace.storage.state.producers import Marker

SCAN_BYTES = 1 << 20

_crc32c_from = cast("Callable[[Buffer, int], int]", crc32c)


class Scanned(NamedTuple):
    """An intact batch, and its marker if it ends a transaction."""

    position: int
    header: BatchHeader
    marker: Marker | None


def scan(fs: FileSystem, segment: Segment, limit: int) -> Iterator[Scanned]:
    """Every batch of the segment; all offsets must be below `limit`."""
    next_offset = segment.base_offset
    fd = segment.file.acquire()
    position, size = 0, segment.size
    start, chunk = 0, b""
    while position < size:
        if start + len(chunk) - position < HEADER_SIZE:
            start, chunk = position, read_exactly(fs, fd, SCAN_BYTES, position)
        header = _read_checked_header(chunk, position - start, position, size)
        if not next_offset <= header.base_offset <= header.last_offset < limit:
            raise BadBatch(
                position, f"offset {header.base_offset} is not in [{next_offset}, {limit})"
            )
        batch_size = header.size
        if start + len(chunk) - position < batch_size <= SCAN_BYTES:
            start, chunk = position, read_exactly(fs, fd, SCAN_BYTES, position)
        at = position - start
        if batch_size <= SCAN_BYTES:
            computed = crc32c(memoryview(chunk)[at + ATTRIBUTES_AT : at + batch_size])
        else:
            computed = _crc_of_large(fs, fd, position, batch_size)
        if computed != header.crc:
            raise BadBatch(position, "the checksum is wrong")
        marker = None
        if header.is_control:
            marker = _read_checked_marker(chunk[at : at + batch_size], position)
        yield Scanned(position, header, marker)
        next_offset = header.next_offset
        position += batch_size


def _read_checked_header(chunk: bytes, at: int, position: int, size: int) -> BatchHeader:
    try:
        header = read_header(chunk, at)
    except RecordError as error:
        raise BadBatch(position, str(error)) from None
    if header.size > size - position:
        raise BadBatch(position, f"{header.size} bytes announced, {size - position} remain")
    return header


def _crc_of_large(fs: FileSystem, fd: int, position: int, size: int) -> int:
    crc, end = 0, position + size
    position += ATTRIBUTES_AT
    while position < end:
        piece = read_exactly(fs, fd, min(SCAN_BYTES, end - position), position)
        if not piece:
            return -1
        crc = _crc32c_from(piece, crc)
        position += len(piece)
    return crc


def _read_checked_marker(batch: bytes, position: int) -> Marker | None:
    try:
        return read_marker(batch)
    except RecordError as error:
        raise BadBatch(position, str(error)) from None


def read_marker(batch: Buffer) -> Marker | None:
    """The transaction marker in a control batch; None for another type of control record."""
    for record in iter_records(batch, max_bytes=MAX_CONTROL_BYTES):
        control = read_control(record)
        if control.type in (ControlType.ABORT, ControlType.COMMIT):
            return Marker(
                control.type is ControlType.COMMIT, control.coordinator_epoch, record.timestamp
            )
    return None
