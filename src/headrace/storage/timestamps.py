"""Finding records by time: the time index says where to begin, the records say which one it is."""

from typing import NamedTuple

from headrace.records.batch import BatchHeader
from headrace.records.errors import RecordError
from headrace.records.outline import iter_outlines
from headrace.storage.errors import CorruptIndex
from headrace.storage.segment import Segment
from headrace.storage.segments import Segments
from headrace.storage.validation import MAX_DECOMPRESSED_BYTES


class TimestampedOffset(NamedTuple):
    """A record's time and place, and the leader epoch that wrote it."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at(segments: Segments, timestamp: int, log_start: int) -> TimestampedOffset | None:
    """The first record from `log_start` on whose timestamp is at least `timestamp`."""
    for segment in segments.items[segments.slot_of(log_start) :]:
        if segment.size == 0 or segment.max_timestamp < timestamp:
            continue
        start = max(log_start, segment.base_offset + _time_before(segment, timestamp))
        for position, header in segment.headers_from(segment.start_before(start)):
            if header.max_timestamp >= timestamp and header.last_offset >= log_start:
                found = _in_batch(segment, position, header, timestamp, log_start)
                if found is not None:
                    return found
    return None


def _time_before(segment: Segment, timestamp: int) -> int:
    """The relative offset of the time index's entry at or before `timestamp`, if it is right."""
    try:
        floor = segment.times.floor(timestamp)
    except (CorruptIndex, FileNotFoundError):
        return 0
    if floor is None or not segment.is_time_of(*floor):
        return 0
    return floor[1]


def latest(segments: Segments, log_start: int) -> TimestampedOffset | None:
    """The first record with the largest timestamp from `log_start` on."""
    candidates = [each for each in segments.items[segments.slot_of(log_start) :] if each.size]
    newest = max((segment.max_timestamp for segment in candidates), default=-1)
    return first_at(segments, newest, log_start) if newest >= 0 else None


def _in_batch(
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
        # What a producer wrote is kept as it is, also if it cannot be read or unpacks to more
        # than we unpack. Its first offset is then as near as we get, and never too late.
        first = max(header.base_offset, log_start)
        return TimestampedOffset(header.max_timestamp, first, epoch)
    return None
