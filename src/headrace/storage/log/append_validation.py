"""Validation of batches before an append. Pure.

The header is nearly always enough. Records are read only if a rule needs them: null keys in a
compacted topic, timestamps out of bounds, a codec that the topic changes.
"""

from headrace.records.batch_header import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    TimestampType,
    check_batch,
    crc_of,
    read_header,
    stamp_log_append_time,
    stamp_max_timestamp,
    unpack_header,
)
from headrace.records.buffer import WritableBuffer
from headrace.records.codec import MAX_DECOMPRESSED_BYTES, Codec
from headrace.records.errors import (
    CorruptBatch,
    DecompressedTooLarge,
    RecordError,
    TruncatedBatch,
    UnsupportedCodec,
)
from headrace.records.errors import MalformedRecord as InvalidRecordBytes
from headrace.records.record import recompress
from headrace.records.record_validation import (
    RECORDS_PER_SLICE,
    Inspection,
    IssueKind,
    Rules,
    inspect,
)
from headrace.storage.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordFault,
    RecordListTooLarge,
    StorageError,
    UnexpectedOffset,
    UnsupportedCompression,
)
from headrace.storage.state.log_config import (
    COMPACT,
    LOG_APPEND_TIME,
    MAX_LONG,
    PRODUCER,
    LogConfig,
)
from headrace.storage.state.producers import BatchOrigin

TIME_ENTRY_BYTES = 12

# Reading an attribute of an enum class takes ten times as long as reading a global.
REPLICATION = BatchOrigin.REPLICATION
CLIENT = BatchOrigin.CLIENT
LAST_CODEC = Codec.ZSTD
UNUSUAL_FLAGS = CONTROL_FLAG | TIMESTAMP_TYPE_FLAG

Batches = list[tuple[int, BatchHeader]]

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class AppendRules:
    """The part of a topic's configuration that each append needs."""

    __slots__ = (
        "after_max_ms",
        "before_max_ms",
        "codec",
        "flush_messages",
        "index_interval_bytes",
        "inspects_records",
        "log_append_time",
        "max_batch_bytes",
        "max_index_entries",
        "max_plain_bytes",
        "max_unvalidated_bytes",
        "needs_key",
        "segment_bytes",
    )

    def __init__(self, config: LogConfig) -> None:
        self.max_batch_bytes = config.max_message_bytes
        self.segment_bytes = config.segment_bytes
        self.index_interval_bytes = config.index_interval_bytes
        # Time index entries are larger than offset index entries, and a roll adds one more.
        self.max_index_entries = max(1, config.segment_index_bytes // TIME_ENTRY_BYTES - 1)
        self.flush_messages = config.flush_messages
        self.log_append_time = config.message_timestamp_type == LOG_APPEND_TIME
        self.before_max_ms = config.message_timestamp_before_max_ms
        self.after_max_ms = config.message_timestamp_after_max_ms
        self.needs_key = COMPACT in config.cleanup_policy
        compression = config.compression_type
        self.codec = None if compression == PRODUCER else _CODECS[compression]
        bounded_below = not self.log_append_time and self.before_max_ms != MAX_LONG
        self.inspects_records = self.needs_key or bounded_below
        plain = not (self.inspects_records or self.log_append_time or self.codec is not None)
        unchanged = not self.log_append_time and self.codec in (None, Codec.NONE)
        self.max_unvalidated_bytes = (
            min(self.max_batch_bytes, self.segment_bytes) if unchanged else 0
        )
        # A topic whose rules need the records has no plain batches.
        self.max_plain_bytes = min(self.max_batch_bytes, self.segment_bytes) if plain else 0


def plain_batch(buf: WritableBuffer, rules: AppendRules, now_ms: int) -> BatchHeader | None:
    """The header, if this is one client batch that passes every check of `validate` unchanged.

    None means that `validate` must decide: it finds the error, or reads the records.
    """
    size = len(buf)
    if not HEADER_SIZE <= size <= rules.max_plain_bytes:
        return None
    header = unpack_header(buf)
    attributes = header.attributes
    if (
        header.magic == MAGIC
        and header.batch_length + LOG_OVERHEAD == size
        and header.base_offset == 0
        and header.last_offset_delta == header.record_count - 1 >= 0
        and not attributes & UNUSUAL_FLAGS
        and attributes & CODEC_MASK <= LAST_CODEC
        and header.max_timestamp - now_ms <= rules.after_max_ms
        and (header.producer_id < 0 or (header.base_sequence >= 0 <= header.producer_epoch))
        and crc_of(buf, 0, size) == header.crc
    ):
        return header
    return None


class NeedsRecordValidation(Exception):
    """The records of a batch must be validated, and there are too many for one slice.

    Not an error: the caller runs `inspect_in_slices` with `rules`, and appends again with the
    outcome.
    """

    def __init__(self, rules: Rules) -> None:
        super().__init__("the records of a batch must be validated in slices")
        self.rules = rules


def validate(
    buf: WritableBuffer,
    rules: AppendRules,
    origin: BatchOrigin,
    now_ms: int,
    next_offset: int,
    inspection: Inspection | None = None,
) -> tuple[WritableBuffer, Batches]:
    """The batches, ready to be stamped; the topic's codec or LogAppendTime may change the bytes.

    `inspection` is the outcome after a `NeedsRecordValidation`, for the one batch in `buf`.
    """
    try:
        if origin is REPLICATION:
            return buf, _validate_replicated(buf, next_offset)
        return _validate_produced(buf, rules, origin, now_ms, inspection)
    except RecordError as error:
        raise storage_error(error) from error


def _validate_produced(
    buf: WritableBuffer,
    rules: AppendRules,
    origin: BatchOrigin,
    now_ms: int,
    inspection: Inspection | None,
) -> tuple[WritableBuffer, Batches]:
    batches: Batches = []
    pos, end = 0, len(buf)
    if end > rules.segment_bytes:
        raise RecordListTooLarge(
            f"{end} bytes in one append exceed segment.bytes ({rules.segment_bytes})"
        )
    while pos < end or not batches:
        header = read_header(buf, pos)
        size = header.batch_length + LOG_OVERHEAD
        check_size(size, rules)
        check_batch(buf, pos, header)
        _check_header(header, origin)
        if not header.attributes & CONTROL_FLAG:
            if origin is CLIENT:  # a coordinator writes valid records
                header = _check_records(buf, pos, header, rules, now_ms, inspection)
            if rules.codec is not None and header.attributes & CODEC_MASK != rules.codec:
                batch = memoryview(buf)[pos : pos + size]
                changed = recompress(batch, rules.codec, max_bytes=MAX_DECOMPRESSED_BYTES)
                buf = bytearray(b"".join((buf[:pos], changed, buf[pos + size :])))
                header = read_header(buf, pos)
                size, end = header.size, len(buf)
        if rules.log_append_time:
            header = stamp_log_append_time(buf, pos, header, now_ms)
        batches.append((pos, header))
        pos += size
    return buf, batches


def check_size(size: int, rules: AppendRules) -> None:
    """Raises if a batch of `size` bytes is larger than the topic allows."""
    if size > rules.max_batch_bytes:
        raise MessageTooLarge(
            f"batch of {size} bytes exceeds the topic's max.message.bytes ({rules.max_batch_bytes})"
        )
    if size > rules.segment_bytes:
        raise RecordListTooLarge(
            f"{size} bytes in one append exceed segment.bytes ({rules.segment_bytes})"
        )


def _check_header(header: BatchHeader, origin: BatchOrigin) -> None:
    count = header.record_count
    if count <= 0 or header.last_offset_delta != count - 1:
        raise InvalidRecord(
            f"batch has {count} records but last offset delta {header.last_offset_delta}"
        )
    attributes = header.attributes
    if attributes & CODEC_MASK > LAST_CODEC:
        raise UnsupportedCodec(attributes & CODEC_MASK)
    if origin is not CLIENT:
        return
    if header.base_offset != 0:
        raise InvalidRecord(f"the base offset of a new batch must be 0, not {header.base_offset}")
    if attributes & CONTROL_FLAG:
        raise InvalidRecord("clients may not write control records")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecord(
            f"batch of producer {header.producer_id} has sequence {header.base_sequence} "
            f"and epoch {header.producer_epoch}"
        )


def _check_records(
    buf: WritableBuffer,
    pos: int,
    header: BatchHeader,
    rules: AppendRules,
    now_ms: int,
    inspection: Inspection | None,
) -> BatchHeader:
    """Checks each record against the topic's rules, if the header is not enough.

    Corrects a header whose largest timestamp differs from its records'.
    """
    attributes = header.attributes
    if attributes & TIMESTAMP_TYPE_FLAG and not rules.log_append_time:
        reason = "producers may not set the timestamp type to LogAppendTime"
        raise InvalidTimestamp(reason, [RecordFault(0, reason)])
    too_new = not rules.log_append_time and header.max_timestamp - now_ms > rules.after_max_ms
    codec_changes = rules.codec is not None and attributes & CODEC_MASK != rules.codec
    if rules.inspects_records or too_new or codec_changes:
        if inspection is None:
            asked = _record_rules(rules, now_ms)
            if header.record_count > RECORDS_PER_SLICE:
                raise NeedsRecordValidation(asked)
            inspection = inspect(memoryview(buf)[pos : pos + header.size], asked)
        _check_inspection(inspection)
        if inspection.max_timestamp != header.max_timestamp and not rules.log_append_time:
            header = stamp_max_timestamp(buf, pos, header, inspection.max_timestamp)
    return header


def _record_rules(rules: AppendRules, now_ms: int) -> Rules:
    by_leader = rules.log_append_time
    return Rules(
        max_bytes=MAX_DECOMPRESSED_BYTES,
        now_ms=now_ms,
        needs_key=rules.needs_key,
        timestamp_type=(TimestampType.LOG_APPEND_TIME if by_leader else TimestampType.CREATE_TIME),
        timestamp_before_max_ms=rules.before_max_ms,
        timestamp_after_max_ms=rules.after_max_ms,
    )


def _check_inspection(found: Inspection) -> None:
    """Raises an error that lists all invalid records."""
    faults = [RecordFault(issue.index, issue.reason) for issue in found.issues]
    if any(issue.kind is IssueKind.INVALID_TIMESTAMP for issue in found.issues):
        raise InvalidTimestamp("a record's timestamp is outside of the topic's range", faults)
    if faults:
        raise InvalidRecord("a record breaks the topic's rules", faults)


def _validate_replicated(buf: WritableBuffer, next_offset: int) -> Batches:
    """Batches from the leader keep their offsets, and must continue the log."""
    batches: Batches = []
    pos, end = 0, len(buf)
    while pos < end:
        header = read_header(buf, pos)
        check_batch(buf, pos, header)
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise UnexpectedOffset(
                f"a replicated batch begins at {header.base_offset}, the log ends at {next_offset}"
            )
        batches.append((pos, header))
        next_offset = header.next_offset
        pos += header.size
    if not batches:
        raise InvalidRecord("the append has no batch")
    return batches


def storage_error(error: RecordError) -> StorageError:
    """The storage error for a batch that cannot be read."""
    if isinstance(error, UnsupportedCodec):
        return UnsupportedCompression(str(error))
    if isinstance(error, InvalidRecordBytes):
        return InvalidRecord(str(error), [RecordFault(error.index, error.reason)])
    if isinstance(error, TruncatedBatch):
        return InvalidRecord(str(error))
    if isinstance(error, CorruptBatch | DecompressedTooLarge):
        return CorruptMessage(str(error))
    return InvalidRecord(str(error))
