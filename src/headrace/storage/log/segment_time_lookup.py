"""Finding a record by its timestamp in one segment: by the time index, then by the records."""

from typing import NamedTuple

from headrace.records.batch_header import BatchHeader
from headrace.records.codec import MAX_DECOMPRESSED_BYTES
from headrace.records.errors import RecordError
from headrace.records.record_outline import iter_outlines
from headrace.storage.errors import CorruptIndex
from headrace.storage.segment.segment import Segment


class TimestampedOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch that wrote it."""

    timestamp: int
    offset: int
    leader_epoch: int


def start_in(segment: Segment, timestamp: int) -> int:
    """An offset in the segment; all records before it are older than `timestamp`."""
    return segment.base_offset + _indexed_offset_before(segment, timestamp)


def first_in(
    segment: Segment, start: int, timestamp: int, log_start: int
) -> tuple[TimestampedOffset | None, int]:
    """The first record from `start` and `log_start` on whose timestamp is at least `timestamp`.

    Also the position up to which the segment was read. The batches up to there are not checked yet:
    the result holds only if they are intact.
    """
    for position, header in segment.headers_from(segment.start_before(start)):
        if header.max_timestamp >= timestamp and header.last_offset >= log_start:
            found = _first_in_batch(segment, position, header, timestamp, log_start)
            if found is not None:
                return found, position + header.size
    return None, segment.size


def _indexed_offset_before(segment: Segment, timestamp: int) -> int:
    """The relative offset of the time index's entry at or before `timestamp`, 0 if it is wrong."""
    try:
        floor = segment.times.floor(timestamp)
    except (CorruptIndex, FileNotFoundError):
        return 0
    if floor is None or not segment.time_entry_matches(*floor):
        return 0
    return floor[1]


def _first_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, log_start: int
) -> TimestampedOffset | None:
    batch = segment.read(position, header.size)
    epoch = header.partition_leader_epoch
    try:
        for record in iter_outlines(
            batch, max_bytes=MAX_DECOMPRESSED_BYTES, max_records=header.record_count
        ):
            offset = header.base_offset + record.offset_delta
            if record.timestamp >= timestamp and offset >= log_start:
                return TimestampedOffset(record.timestamp, offset, epoch)
    except RecordError:
        # The log stores batches that cannot be read or that decompress to more than the limit.
        # The batch's first offset is never too late.
        first = max(header.base_offset, log_start)
        return TimestampedOffset(header.max_timestamp, first, epoch)
    return None
