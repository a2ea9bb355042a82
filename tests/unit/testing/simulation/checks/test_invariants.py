"""The simulator's checks report violations, and only those."""

import asyncio
from asyncio import events
from collections.abc import Callable

import pytest

from headrace.replication.follower_progress import UNKNOWN, FollowerProgress
from headrace.share.record_state import AcknowledgeType
from headrace.testing.simulation import seeds
from headrace.testing.simulation.checks.checked_replicas import CheckedLeader
from headrace.testing.simulation.checks.history import NO_OFFSET, History, Place, Violation
from headrace.testing.simulation.clients.committed_offsets import (
    COMMITS_STAY,
    OWNED_ONCE,
    CommitLedger,
)
from headrace.testing.simulation.clients.compacted_topic import LAST_STAYS, check_table
from headrace.testing.simulation.clients.share_group import (
    COUNTS_GROW,
    DELIVERIES,
    FINISHED,
    Moment,
    ShareDeliveries,
    Verdict,
)
from headrace.testing.simulation.clients.transactions import (
    ONLY_COMMITTED,
    WHOLE,
    TransactionHistory,
    TransactionState,
)
from headrace.testing.simulation.schedule import EndlessWork, Schedule

HERE = Place("bank", 0)
THERE = Place("bank", 1)
TABLE = Place("table", 0)


def test_endless_work_is_reported_and_a_busy_process_is_not() -> None:
    schedule = Schedule(1)

    def again(pause_s: float) -> Callable[[], None]:
        return lambda: schedule.after(pause_s, again(pause_s))

    schedule.after(0, again(0.001))
    schedule.run(30)
    schedule.after(0, again(0.00001))
    with pytest.raises(EndlessWork):
        schedule.run(60)


@pytest.mark.parametrize("state", [TransactionState.OPEN, TransactionState.ABORTED])
def test_reading_an_uncommitted_transaction_is_reported(state: TransactionState) -> None:
    transactions = TransactionHistory()
    transactions.states[b"t:0"] = state
    with pytest.raises(Violation) as found:
        transactions.read(HERE, [(3, b"t:0")])
    assert found.value.rule == ONLY_COMMITTED


@pytest.mark.parametrize(
    ("state", "here", "there"),
    [
        (TransactionState.COMMITTED, {0: b"t:0"}, {}),
        (TransactionState.COMMITTED, {}, {}),
        (TransactionState.COMMITTED, {0: b"t:0", 5: b"t:0"}, {0: b"t:0"}),
        (TransactionState.ASKED, {0: b"t:0"}, {}),
        (TransactionState.ABORTED, {0: b"t:0"}, {0: b"t:0"}),
        (TransactionState.OPEN, {0: b"t:0"}, {0: b"t:0"}),
    ],
)
def test_torn_lost_and_unexpected_transactions_are_reported(
    state: TransactionState, here: dict[int, bytes], there: dict[int, bytes]
) -> None:
    transactions = TransactionHistory()
    transactions.states[b"t:0"] = state
    with pytest.raises(Violation) as found:
        transactions.check({HERE: here, THERE: there})
    assert found.value.rule == WHOLE


@pytest.mark.parametrize("state", [TransactionState.COMMITTED, TransactionState.ASKED])
def test_a_transaction_in_all_its_partitions_is_complete(state: TransactionState) -> None:
    transactions = TransactionHistory()
    transactions.states = {b"t:0": state, b"t:1": TransactionState.ABORTED}
    transactions.read(HERE, [(4, b"t:0")])
    transactions.check({HERE: {4: b"t:0"}, THERE: {9: b"t:0"}})


def test_a_record_that_was_read_may_not_disappear() -> None:
    transactions = TransactionHistory()
    transactions.states[b"t:0"] = TransactionState.ASKED
    transactions.read(HERE, [(4, b"t:0")])
    with pytest.raises(Violation):
        transactions.check({HERE: {}, THERE: {}})


def acknowledged(*numbers: int) -> History:
    history = History()
    for number in numbers:
        history.acked(TABLE, [b"table-0:%d" % number], number)
    return history


def test_compaction_may_remove_values_that_have_a_successor() -> None:
    history = acknowledged(0, 1, 5, 6)
    history.consumed(TABLE, [(0, b"table-0:0")])
    check_table(history, TABLE, {5: b"table-0:5", 6: b"table-0:6"})
    check_table(history, TABLE, {5: b"table-0:5", 10: b"table-0:10", 11: b"table-0:11"})


@pytest.mark.parametrize(
    "left",
    [
        {5: b"table-0:5"},  # key 1 is gone
        {1: b"table-0:1", 5: b"table-0:5"},  # its last value is
        {7: b"table-0:6", 5: b"table-0:5"},  # it lies elsewhere
        {5: b"table-0:6", 6: b"table-0:5"},  # in another order
    ],
)
def test_a_lost_or_moved_value_of_a_compacted_topic_is_reported(left: dict[int, bytes]) -> None:
    with pytest.raises(Violation) as found:
        check_table(acknowledged(0, 1, 5, 6), TABLE, left)
    assert found.value.rule == LAST_STAYS


def test_a_value_without_a_known_offset_may_be_anywhere() -> None:
    history = History()
    history.acked(TABLE, [b"table-0:3"], NO_OFFSET)
    check_table(history, TABLE, {8: b"table-0:3"})


@pytest.mark.parametrize(
    ("heard", "now", "another"), [(7, 9, True), (7, 7, False), (UNKNOWN, 9, False)]
)
def test_a_replica_counted_in_an_earlier_incarnation_may_have_had_more_records(
    heard: int, now: int, another: bool
) -> None:
    """The replica is counted, stops and returns within one iteration of its leader."""
    follower = FollowerProgress()
    seen = CheckedLeader(epoch=1, watermark=0, enough=True, partition_epoch=1)
    seen.counts = [(follower, 112, heard)]
    follower.broker_epoch = now
    assert seen.fetched_in_another_incarnation(follower) is another


def test_an_interrupted_seed_closes_its_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a loop left running, every later test in the process would fail."""

    def entered_and_interrupted(_seed: int, _seconds: float, *, guarded: bool) -> None:
        events._set_running_loop(left_behind)
        raise EndlessWork("interrupted")

    left_behind = asyncio.new_event_loop()
    monkeypatch.setattr(seeds, "run", entered_and_interrupted)
    try:
        with pytest.raises(EndlessWork):
            seeds.run_limited(1, 1.0)
        assert events._get_running_loop() is None
    finally:
        events._set_running_loop(None)
        left_behind.close()


# --- groups -------------------------------------------------------------------------------------


def test_two_owners_of_a_partition_in_one_generation_are_reported() -> None:
    ledger = CommitLedger()
    ledger.owns(HERE, 4, "a")
    ledger.owns(HERE, 5, "b")
    ledger.owns(THERE, 4, "b")
    with pytest.raises(Violation) as found:
        ledger.owns(HERE, 4, "b")
    assert found.value.rule == OWNED_ONCE


def test_a_commit_that_moves_back_is_reported_unless_it_was_sent_earlier() -> None:
    ledger = CommitLedger()
    sent_early = ledger.floor(HERE)
    ledger.committed(HERE, 10, ledger.floor(HERE))
    ledger.committed(HERE, 8, sent_early)
    with pytest.raises(Violation) as found:
        ledger.committed(HERE, 9, ledger.floor(HERE))
    assert found.value.rule == COMMITS_STAY


ACCEPTED = Verdict(AcknowledgeType.ACCEPT, 1)
REJECTED = Verdict(AcknowledgeType.REJECT, 1)
RELEASED = Verdict(AcknowledgeType.RELEASE, 1)
OLD_LEADER, LEADER, NEW_LEADER = 1, 2, 3


def deliveries_with(verdict: Verdict) -> ShareDeliveries:
    """A history in which the leader reports this outcome of offset 7 to a member."""
    found = ShareDeliveries(lambda _place, broker_id: broker_id)
    found.delivered(HERE, 7, 1, found.moment(HERE, LEADER))
    found.asked(HERE, {7: verdict})
    found.confirmed(HERE, {7: verdict}, found.moment(HERE, LEADER))
    return found


@pytest.mark.parametrize("verdict", [ACCEPTED, REJECTED])
@pytest.mark.parametrize("broker_id", [LEADER, NEW_LEADER])
def test_redelivery_of_a_finished_record_is_reported(verdict: Verdict, broker_id: int) -> None:
    deliveries = deliveries_with(verdict)
    with pytest.raises(Violation) as found:
        deliveries.delivered(HERE, 7, 2, deliveries.moment(HERE, broker_id))
    assert found.value.rule == FINISHED


def test_a_replaced_leader_and_a_late_response_may_redeliver_finished_records() -> None:
    deliveries = deliveries_with(ACCEPTED)
    deliveries.delivered(HERE, 7, 2, deliveries.moment(HERE, OLD_LEADER))
    deliveries.delivered(HERE, 7, 2, Moment(0, NEW_LEADER))


def test_a_released_record_is_delivered_with_a_higher_count() -> None:
    deliveries = deliveries_with(RELEASED)
    deliveries.delivered(HERE, 7, 2, deliveries.moment(HERE, LEADER))
    with pytest.raises(Violation) as found:
        deliveries.delivered(HERE, 7, 1, deliveries.moment(HERE, NEW_LEADER))
    assert found.value.rule == COUNTS_GROW


def test_an_unfinished_record_is_reported_as_missing() -> None:
    history = History()
    history.acked(HERE, [b"a", b"b", b"c", b"d"], 6)
    history.acked(HERE, [b"e"], NO_OFFSET)
    deliveries = deliveries_with(ACCEPTED)
    deliveries.asked(HERE, {8: RELEASED})
    deliveries.delivered(HERE, 9, DELIVERIES, deliveries.moment(HERE, LEADER))
    assert deliveries.missing(history, [HERE, THERE]) == [(HERE, 6), (HERE, 8)]
