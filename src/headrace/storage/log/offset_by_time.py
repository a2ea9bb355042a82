"""Finding records of a log by their timestamp.

Guarantees: a result is correct. The batches that it depends on, skipped ones and the one that was
found, are checked in the same way as by a read. If damage makes the result uncertain, the lookup
raises `RecordsDamaged` instead.
"""

from headrace.storage.errors import LogCorrupt
from headrace.storage.log import segment_time_lookup
from headrace.storage.log.damage_detection import check_before, check_holes, damage_error
from headrace.storage.log.local_log import LocalLog
from headrace.storage.log.segment_time_lookup import TimestampedOffset
from headrace.storage.segment.batch_check import BadBatch
from headrace.storage.segment.segment import Segment


def offset_for_timestamp(local: LocalLog, timestamp: int) -> TimestampedOffset | None:
    """The first record that is at least as new as `timestamp`."""
    local.ensure_loaded()
    try:
        return _first_record_from(local, timestamp)
    except OSError as error:
        raise local.directory.fault(error, f"reading {local.name}") from error


def max_timestamp_offset(local: LocalLog) -> TimestampedOffset | None:
    """The first record that has the largest timestamp of all."""
    local.ensure_loaded()
    try:
        newest = max((_newest_in(local, each) for each in _nonempty_segments(local)), default=-1)
        check_holes(local, local.log_start_offset, local.log_end_offset)
        return _first_record_from(local, newest) if newest >= 0 else None
    except OSError as error:
        raise local.directory.fault(error, f"reading {local.name}") from error


def _nonempty_segments(local: LocalLog) -> list[Segment]:
    first = local.segments.slot_of(local.log_start_offset)
    return [each for each in local.segments.items[first:] if each.size]


def _first_record_from(local: LocalLog, timestamp: int) -> TimestampedOffset | None:
    found, log_start = None, local.log_start_offset
    for segment in _nonempty_segments(local):
        if _newest_in(local, segment) < timestamp:
            continue
        start = segment.base_offset
        try:
            start = max(log_start, segment_time_lookup.start_in(segment, timestamp))
            found, end = segment_time_lookup.first_in(segment, start, timestamp, log_start)
        except (LogCorrupt, FileNotFoundError) as error:
            raise damage_error(local, segment, start, error) from error
        _check_batches(local, segment, start, end)
        if found is not None:
            break
    check_holes(local, log_start, local.log_end_offset if found is None else found.offset)
    return found


def _newest_in(local: LocalLog, segment: Segment) -> int:
    """A segment's largest timestamp.

    If the time index is damaged, the timestamp comes from the batches, which are checked then.
    """
    try:
        newest = segment.max_timestamp
    except FileNotFoundError as error:
        raise damage_error(local, segment, segment.base_offset, error) from error
    if segment.has_damaged_time_index:
        _check_batches(local, segment, segment.base_offset, segment.size)
        segment.has_damaged_time_index = False
    return newest


def _check_batches(local: LocalLog, segment: Segment, offset: int, to: int) -> None:
    """Raises if a batch is damaged, from some way before `offset` up to position `to`."""
    if segment is local.segments.active:
        to = min(to, segment.checked_from)  # later batches were checked when they were appended
    try:
        check_before(local, segment, offset, to)
    except (BadBatch, FileNotFoundError) as error:
        raise damage_error(local, segment, offset, error) from error
