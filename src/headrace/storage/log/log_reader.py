"""Reading from a log by offset: batches, and the transactions that were aborted among them.

Guarantees: batches in closed segments, or written before this start of the broker, are checked
before they are served. All other batches were checked when they were appended.
"""

from typing import NamedTuple

from headrace.storage.errors import LogCorrupt
from headrace.storage.log.damage_detection import check_before, check_holes, damage_error
from headrace.storage.log.local_log import LocalLog
from headrace.storage.segment.aborted_txn import AbortedTxn
from headrace.storage.segment.batch_check import BadBatch, Checked, check_batches
from headrace.storage.segment.segment import Segment
from headrace.storage.state.damage import Checks, Damage, bounds_in, next_readable_offset


class ReadResult(NamedTuple):
    """Whole batches, perhaps followed by a part of one; empty at the end of the log."""

    data: bytes
    first_offset: int


def read_batches(
    local: LocalLog,
    offset: int,
    max_bytes: int,
    limit: int,
    min_one_message: bool,
    checks: Checks,
) -> ReadResult:
    """See `Log.read`; `offset` is below `limit`, and `limit` is not past the log's end."""
    segments = local.segments
    items = segments.items
    for slot in range(segments.slot_of(offset), len(items)):
        segment = items[slot]
        # The active segment's batches from `checked_from` on were checked when they were appended.
        unchecked_to, upper = segment.checked_from, local.log_end_offset
        if slot + 1 < len(items):
            unchecked_to, upper = segment.size, items[slot + 1].base_offset
        try:
            found = segment.find(offset)
            first = offset
            if unchecked_to and (found is None or found[1] != offset):
                to = min(found[0], unchecked_to) if found else unchecked_to
                first = check_before(local, segment, offset, to)
            if found is None:
                continue  # compaction has left a gap at the segment's end
            position, base_offset, batch_size = found
            if local.damaged_ranges.holes:
                check_holes(local, offset, base_offset)
            end = segment.size
            if limit < upper:
                cut = segment.find(limit)
                end = cut[0] if cut else end
            available = end - position
            if available <= 0:
                break
            size = min(max_bytes, available)
            if size < batch_size:
                if not min_one_message:
                    break
                size = batch_size
            data = segment.read(position, size)
        except (LogCorrupt, BadBatch, FileNotFoundError) as error:
            raise damage_error(local, segment, offset, error) from error
        if position < unchecked_to:
            bounds = bounds_in(segment, first, upper, local.epochs.span)
            most = max(checks.left, 1 if min_one_message else 0)
            checked = check_batches(
                data, position, bounds, most=most, until=unchecked_to - position
            )
            checks.left = max(0, checks.left - checked.batches)
            if checked.size < len(data):
                data = _readable_part(local, segment, data, checked, upper)
                checks.ended_early = True
        return ReadResult(data, base_offset)
    return ReadResult(b"", offset)


def _readable_part(
    local: LocalLog, segment: Segment, data: bytes, checked: Checked, limit: int
) -> bytes:
    """The batches before the first damaged one; raises if there are none."""
    if checked.bad is not None:
        at = checked.bad.position
        after = next_readable_offset(segment, at, limit)
        error = local.record_damage(
            Damage(segment.file.path, at, checked.next, after, checked.bad.reason)
        )
        if not checked.size:
            raise error
    return data[: checked.size]


def aborted_transactions(local: LocalLog, from_offset: int, to_offset: int) -> list[AbortedTxn]:
    """The aborted transactions with records in [from_offset, to_offset)."""
    aborted: list[AbortedTxn] = []
    for segment in local.segments.items[local.segments.slot_of(from_offset) :]:
        found, is_complete = segment.txns.overlapping(from_offset, to_offset)
        aborted += found
        if is_complete:
            break
    return aborted


def has_aborted_transactions(local: LocalLog, from_offset: int) -> bool:
    """Whether any transaction was aborted in the segment of `from_offset` or a later one."""
    segments = local.segments
    return any(segment.txns.entries for segment in segments.items[segments.slot_of(from_offset) :])
