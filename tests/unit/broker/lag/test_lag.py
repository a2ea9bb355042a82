"""Lag in records and in seconds, from a position and the state of its partition."""

import pytest

from headrace.broker.lag.group_positions import SharePosition, share_position
from headrace.broker.lag.lag import PartitionLag, lag_of, share_lag_of
from headrace.broker.lag.positions import OpenTransaction, PartitionState, Position
from headrace.coordinator.share_state.share_state_shard import StateSummary
from headrace.storage.log.next_record import NextRecord

NOW_MS = 1_700_000_000_000
POSITION = Position(10)


def state(
    record: NextRecord | None, *, end: int = 20, stable: int = 20, start: int = 0
) -> PartitionState:
    transaction = None if stable == end else OpenTransaction(7, NOW_MS)
    return PartitionState(start, end, stable, {POSITION: record}, transaction)


def test_the_lag_counts_from_the_next_record_to_the_end() -> None:
    lag = lag_of(POSITION, state(NextRecord(10, NOW_MS - 2500)), NOW_MS)
    assert lag == PartitionLag(10, 10, 2.5)


def test_a_group_at_the_last_record_has_no_lag() -> None:
    assert lag_of(POSITION, state(None), NOW_MS) == PartitionLag(10, 0, 0.0)


def test_removed_records_do_not_count() -> None:
    lag = lag_of(POSITION, state(NextRecord(14, NOW_MS), start=14), NOW_MS)
    assert lag.records == 6


def test_a_timestamp_in_the_future_is_no_lag_in_seconds() -> None:
    assert lag_of(POSITION, state(NextRecord(10, NOW_MS + 9000)), NOW_MS).seconds == 0


def test_a_record_without_timestamp_has_an_unknown_lag_in_seconds() -> None:
    assert lag_of(POSITION, state(NextRecord(10, -1)), NOW_MS) == PartitionLag(10, 10, None)


@pytest.mark.parametrize("unknown", [None, PartitionState(0, 20, 20, {})])
def test_a_leader_that_does_not_answer_leaves_the_lag_unknown(
    unknown: PartitionState | None,
) -> None:
    assert lag_of(POSITION, unknown, NOW_MS) == PartitionLag(10, None, None)


def test_records_after_the_last_stable_offset_are_held_back() -> None:
    assert lag_of(POSITION, state(NextRecord(10, 0), stable=17), NOW_MS).held_back == 3
    assert lag_of(POSITION, state(NextRecord(18, 0), stable=17), NOW_MS).held_back == 2
    assert lag_of(POSITION, state(NextRecord(10, 0)), NOW_MS).held_back == 0


def test_a_share_group_lags_by_the_records_that_are_not_complete() -> None:
    position = SharePosition(8, 5, POSITION)
    lag = share_lag_of(position, state(NextRecord(10, NOW_MS - 1000)), NOW_MS)
    assert lag == PartitionLag(8, 20 - 8 - 5, 1.0)
    assert share_lag_of(position, state(None), NOW_MS) == PartitionLag(8, 0, 0.0)
    unknown = share_lag_of(SharePosition(8, -1, POSITION), state(NextRecord(10, 0)), NOW_MS)
    assert unknown.records is None


def test_the_seconds_of_a_share_group_count_from_its_first_unfinished_record() -> None:
    summary = StateSummary(1, 0, start_offset=8, complete_count=5, first_unfinished=10)
    found = share_position(summary, skip_aborted=False)
    assert found == SharePosition(8, 5, Position(10, skip_aborted=False))
    older = summary._replace(first_unfinished=-1)  # an older broker does not send it
    found = share_position(older, skip_aborted=True)
    assert found == SharePosition(8, 5, Position(8))
    assert share_position(StateSummary(), skip_aborted=True) is None
