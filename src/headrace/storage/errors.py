"""The errors of the storage layer: one family, each class with its Kafka error code.

Invalid bytes from a client leave the log unchanged. Disk errors say whether a retry can help
(`DiskFull`) or whether the directory is offline until an operator acts (`LogDirFailed`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headrace.protocol.errors import ErrorCode


class StorageError(Exception):
    """Base of all errors that storage raises deliberately."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class OffsetOutOfRange(StorageError):
    """The offset is below the log's start or past its end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, name: str, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} of {name} is outside [{start}, {end}]")
        self.offset = offset


class CorruptMessage(StorageError):
    """A batch's checksum or structure is wrong."""

    code = ErrorCode.CORRUPT_MESSAGE


class MessageTooLarge(StorageError):
    """A batch is larger than the topic's max.message.bytes."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class RecordListTooLarge(StorageError):
    """The batches of one append do not fit into a segment."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


@dataclass(frozen=True, slots=True)
class RecordFault:
    """One record that the broker refuses, by its index in the batch."""

    index: int
    reason: str


class RecordsRefused(StorageError):
    """A batch is refused because of the records in `record_errors`."""

    def __init__(self, message: str, record_errors: Sequence[RecordFault] = ()) -> None:
        super().__init__(message)
        self.record_errors = tuple(record_errors)


class InvalidRecord(RecordsRefused):
    """A batch or some of its records break a rule; the whole batch is refused."""

    code = ErrorCode.INVALID_RECORD


class InvalidTimestamp(RecordsRefused):
    """A record's timestamp is outside of the range that the topic accepts."""

    code = ErrorCode.INVALID_TIMESTAMP


class UnsupportedCompression(StorageError):
    """The batch has an unknown codec."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class OutOfOrderSequence(StorageError):
    """The producer's sequence leaves a gap (`is_ahead`), or goes back further than the log
    remembers."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def __init__(self, message: str, producer_id: int, *, is_ahead: bool) -> None:
        super().__init__(message)
        self.producer_id = producer_id
        self.is_ahead = is_ahead


class InvalidProducerEpoch(StorageError):
    """A newer incarnation of the producer has written to the log."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnState(StorageError):
    """A write outside a transaction while the producer has one open."""

    code = ErrorCode.INVALID_TXN_STATE


class CoordinatorFenced(StorageError):
    """A transaction marker from a coordinator that has been replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class UnexpectedOffset(StorageError):
    """A replicated batch does not continue the log."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class DiskError(StorageError):
    """An operation on the disk failed; nothing was appended."""

    code = ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def is_transient(self) -> bool:
        """Whether a retry may succeed without an operator: disk full, too many open files."""
        return type(self) in (DiskError, DiskFull)


class DiskFull(DiskError):
    """The disk is full: the log is unchanged, and works again when space is free."""

    def __init__(self, reason: str, directory: str | None = None) -> None:
        super().__init__(reason)
        self.directory = directory


class LogDirFailed(DiskError):
    """The log directory is offline: reads and writes are refused until the broker restarts."""


class LogCorrupt(DiskError):
    """Records that were safe on disk are damaged or missing; this log is offline."""


class RecordsDamaged(DiskError):
    """Some records of a log are damaged or missing; only the other records are served."""

    code = ErrorCode.CORRUPT_MESSAGE


class CorruptIndex(DiskError):
    """An index file is too short; opening the log again rebuilds it."""


class LogDirLocked(DiskError):
    """Another broker uses the directory."""


class InconsistentLogDir(DiskError):
    """The directory belongs to another node or cluster."""


class StaleMetadata(DiskError):
    """The directory knows a later metadata version than the cluster has now."""


class InconsistentTopicId(StorageError):
    """The directory holds another topic of the same name."""

    code = ErrorCode.INCONSISTENT_TOPIC_ID


class LogClosed(StorageError):
    """The log was closed or deleted."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
