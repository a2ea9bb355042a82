"""Checks a log's segments for a reader that does not find the expected batch.

Compaction leaves gaps, and a reader may begin inside a batch: so an offset that no batch begins
with is not always damage. The batches before it are checked to distinguish the two cases.
"""

from headrace.storage.errors import RecordsDamaged
from headrace.storage.log.local_log import LocalLog
from headrace.storage.segment.segment import Segment
from headrace.storage.state.damage import check_range, locate_damage


def end_of_segment(local: LocalLog, segment: Segment) -> int:
    """The first offset that cannot be in that segment."""
    following = local.segments.following(segment)
    return local.log_end_offset if following is None else following.base_offset


def check_before(local: LocalLog, segment: Segment, offset: int, to: int) -> int:
    """Checks the batches from some way before `offset` up to position `to`.

    Returns the lowest offset that the batch at `to` may begin with. Raises `BadBatch`.
    """
    limit = end_of_segment(local, segment)
    checked = check_range(segment, offset, to, limit, local.epochs.span)
    if checked.bad is not None:
        raise checked.bad
    return checked.next_offset


def check_holes(local: LocalLog, offset: int, found: int) -> None:
    """Raises if a missing segment held `offset`, or offsets between it and `found`."""
    hole = local.damaged_ranges.hole_between(offset, found)
    if hole is not None:
        raise local.record_damage(hole)


def damage_error(
    local: LocalLog, segment: Segment, offset: int, error: Exception
) -> RecordsDamaged:
    """Locates and remembers the damage behind `error`, which a read at `offset` raised."""
    limit = end_of_segment(local, segment)
    return local.record_damage(locate_damage(segment, offset, limit, local.epochs.span, error))
