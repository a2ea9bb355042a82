"""Lost records are reported or stop the flow; a started batch is finished."""

import pytest

from headrace.client.results import TopicPartition
from headrace.pipeline.batch.planner import (
    OnDataLoss,
    PlanError,
    Planner,
    SourceBounds,
    StartPosition,
    with_new_partitions,
)
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.sinks.table_sink import CommittedBatch

P0 = TopicPartition("t", 0)
BEGUN = StartPosition({"t": "id-1"}, {P0: 0})
HELD = CommittedBatch(4, {P0: 60}, "9")
AHEAD = CommittedBatch(5, {P0: 80}, "")
"""The dead letters of batch 5 are written, its rows are not."""


def planner(on_data_loss: OnDataLoss, beginning: StartPosition = BEGUN) -> Planner:
    return Planner(beginning=beginning, on_data_loss=on_data_loss, max_records=None)


def span(start: int, end: int) -> OffsetRange:
    return OffsetRange("t", 0, start, end)


def test_expired_records_of_a_started_batch_stop_it_or_are_reported() -> None:
    log = SourceBounds({"t": "id-1"}, {P0: (70, 100)})
    with pytest.raises(PlanError, match=r"60 to 69 were deleted .* read on from offset 70$"):
        planner(OnDataLoss.FAIL).next_batch(log, HELD, AHEAD)
    plan = planner(OnDataLoss.CONTINUE).next_batch(log, HELD, AHEAD)
    assert (plan.ranges, plan.lost) == ((span(70, 80),), (span(60, 70),))


def test_a_started_batch_whose_records_all_expired_is_committed_empty() -> None:
    log = SourceBounds({"t": "id-1"}, {P0: (90, 100)})
    plan = planner(OnDataLoss.CONTINUE).next_batch(log, HELD, AHEAD)
    assert (plan.ranges, plan.lost) == ((span(90, 90),), (span(60, 90),))
    assert not plan.is_empty  # or the table would never reach the dead letters


def test_a_started_batch_is_never_read_from_a_recreated_topic() -> None:
    log = SourceBounds({"t": "id-2"}, {P0: (0, 1000)})
    with pytest.raises(PlanError, match="deleted and created again"):
        planner(OnDataLoss.FAIL).next_batch(log, HELD, AHEAD)
    begun = with_new_partitions(BEGUN, log, AHEAD.batch_id + 1, OnDataLoss.CONTINUE)
    plan = planner(OnDataLoss.CONTINUE, begun).next_batch(log, HELD, AHEAD)
    assert (plan.batch_id, plan.ranges, plan.lost) == (5, (span(80, 80),), (span(60, 80),))
    after = CommittedBatch(5, {P0: 80}, "10")
    following = planner(OnDataLoss.CONTINUE, begun).next_batch(log, after, AHEAD)
    assert (following.batch_id, following.ranges) == (6, (span(0, 1000),))


def test_a_batch_started_with_the_recreated_topic_is_read_from_it() -> None:
    log = SourceBounds({"t": "id-2"}, {P0: (0, 1000)})
    begun = with_new_partitions(BEGUN, log, HELD.batch_id + 1, OnDataLoss.CONTINUE)
    plan = planner(OnDataLoss.CONTINUE, begun).next_batch(log, HELD, AHEAD)
    assert (plan.ranges, plan.lost) == ((span(0, 80),), ())


def test_a_started_batch_of_a_deleted_topic_stops_or_is_reported() -> None:
    log = SourceBounds({}, {})
    with pytest.raises(PlanError, match="t is gone"):
        planner(OnDataLoss.FAIL).next_batch(log, HELD, AHEAD)
    plan = planner(OnDataLoss.CONTINUE).next_batch(log, HELD, AHEAD)
    assert (plan.ranges, plan.lost) == ((span(80, 80),), (span(60, 80),))


def test_a_truncated_log_ends_a_started_batch_early() -> None:
    log = SourceBounds({"t": "id-1"}, {P0: (0, 70)})
    plan = planner(OnDataLoss.CONTINUE).next_batch(log, HELD, AHEAD)
    assert plan.ranges == (span(60, 70),)
