"""The next batch follows from the sink and the dead letters, after any crash."""

import pytest

from headrace.client.results import TopicPartition
from headrace.pipeline.batch.planner import (
    OnDataLoss,
    PlanError,
    Planner,
    SourceBounds,
    StartPosition,
    caught_up,
    with_new_partitions,
)
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.sinks.table_sink import CommittedBatch

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOG = SourceBounds({"t": "id-1"}, {P0: (0, 100), P1: (0, 50)})


def planner(**changes: object) -> Planner:
    settings: dict[str, object] = {
        "beginning": StartPosition({"t": "id-1"}, {P0: 0, P1: 0}),
        "on_data_loss": OnDataLoss.FAIL,
        "max_records": None,
    }
    return Planner(**{**settings, **changes})  # type: ignore[arg-type]


def ranges(*wanted: tuple[int, int, int]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange("t", *each) for each in wanted)


def test_the_first_batch_starts_at_the_flows_start() -> None:
    begun = StartPosition({"t": "id-1"}, {P0: 7, P1: 50})
    plan = planner(beginning=begun).next_batch(LOG, None, None)
    assert (plan.batch_id, plan.ranges) == (0, ranges((0, 7, 100), (1, 50, 50)))


def test_a_batch_follows_the_one_that_the_table_holds() -> None:
    plan = planner().next_batch(LOG, CommittedBatch(4, {P0: 60, P1: 50}, "9"), None)
    assert (plan.batch_id, plan.ranges) == (5, ranges((0, 60, 100), (1, 50, 50)))
    assert not plan.is_empty


def test_nothing_new_is_an_empty_batch() -> None:
    assert planner().next_batch(LOG, CommittedBatch(4, {P0: 100, P1: 50}, "9"), None).is_empty


def test_dead_letters_ahead_of_the_table_repeat_the_same_batch() -> None:
    """The log has grown, but the batch keeps the end offsets of its dead letters."""
    held = CommittedBatch(4, {P0: 60, P1: 50}, "9")
    ahead = CommittedBatch(5, {P0: 80, P1: 50}, "")
    plan = planner().next_batch(LOG, held, ahead)
    assert (plan.batch_id, plan.ranges) == (5, ranges((0, 60, 80), (1, 50, 50)))
    assert plan.dead_letters_done


def test_the_rest_of_a_batch_that_another_run_shortened_is_the_next_one() -> None:
    """Its dead letters are written, with those of the table's batch."""
    held = CommittedBatch(5, {P0: 60, P1: 50}, "9")
    further = CommittedBatch(5, {P0: 80, P1: 40}, "")
    plan = planner().next_batch(LOG, held, further)
    assert (plan.batch_id, plan.ranges) == (6, ranges((0, 60, 80), (1, 50, 50)))
    assert plan.dead_letters_done
    plan = planner().next_batch(LOG, CommittedBatch(6, {P0: 80, P1: 50}, "9"), further)
    assert (plan.batch_id, plan.ranges) == (7, ranges((0, 80, 100), (1, 50, 50)))
    assert not plan.dead_letters_done


def test_dead_letters_of_the_first_batch_repeat_it_from_its_start() -> None:
    begun = StartPosition({"t": "id-1"}, {P0: 40, P1: 0})
    plan = planner(beginning=begun).next_batch(LOG, None, CommittedBatch(0, {P0: 80, P1: 20}, ""))
    assert plan.ranges == ranges((0, 40, 80), (1, 0, 20))


def test_dead_letters_that_agree_with_the_table_change_nothing() -> None:
    held = CommittedBatch(4, {P0: 60, P1: 50}, "9")
    plan = planner().next_batch(LOG, held, CommittedBatch(4, {P0: 60, P1: 50}, ""))
    assert (plan.batch_id, plan.dead_letters_done) == (5, False)


def test_a_table_that_was_rolled_back_is_reported() -> None:
    with pytest.raises(PlanError, match="pipeline reset"):
        planner().next_batch(LOG, None, CommittedBatch(7, {P0: 10}, ""))


def test_a_partition_that_appears_later_is_read_from_its_first_record() -> None:
    begun = StartPosition({"t": "id-1"}, {P0: 100})
    plan = planner(beginning=begun).next_batch(LOG, CommittedBatch(0, {P0: 100}, "1"), None)
    assert plan.ranges == ranges((0, 100, 100), (1, 0, 50))


def test_a_limit_lets_every_partition_advance() -> None:
    plan = planner(max_records=10).next_batch(LOG, None, None)
    assert sum(each.size for each in plan.ranges) <= 11
    assert all(each.size for each in plan.ranges)


def test_expired_offsets_stop_the_flow_unless_data_loss_is_allowed() -> None:
    log = SourceBounds({"t": "id-1"}, {P0: (70, 100), P1: (0, 50)})
    held = CommittedBatch(4, {P0: 60, P1: 50}, "9")
    with pytest.raises(PlanError, match="offsets 60 to 69 were deleted"):
        planner().next_batch(log, held, None)
    plan = planner(on_data_loss=OnDataLoss.CONTINUE).next_batch(log, held, None)
    assert plan.ranges[0] == OffsetRange("t", 0, 70, 100)
    assert plan.lost == ranges((0, 60, 70))


def test_a_recreated_topic_stops_the_flow_unless_data_loss_is_allowed() -> None:
    log = SourceBounds({"t": "id-2"}, {P0: (0, 5), P1: (0, 0)})
    held = CommittedBatch(4, {P0: 60, P1: 50}, "9")
    with pytest.raises(PlanError, match="deleted and created again"):
        planner().next_batch(log, held, None)
    plan = planner(on_data_loss=OnDataLoss.CONTINUE).next_batch(log, held, None)
    assert plan.ranges == ranges((0, 0, 5), (1, 0, 0))


def test_a_log_that_ends_before_the_tables_offsets_is_reported() -> None:
    log = SourceBounds({"t": "id-1"}, {P0: (0, 10), P1: (0, 50)})
    with pytest.raises(PlanError, match="ends at 10, but the table holds it up to 60"):
        planner().next_batch(log, CommittedBatch(4, {P0: 60, P1: 50}, "9"), None)


def test_a_deleted_topic_is_reported() -> None:
    with pytest.raises(PlanError, match="t is gone"):
        planner().next_batch(SourceBounds({}, {}), CommittedBatch(4, {P0: 60}, "9"), None)


def test_a_recreated_topic_is_read_once_though_the_table_still_names_old_offsets() -> None:
    log = SourceBounds({"t": "id-2"}, {P0: (0, 90), P1: (0, 0)})
    held = CommittedBatch(4, {P0: 60, P1: 50}, "9")
    begun = with_new_partitions(StartPosition({"t": "id-1"}, {P0: 3}), log, 5, OnDataLoss.CONTINUE)
    fresh = planner(beginning=begun, on_data_loss=OnDataLoss.CONTINUE)
    assert fresh.next_batch(log, held, None).ranges == ranges((0, 0, 90), (1, 0, 0))
    assert fresh.next_batch(log, CommittedBatch(5, {P0: 90, P1: 0}, "10"), None).is_empty


def test_a_new_partition_is_stored_with_its_first_offset() -> None:
    begun = with_new_partitions(StartPosition({"t": "id-1"}, {P0: 100}), LOG, 1, OnDataLoss.FAIL)
    assert begun.starts == {P0: 100, P1: 0}
    assert with_new_partitions(begun, LOG, 2, OnDataLoss.FAIL) == begun
    log = SourceBounds({"t": "id-1"}, {P0: (0, 100), P1: (20, 50)})
    with pytest.raises(PlanError, match="offsets 0 to 19 were deleted"):
        planner(beginning=begun).next_batch(log, CommittedBatch(0, {P0: 100}, "1"), None)


def test_a_topic_of_another_id_is_not_adopted_where_no_data_may_be_lost() -> None:
    log = SourceBounds({"t": "id-2"}, LOG.bounds)
    begun = StartPosition({"t": "id-1"}, {P0: 0, P1: 0})
    assert with_new_partitions(begun, log, 5, OnDataLoss.FAIL) == begun


def test_caught_up_means_every_partition_is_written() -> None:
    assert caught_up({P0: 5, P1: 0}, CommittedBatch(0, {P0: 5}, "1"))
    assert not caught_up({P0: 5, P1: 1}, CommittedBatch(0, {P0: 5}, "1"))
    assert not caught_up({P0: 5}, None)
