"""Removing records from a log: the oldest by retention, the newest because the leader lacks them.

The order of file operations is the guarantee here: names that must be gone are removed durably
before the offsets in those files are written again, and the recovery point is lowered before the
records that it covered are removed.
"""

from collections.abc import Callable

from headrace.storage.errors import DiskFull, LogCorrupt, OffsetOutOfRange
from headrace.storage.log.local_log import LocalLog
from headrace.storage.log.retention import deletable_segments
from headrace.storage.recovery.producer_recovery import rebuild_producers
from headrace.storage.segment.segment import Segment
from headrace.storage.state.damage import Damage, check_range
from headrace.storage.state.producers import ProducerStates

# --- at the start -----------------------------------------------------------------------------


def delete_before(local: LocalLog, offset: int) -> None:
    """Moves the log's start up to `offset` (DeleteRecords); retention removes the segments."""
    local.ensure_loaded()
    start, end = local.log_start_offset, local.log_end_offset
    if not 0 <= offset <= end:
        raise OffsetOutOfRange(local.name, offset, start, end)
    if offset > start:
        _set_log_start(local, offset)


def delete_old_segments(
    local: LocalLog, now_ms: int, high_watermark: int | None, *, is_follower: bool
) -> int:
    """See `Log.delete_old_segments`."""
    local.ensure_loaded()
    if local.swap is not None:
        return 0  # compaction is replacing segments: the next call deletes them
    limit = local.log_end_offset if high_watermark is None else high_watermark
    doomed = deletable_segments(
        local.segments,
        local.config,
        now_ms,
        log_start=local.log_start_offset,
        log_end=local.log_end_offset,
        high_watermark=limit,
        is_follower=is_follower,
    )
    if not doomed:
        return 0
    try:
        if doomed[-1] is local.segments.active:
            doomed = _roll_doomed_segment(local, doomed)
        delay_ms = local.config.file_delete_delay_ms
        for path in local.segments.retire(doomed):
            local.directory.delayed_delete.add_file(path, delay_ms)
    except OSError as error:
        raise local.directory.fault(error, f"deleting segments of {local.name}") from error
    _set_log_start(local, max(local.log_start_offset, local.segments.items[0].base_offset))
    return len(doomed)


def _roll_doomed_segment(local: LocalLog, doomed: list[Segment]) -> list[Segment]:
    """Puts an empty segment after the active one, so that all of `doomed` can be deleted.

    The empty segment keeps the log's end: offsets are never reused. Returns the segments that can
    be deleted; on a full disk the active one is not among them.
    """
    try:
        local.roll(is_doomed=True)
    except DiskFull:
        if len(doomed) == 1:
            raise
        return doomed[:-1]  # this frees disk space for the next attempt
    local.durability.sync_names(local.segments)
    return doomed


def _set_log_start(local: LocalLog, offset: int) -> None:
    local.log_start_offset = offset
    local.epochs.truncate_from_start(offset)
    if local.damaged_ranges:
        _keep_damaged_ranges(local, lambda each: each.next_offset > offset)


# --- at the end -------------------------------------------------------------------------------


def truncate_to(local: LocalLog, offset: int) -> None:
    """Removes every record at or past `offset`, and the batch that holds it."""
    local.ensure_loaded()
    if offset >= local.log_end_offset:
        return
    if offset <= local.log_start_offset:
        truncate_fully_and_start_at(local, max(offset, 0))
        return
    local.finish_swap()
    local.truncations += 1
    with local.durability.lock:
        try:
            end = _truncate_files(local, offset)
        except OSError as error:
            raise local.directory.fail(f"truncating {local.name}: {error}") from error
        local.log_end_offset = end


def _truncate_files(local: LocalLog, offset: int) -> int:
    """Returns the log's new end. The recovery point is lowered, durably, before any removal."""
    segments = local.segments
    slot = segments.slot_of(offset)
    segment = segments.items[slot]
    position, end = _truncation_point(local, segment, offset)
    if local.durability.recovery_point > end:  # otherwise no removed record was flushed
        local.durability.lower_recovery_point(end)
        local.directory.save_recovery_points()
    segments.remove(segments.items[slot + 1 :])
    if position < segment.size:
        segment.truncate(position, end)
        segments.fs.fsync(segment.file.acquire())
    segments.remove_snapshots(above=end)
    local.epochs.truncate_from_end(end)
    segments.fs.fsync_dir(local.path)
    local.producers = rebuild_producers(segments, local.log_start_offset, end)
    _keep_damaged_ranges(local, lambda each: each.first_offset < end)
    return end


def _truncation_point(local: LocalLog, segment: Segment, offset: int) -> tuple[int, int]:
    """The position and the offset at which the segment is to end."""
    if local.damaged_ranges:
        try:
            checked = check_range(segment, offset, segment.size, offset, local.epochs.span)
        except FileNotFoundError:  # the file is created again, empty
            return 0, segment.base_offset
        return checked.position, min(offset, max(checked.next_offset, segment.base_offset))
    found = segment.find(offset)
    return (segment.size, offset) if found is None else (found[0], min(found[1], offset))


def truncate_fully_and_start_at(local: LocalLog, offset: int) -> None:
    """Removes every record; the next one gets `offset`."""
    local.ensure_loaded()
    local.finish_swap()
    local.truncations += 1
    segments = local.segments
    with local.durability.lock:
        try:
            local.durability.lower_recovery_point(offset)
            local.directory.save_recovery_points()
            segments.remove(list(segments.items))
            segments.remove_snapshots(above=-1)
            local.producers = ProducerStates()
            local.epochs.clear()
            _keep_damaged_ranges(local, lambda _: False)
            local.log_start_offset = local.log_end_offset = offset
            if not local.has_topic_id_file:
                local.write_topic_id()
            segments.add(offset)
            segments.fs.fsync_dir(local.path)
        except OSError as error:
            raise local.directory.fail(f"truncating {local.name}: {error}") from error
        local.durability.file_created()


# --- damage -----------------------------------------------------------------------------------


def truncate_damaged(local: LocalLog) -> None:
    """Truncates a damaged log before its first damaged record, and brings it back online.

    A log that did not open is truncated when it is next used.
    """
    if not local.is_damaged:
        return
    local.log_failure = None
    local.directory.damaged.discard(local.name)
    if local.damaged_ranges:
        try:
            truncate_to(local, local.damaged_ranges.first.first_offset)
        except LogCorrupt:  # the records with the producers' state are damaged, too
            truncate_fully_and_start_at(local, local.log_start_offset)
    else:
        local.checkpointed = local.checkpointed._replace(expendable=True)


def _keep_damaged_ranges(local: LocalLog, is_kept: Callable[[Damage], bool]) -> None:
    """Forgets damage in records that are no longer part of the log."""
    local.damaged_ranges.keep(is_kept)
    if not local.is_damaged:
        local.directory.damaged.discard(local.name)
