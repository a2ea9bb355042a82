"""What one partition of a Produce request may carry. Pure."""

import struct

from headrace.protocol.errors import ErrorCode
from headrace.records.batch import (
    CODEC_MASK,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    read_header,
)
from headrace.records.codec import Codec
from headrace.records.errors import RecordError, UnsupportedMagic

FIRST_VERSION_WITH_ZSTD = 7
# An attribute of an enum class costs ten times a global's look-up; this is read per request.
ZSTD = Codec.ZSTD
_GLANCE = struct.Struct(">8xi4xB4xH")  # of a batch: its length, magic and attributes


def check_batch(
    version: int, records: memoryview, *, transactional: bool
) -> tuple[ErrorCode, str] | None:
    """Kafka's rules for what one partition of a request may carry: exactly one batch, magic 2."""
    length, magic, attributes = _GLANCE.unpack_from(records)
    if (
        magic == MAGIC
        and length + LOG_OVERHEAD == len(records)
        and (transactional or not attributes & TRANSACTIONAL_FLAG)
        and (version >= FIRST_VERSION_WITH_ZSTD or attributes & CODEC_MASK != ZSTD)
    ):
        return None  # nearly always; the rest only finds the words
    try:
        header = read_header(records)
    except UnsupportedMagic as error:
        return ErrorCode.INVALID_RECORD, str(error)
    except RecordError as error:
        return ErrorCode.CORRUPT_MESSAGE, str(error)
    if version < FIRST_VERSION_WITH_ZSTD and header.codec is Codec.ZSTD:
        return (
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce v{version} does not allow zstd",
        )
    if header.size < len(records):
        return (
            ErrorCode.INVALID_RECORD,
            f"Produce v{version} may carry only one record batch for each partition",
        )
    if header.is_transactional and not transactional:
        return (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "transactional records in a request without a transactional id",
        )
    return None
