"""The header of a record batch (message format 2), read and stamped in place.

A broker moves batches, not records: everything it needs is in the first 61 bytes. The functions
here read them with one `struct` call, never copy the payload, and check each length against the
buffer before it is used.

The CRC covers the bytes from the attributes to the end, but not base offset, length, leader epoch
and magic: so the leader can stamp these without a new checksum.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from headrace.records.buffer import Buffer, WritableBuffer
from headrace.records.checksum import crc32c
from headrace.records.codec import Codec
from headrace.records.errors import (
    CorruptBatch,
    TruncatedBatch,
    UnsupportedCodec,
    UnsupportedMagic,
)

MAGIC = 2
HEADER_SIZE = 61
# Base offset and length, which `batch_length` does not include.
LOG_OVERHEAD = 12

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

CODEC_MASK = 0x07
TIMESTAMP_TYPE_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

SEQUENCE_MASK = 0x7FFFFFFF

_HEADER = Struct(">qiibIhiqqqhii")
_MAGIC_AT = 16
_CRC_AT = 17
ATTRIBUTES_AT = 21  # from here on the CRC covers the batch
_MAX_TIMESTAMP_AT = 35
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_LEADER_EPOCH_AT = 12
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")

assert _HEADER.size == HEADER_SIZE


class TimestampType(IntEnum):
    """The source of the timestamps: the producer, or the leader on append."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before a batch's records, in wire order."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes, with its header."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """The codec of the payload; raises `UnsupportedCodec` for an unknown id."""
        codec_id = self.attributes & CODEC_MASK
        if codec_id > Codec.ZSTD:
            raise UnsupportedCodec(codec_id)
        return Codec(codec_id)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & TIMESTAMP_TYPE_FLAG:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        """Set by the cleaner; `base_timestamp` then holds the delete horizon (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON_FLAG)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header at `pos`; the payload is not checked (see `check_batch`)."""
    if len(buf) - pos < HEADER_SIZE or buf[pos + _MAGIC_AT] != MAGIC:
        raise _no_header(buf, pos)
    header = BatchHeader._make(_HEADER.unpack_from(buf, pos))
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptBatch(
            f"batch at byte {pos} has length {header.batch_length}, less than its own header"
        )
    return header


def unpack_header(buf: Buffer) -> BatchHeader:
    """The first 61 bytes as a header, unchecked; the caller checks every field."""
    return BatchHeader._make(_HEADER.unpack_from(buf))


def _no_header(buf: Buffer, pos: int) -> UnsupportedMagic | CorruptBatch:
    """The error for bytes at `pos` that are not a header of format 2.

    The magic is checked before the size: a message of format 0 may be shorter than this header.
    """
    if len(buf) - pos <= _MAGIC_AT:
        return TruncatedBatch(f"{len(buf) - pos} bytes at {pos} are too few for a batch header")
    magic = buf[pos + _MAGIC_AT]
    if magic in (0, 1):
        return UnsupportedMagic(magic)
    if magic != MAGIC:
        return CorruptBatch(f"batch at byte {pos} has magic {magic}")
    return TruncatedBatch(f"{len(buf) - pos} bytes at {pos} are too few for a batch header")


def headers(buf: Buffer, *, partial_tail: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch's position and header, front to back.

    If the buffer ends inside a batch, it raises `TruncatedBatch`; with `partial_tail` it stops
    there, because the result of a fetch or of a read may end inside a batch.
    """
    pos, end = 0, len(buf)
    while pos < end:
        try:
            header = read_header(buf, pos)
            size = header.batch_length + LOG_OVERHEAD
            if size > end - pos:
                raise TruncatedBatch(
                    f"batch at byte {pos} announces {size} bytes, {end - pos} remain"
                )
        except TruncatedBatch:
            if partial_tail:
                return
            raise
        yield pos, header
        pos += size


def whole_size(buf: Buffer) -> int:
    """The size of the whole batches at the beginning; a fetch may end inside one."""
    size = len(buf)
    pos = 0
    while pos + LOG_OVERHEAD <= size:
        end = pos + LOG_OVERHEAD + int.from_bytes(buf[pos + 8 : pos + LOG_OVERHEAD], "big")
        if end > size:
            break
        pos = end
    return pos


def crc_of(buf: Buffer, pos: int, size: int) -> int:
    """The CRC-32C of the batch of `size` bytes at `pos`."""
    return crc32c(memoryview(buf)[pos + ATTRIBUTES_AT : pos + size])


def check_batch(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Raises unless the whole batch is in `buf` and its CRC is right."""
    if header.magic != MAGIC:
        raise UnsupportedMagic(header.magic)
    size = header.batch_length + LOG_OVERHEAD
    if size < HEADER_SIZE:
        raise CorruptBatch(f"batch at byte {pos} is smaller than its own header: {size} bytes")
    if size > len(buf) - pos:
        raise TruncatedBatch(f"batch at byte {pos} announces {size} bytes, {len(buf) - pos} remain")
    computed = crc_of(buf, pos, size)
    if computed != header.crc:
        raise CorruptBatch(
            f"batch at byte {pos}: stored crc {header.crc:#010x}, computed {computed:#010x}"
        )


def stamp(buf: WritableBuffer, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Writes base offset and leader epoch in place; the CRC does not cover them."""
    _BASE_OFFSET.pack_into(buf, pos, base_offset)
    _LEADER_EPOCH.pack_into(buf, pos + _LEADER_EPOCH_AT, leader_epoch)


def stamp_log_append_time(
    buf: WritableBuffer, pos: int, header: BatchHeader, now_ms: int
) -> BatchHeader:
    """Sets the batch's timestamps to the leader's `now_ms`, in place, and updates the CRC.

    Only the header changes: with LogAppendTime, `max_timestamp` is the timestamp of every record.
    Returns the new header.
    """
    return _restamp(buf, pos, header, header.attributes | TIMESTAMP_TYPE_FLAG, now_ms)


def stamp_max_timestamp(
    buf: WritableBuffer, pos: int, header: BatchHeader, max_timestamp: int
) -> BatchHeader:
    """Corrects a header whose `max_timestamp` differs from its records'."""
    return _restamp(buf, pos, header, header.attributes, max_timestamp)


def _restamp(
    buf: WritableBuffer, pos: int, header: BatchHeader, attributes: int, max_timestamp: int
) -> BatchHeader:
    _ATTRIBUTES.pack_into(buf, pos + ATTRIBUTES_AT, attributes)
    _MAX_TIMESTAMP.pack_into(buf, pos + _MAX_TIMESTAMP_AT, max_timestamp)
    crc = crc_of(buf, pos, header.size)
    _CRC.pack_into(buf, pos + _CRC_AT, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)


def pack_header(buf: WritableBuffer, pos: int, header: BatchHeader) -> None:
    """Writes all 61 bytes of `header` at `pos`."""
    _HEADER.pack_into(buf, pos, *header)
