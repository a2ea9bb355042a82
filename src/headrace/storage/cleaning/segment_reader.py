"""Reading the segments that are to be cleaned: every batch is checked, and memory is bounded.

The cleaner's output replaces its input, so a damaged batch must be detected here.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from headrace.records.batch_header import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    read_header,
)
from headrace.records.checksum import crc32c
from headrace.records.codec import MAX_DECOMPRESSED_BYTES, Codec, decompress
from headrace.records.errors import RecordError
from headrace.storage.files.filesystem import FileSystem, read_exactly

Pace: TypeAlias = Callable[[int], None]
"""Called with the number of bytes after each read or write; may wait."""


class Uncleanable(Exception):
    """The log cannot be rewritten without loss: it is not changed."""


class DamagedSource(Uncleanable):
    """A segment is damaged at `first_offset`."""

    first_offset = -1


def batches(
    fs: FileSystem,
    path: str,
    size: int,
    next_offset: int,
    limit: int,
    *,
    read_bytes: int,
    pace: Pace,
) -> Iterator[tuple[bytes, int, BatchHeader]]:
    """Each batch in the file's first `size` bytes: a buffer, the position in it, and the header.

    Offsets must be in [next_offset, limit).
    """
    fd = fs.open(path)
    try:
        position, wanted = 0, read_bytes
        while position < size:
            chunk = read_exactly(fs, fd, min(wanted, size - position), position)
            pace(len(chunk))
            at = 0
            for at, header in _whole_batches(chunk, path, position):
                base_offset = header.base_offset
                if not next_offset <= base_offset <= header.last_offset < limit:
                    reason = f"offset {base_offset} is not in [{next_offset}, {limit})"
                    raise _damage_error(path, position + at, reason)
                next_offset = header.next_offset
                yield chunk, at, header
                at += header.size
            wanted = read_bytes if at else _size_of_large_batch(chunk, path, position, size)
            position += at
    except DamagedSource as damaged:
        damaged.first_offset = next_offset
        raise
    finally:
        fs.close(fd)


def _whole_batches(chunk: bytes, path: str, position: int) -> Iterator[tuple[int, BatchHeader]]:
    view = memoryview(chunk)
    at, end = 0, len(chunk)
    while end - at >= HEADER_SIZE:
        try:
            header = read_header(chunk, at)
        except RecordError as error:
            raise _damage_error(path, position + at, str(error)) from None
        after = at + header.batch_length + LOG_OVERHEAD
        if after > end:
            return
        if crc32c(view[at + ATTRIBUTES_AT : after]) != header.crc:
            raise _damage_error(path, position + at, "the checksum is wrong")
        yield at, header
        at = after


def _size_of_large_batch(chunk: bytes, path: str, position: int, size: int) -> int:
    """The size of the batch that did not fit into the buffer."""
    if len(chunk) < HEADER_SIZE:
        raise _damage_error(path, position, "the file ends inside a batch")
    needed = read_header(chunk).size
    if needed > size - position or needed <= len(chunk):
        raise _damage_error(
            path, position, f"the batch has {needed} bytes, but {size - position} remain"
        )
    return needed


def payload_of(
    chunk: bytes, at: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> tuple[bytes, int, int]:
    """The buffer that holds the records, and their start and end in it."""
    start, end = at + HEADER_SIZE, at + header.size
    if not header.attributes & CODEC_MASK:
        return chunk, start, end
    try:
        codec: Codec = header.codec
        data = bytes(decompress(codec, memoryview(chunk)[start:end], max_bytes=max_bytes))
    except RecordError as error:
        raise Uncleanable(f"the batch at offset {header.base_offset}: {error}") from None
    return data, 0, len(data)


def _damage_error(path: str, position: int, reason: str) -> DamagedSource:
    return DamagedSource(f"{path} is damaged at byte {position}: {reason}")
