"""Lag of a group in a partition, in records and in time. Pure.

The lag in records is the distance from the next record that the group has to read to the end of the
readable log, the high watermark. It is 0 if there is no such record. So neither transaction markers
at the end, nor gaps of compaction, nor records that retention has deleted count. The lag in time is
the age of the next record.
"""

from typing import Final, NamedTuple

from headrace.broker.lag.group_positions import SharePosition
from headrace.broker.lag.positions import PartitionState, Position

UNKNOWN_COUNT: Final = -1


class PartitionLag(NamedTuple):
    """The lag of one group in one partition."""

    position: int
    """The committed offset, or the start offset of a share group."""
    records: int | None
    """None if the state of the partition is not known."""
    seconds: float | None
    """None if the next record has no timestamp or cannot be read."""
    held_back: int = 0
    """Records of the lag that no read_committed consumer can read until a transaction ends."""


def lag_of(position: Position, state: PartitionState | None, now_ms: int) -> PartitionLag:
    """The lag of a group that goes on at `position`."""
    if state is None or position not in state.next_records:
        return PartitionLag(position.offset, None, None)
    record = state.next_records[position]
    if record is None:
        return PartitionLag(position.offset, 0, 0.0)
    records = max(0, state.end_offset - record.offset)
    held_back = max(0, state.end_offset - max(record.offset, state.last_stable_offset))
    seconds = age_s(record.timestamp, now_ms)
    if state.open_transaction is None:
        held_back = 0
    return PartitionLag(position.offset, records, seconds, held_back)


def share_lag_of(
    position: SharePosition, state: PartitionState | None, now_ms: int
) -> PartitionLag:
    """The lag of a share group: the records from the start offset on, without finished ones."""
    lag = lag_of(position.next, state, now_ms)._replace(position=position.start_offset)
    if lag.records is None or state is None or lag.records == 0:
        return lag
    if position.complete_count == UNKNOWN_COUNT:
        return lag._replace(records=None)
    start = max(position.start_offset, state.log_start_offset)
    records = max(0, state.end_offset - start - position.complete_count)
    return lag._replace(records=records)


def age_s(timestamp: int, now_ms: int) -> float | None:
    """The age of a record; 0 if its timestamp is in the future, None if it has none."""
    return None if timestamp < 0 else max(0, now_ms - timestamp) / 1000
