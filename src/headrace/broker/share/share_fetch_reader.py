"""Reads partitions for one share fetch and acquires the available records.

Guarantees: no record at or past the reader's bound (high watermark, or last stable offset under
`share.isolation.level=read_committed`) is returned. Only acquired batches are sent. An error of one
partition does not affect the others.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.broker.share.share_partition_runner import AcknowledgeOutcome, SharePartitionRunner
from headrace.protocol.errors import ErrorCode
from headrace.share.batch_size import BatchLimit
from headrace.share.fetched_batches import (
    AbortedTransaction,
    FetchedBatch,
    aborted_ranges,
    offset_ranges,
    slice_acquired,
    whole_batches,
)
from headrace.share.record_state import Acquired
from headrace.share.share_partition import SharePartition
from headrace.share.share_session import SharedPartition
from headrace.storage.errors import StorageError

MayRead = Callable[[str], bool]
"""Whether the member may read this topic now."""


@dataclass(frozen=True, slots=True)
class ShareFetchLimits:
    """The limits and partitions of one request."""

    member: str
    take: BatchLimit
    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    read_committed: bool
    may_read: MayRead | None = None  # set if there is an authorizer


@dataclass(slots=True)
class SharedRecords:
    """The records that a member gets from one partition."""

    records: memoryview
    acquired: list[Acquired]


@dataclass(slots=True)
class ShareRead:
    """One pass over the wanted partitions."""

    found: dict[SharedPartition, SharedRecords] = field(default_factory=dict)
    failed: dict[SharedPartition, AcknowledgeOutcome] = field(default_factory=dict)


@dataclass(slots=True)
class _ReadablePartition:
    """A partition with available records, and the records that its log has there."""

    partition: SharedPartition
    live: SharePartitionRunner
    window: SharePartition
    offset: int
    bound: int
    records: memoryview = field(default_factory=lambda: memoryview(b""))


def read_shares(
    lives: dict[SharedPartition, SharePartitionRunner], want: ShareFetchLimits, *, force: bool
) -> ShareRead | None:
    """Acquires and reads; None if there are too few records to answer, unless `force`.

    An error is answered immediately.
    """
    while True:
        read = ShareRead()
        readable = [
            part for key, live in lives.items() if (part := _find_readable(key, live, want, read))
        ]
        size_bytes = _read_logs(readable, want, read)
        if not (force or read.failed or size_bytes >= max(1, want.min_bytes)):
            return None
        moved = _acquire(readable, want, read)
        if read.found or read.failed:
            return read
        if not moved:
            return read if force else None
        # Everything that was read belongs to aborted transactions, so read further.


def _find_readable(
    key: SharedPartition, live: SharePartitionRunner, want: ShareFetchLimits, read: ShareRead
) -> _ReadablePartition | None:
    # In every pass: the right may have been revoked while the fetch waited.
    if want.may_read is not None and not want.may_read(live.leader.topic):
        read.failed[key] = AcknowledgeOutcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return None
    if live.failure is not None:
        read.failed[key] = live.failure
        return None
    window = live.window
    if window is None:
        return None  # still loading
    leader = live.leader
    try:
        window.move_start(leader.log.log_start_offset)
        if not window.can_acquire():
            return None
        bound = leader.last_stable_offset if want.read_committed else leader.high_watermark
    except StorageError as error:
        read.failed[key] = AcknowledgeOutcome(error.code, str(error))
        return None
    offset = window.next_fetch_offset()
    return _ReadablePartition(key, live, window, offset, bound) if offset < bound else None


def _read_logs(readable: list[_ReadablePartition], want: ShareFetchLimits, read: ShareRead) -> int:
    """Reads an equal share of `max_bytes` from each log, so that every partition is served."""
    total = 0
    for part in readable:
        try:
            result = part.live.leader.log.read(
                part.offset,
                max_bytes=want.max_bytes // len(readable),
                max_offset=part.bound,
                min_one_message=total == 0,
            )
        except StorageError as error:
            read.failed[part.partition] = AcknowledgeOutcome(error.code, str(error))
            continue
        part.records = memoryview(result.data)
        total += len(part.records)
    return total


def _acquire(readable: list[_ReadablePartition], want: ShareFetchLimits, read: ShareRead) -> bool:
    """Acquires the records that were read; True if a window moved, even without new records."""
    left = want.take.max_records
    moved = False
    for part in readable:
        batches = whole_batches(part.records)
        if left <= 0 or not batches:
            continue
        acquired = part.window.acquire(
            want.member,
            part.offset,
            offset_ranges(batches),
            want.take._replace(max_records=left),
            part.live.now_ms(),
        )
        if want.read_committed and acquired:
            acquired = _without_aborted(part, want.member, batches, acquired)
        moved = moved or part.window.next_fetch_offset() != part.offset
        if acquired:
            part.live.arm()
            left -= sum(last - first + 1 for first, last, _ in acquired)
            records = slice_acquired(part.records, batches, acquired)
            read.found[part.partition] = SharedRecords(records, acquired)
    return moved


def _without_aborted(
    part: _ReadablePartition, member: str, batches: list[FetchedBatch], acquired: list[Acquired]
) -> list[Acquired]:
    aborted = [
        AbortedTransaction(entry.producer_id, entry.first_offset)
        for entry in part.live.leader.log.aborted_transactions(part.offset, part.bound)
    ]
    if not aborted:
        return acquired
    return part.window.archive_aborted(member, acquired, aborted_ranges(batches, aborted))
