"""Checks of the records in one partition of a Produce request. Pure."""

import struct

from headrace.protocol.errors import ErrorCode
from headrace.records.batch_header import (
    CODEC_MASK,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    read_header,
)
from headrace.records.codec import Codec
from headrace.records.errors import RecordError, UnsupportedMagic

FIRST_VERSION_WITH_ZSTD = 7
# Reading an attribute of an enum class costs ten times as much as reading a global, and this is
# read for every request.
ZSTD = Codec.ZSTD
_QUICK_CHECK = struct.Struct(">8xi4xB4xH")  # length, magic and attributes of a batch


def check_batch(
    version: int, records: memoryview, *, transactional: bool
) -> tuple[ErrorCode, str] | None:
    """Kafka's rule: exactly one batch of magic 2. Returns the error, or None for a valid batch."""
    length, magic, attributes = _QUICK_CHECK.unpack_from(records)
    if (
        magic == MAGIC
        and length + LOG_OVERHEAD == len(records)
        and (transactional or not attributes & TRANSACTIONAL_FLAG)
        and (version >= FIRST_VERSION_WITH_ZSTD or attributes & CODEC_MASK != ZSTD)
    ):
        return None  # the common case; the code below finds the error message
    try:
        header = read_header(records)
    except UnsupportedMagic as error:
        return ErrorCode.INVALID_RECORD, str(error)
    except RecordError as error:
        return ErrorCode.CORRUPT_MESSAGE, str(error)
    if version < FIRST_VERSION_WITH_ZSTD and header.codec is Codec.ZSTD:
        return (
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce v{version} does not support zstd: use v{FIRST_VERSION_WITH_ZSTD} or later",
        )
    if header.size < len(records):
        return (
            ErrorCode.INVALID_RECORD,
            f"Produce v{version} must have exactly one record batch per partition",
        )
    if header.is_transactional and not transactional:
        return (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "transactional records need a request with a transactional id",
        )
    return None
