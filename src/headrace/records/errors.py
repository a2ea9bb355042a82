"""The errors of record bytes, as one family.

These are plain exceptions: the layer that answers clients maps each class to a Kafka error code.
Each docstring names the code that Apache Kafka 4 returns in that case.
"""


class RecordError(Exception):
    """Base of every error that reading, checking or building records raises."""


class CorruptBatch(RecordError):
    """The bytes are not a whole, intact record batch (Kafka: CORRUPT_MESSAGE)."""


class TruncatedBatch(CorruptBatch):
    """The buffer ends inside a batch.

    Kafka ignores such a tail in a fetched or stored buffer; a produce request that holds no whole
    batch gets INVALID_RECORD.
    """


class UnsupportedMagic(RecordError):
    """A message of format 0 or 1, which Kafka 4 no longer accepts (Kafka: INVALID_RECORD).

    Any other unknown magic is a `CorruptBatch`: no version of Kafka uses it.
    """

    def __init__(self, magic: int) -> None:
        super().__init__(
            f"message format {magic} is not supported: only batches with magic 2 are accepted"
        )
        self.magic = magic


class UnsupportedCodec(RecordError):
    """The attributes name an unknown codec.

    Kafka returns UNKNOWN_SERVER_ERROR; UNSUPPORTED_COMPRESSION_TYPE is more precise.
    """

    def __init__(self, codec_id: int) -> None:
        super().__init__(f"compression codec {codec_id} is unknown")
        self.codec_id = codec_id


class CorruptCompression(RecordError):
    """The compressed bytes are invalid, although the CRC may be right.

    Kafka returns UNKNOWN_SERVER_ERROR; INVALID_RECORD is more precise. Not a `CorruptBatch`:
    CORRUPT_MESSAGE is retriable, and a producer would send the same bytes again and again.
    """


class DecompressedTooLarge(RecordError):
    """The decompressed size exceeds the limit: a bomb, or a batch that is too large.

    Kafka has no limit. MESSAGE_TOO_LARGE fits: it is final for one record, and a Java producer
    splits a batch of several.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"records decompress to more than {max_bytes} bytes")
        self.max_bytes = max_bytes


class InvalidBatch(RecordError):
    """The header and the records of a batch do not match (Kafka: INVALID_RECORD)."""


class MalformedRecord(RecordError):
    """One record inside a batch breaks the format or a rule (Kafka: INVALID_RECORD)."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"record {index}: {reason}")
        self.index = index
        self.reason = reason
