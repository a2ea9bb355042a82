"""The checker names each violation in a history and accepts a correct one.

Each bad history is the good one with one thing changed: a checker that never fails proves nothing.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from chaos.checker import BAD, NORMAL, check
from chaos.history import Fault, Found, History, Look, Poll, Send, Transaction


def send(value: str, offset: int, at: float, *, partition: int = 0, transaction: str = "") -> Send:
    client, _, order = value.partition(":")
    return Send(
        client=client,
        producer=1,
        order=int(order),
        partition=partition,
        value=value,
        invoked=at,
        completed=at + 0.5,
        outcome="ok",
        offset=offset,
        transaction=transaction,
    )


def poll(began: float, *records: tuple[int, str], assignment: int = 0) -> Poll:
    found = tuple(Found(0, offset, value) for offset, value in records)
    return Poll("reader", assignment, False, began, began + 0.5, found)


def good() -> History:
    """Two plain records around a committed and an aborted transaction, read to the end."""
    return History(
        sends=[
            send("a:0", 0, 1.0),
            send("t:0", 1, 2.0, transaction="t/1"),
            send("t:1", 2, 2.1, transaction="t/1"),
            send("t:2", 4, 4.0, transaction="t/2"),
            send("a:1", 6, 6.0),
        ],
        transactions=[
            Transaction("t/1", "t", "committed", 3.0, 3.5),
            Transaction("t/2", "t", "aborted", 5.0, 5.5),
        ],
        polls=[poll(1.6, (0, "a:0")), poll(3.2, (1, "t:0"), (2, "t:1")), poll(7.0, (6, "a:1"))],
        looks=[Look("looker", 0, 7.0, 7)],
        faults=[Fault("kill", "broker-1", 1.0, 2.0)],
        final={0: [Found(0, 0, "a:0"), Found(0, 1, "t:0"), Found(0, 2, "t:1"), Found(0, 6, "a:1")]},
        complete=True,
    )


Change = Callable[[History], None]


def without(history: History, *values: str) -> None:
    history.final = {
        0: [record for record in history.final[0] if record.value not in values],
    }


def lost(history: History) -> None:
    without(history, "t:1", "t:0")


def lost_at_the_end(history: History) -> None:
    without(history, "a:1")


def never_seen(history: History) -> None:
    without(history, "a:1")
    history.complete = False


def twice(history: History) -> None:
    history.final = {0: [*history.final[0], Found(0, 7, "a:1")]}


def another_value_at_an_offset(history: History) -> None:
    history.polls[0] = poll(1.6, (0, "b:0"))


def acknowledged_where_another_lies(history: History) -> None:
    history.sends.append(send("b:0", 6, 6.0))


def overtaken(history: History) -> None:
    history.sends[0] = replace(history.sends[0], completed=6.4)
    history.sends[0], history.sends[4] = (
        replace(history.sends[0], offset=6),
        replace(history.sends[4], offset=0),
    )
    history.final = {
        0: [Found(0, 0, "a:1"), Found(0, 1, "t:0"), Found(0, 2, "t:1"), Found(0, 6, "a:0")]
    }
    history.polls.clear()
    history.polls.append(poll(8.0, (0, "a:1")))


def later_send_at_an_earlier_offset(history: History) -> None:
    overtaken(history)
    history.sends[0] = replace(history.sends[0], completed=1.5)


def aborted_in_a_poll(history: History) -> None:
    history.polls[2] = poll(7.0, (4, "t:2"))


def aborted_in_the_final_read(history: History) -> None:
    history.final = {0: [*history.final[0][:3], Found(0, 4, "t:2"), history.final[0][3]]}


def read_before_the_commit(history: History) -> None:
    history.polls[1] = poll(2.2, (1, "t:0"), (2, "t:1"))


def read_of_a_transaction_that_nobody_ended(history: History) -> None:
    history.transactions[0] = Transaction("t/1", "t", "unknown", math.inf, 9.0)


def half_of_a_transaction(history: History) -> None:
    history.transactions[0] = Transaction("t/1", "t", "unknown", 3.0, 9.0)
    without(history, "t:1")
    history.polls[1] = poll(3.2, (1, "t:0"))


def skipped_within_a_poll(history: History) -> None:
    history.polls[1:] = [poll(7.0, (1, "t:0"), (6, "a:1"))]


def skipped_between_polls(history: History) -> None:
    history.polls[1:] = [poll(7.0, (6, "a:1"))]


def backwards_within_a_poll(history: History) -> None:
    history.polls[1:] = [poll(7.0, (2, "t:1"), (1, "t:0")), poll(8.0, (2, "t:1"), (6, "a:1"))]


def backwards_between_polls(history: History) -> None:
    history.polls.append(poll(8.0, (6, "a:1")))


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lost, {"lost-write"}),
        (lost_at_the_end, {"lost-write"}),
        (never_seen, {"unseen"}),
        (twice, {"duplicate"}),
        (another_value_at_an_offset, {"inconsistent-offsets"}),
        (acknowledged_where_another_lies, {"inconsistent-offsets", "lost-write"}),
        (overtaken, {"reordered"}),
        (later_send_at_an_earlier_offset, {"nonmonotonic-send"}),
        (aborted_in_a_poll, {"aborted-read"}),
        (aborted_in_the_final_read, {"aborted-read", "poll-skip"}),
        (read_before_the_commit, {"precommitted-read"}),
        (read_of_a_transaction_that_nobody_ended, {"precommitted-read"}),
        (half_of_a_transaction, {"torn-transaction"}),
        (skipped_within_a_poll, {"int-poll-skip"}),
        (skipped_between_polls, {"poll-skip"}),
        (backwards_within_a_poll, {"int-nonmonotonic-poll", "poll-skip"}),
        (backwards_between_polls, {"nonmonotonic-poll"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_bad_history_is_reported(change: Change, names: set[str]) -> None:
    history = good()
    change(history)
    verdict = check(history)
    assert set(verdict.bad) == names
    assert not verdict.passed


def test_replicas_that_differ_are_bad() -> None:
    assert set(check(good(), replicas_differ=["chaos-0"]).bad) == {"replicas-differ"}


def test_a_good_history_passes() -> None:
    verdict = check(good())
    assert (verdict.bad, verdict.normal, verdict.passed) == ({}, {}, True)


def test_a_missing_response_allows_either_outcome() -> None:
    for final in (good().final, {0: [r for r in good().final[0] if r.value != "a:1"]}):
        history = good()
        history.sends[4] = replace(history.sends[4], outcome="unknown", offset=-1)
        history.polls.pop()
        history.final = final
        assert check(history).passed


def test_a_transaction_with_an_unknown_outcome_is_complete_or_absent() -> None:
    for gone in ((), ("t:0", "t:1")):
        history = good()
        history.transactions[0] = Transaction("t/1", "t", "unknown", 3.0, 9.0)
        history.polls.pop(1)
        if not gone:
            history.polls.insert(1, poll(3.2, (1, "t:0"), (2, "t:1")))
        without(history, *gone)
        assert check(history).passed


@pytest.mark.parametrize(
    ("clear", "reason"),
    [
        ("sends", "nothing was acknowledged"),
        ("faults", "no fault"),
        ("polls", "nothing was read"),
    ],
)
def test_a_run_without_evidence_is_invalid_and_does_not_pass(clear: str, reason: str) -> None:
    history = good()
    getattr(history, clear).clear()
    verdict = check(history)
    assert reason in verdict.invalid
    assert not verdict.passed


def test_normal_anomalies_of_kafka_are_counted_and_not_bad() -> None:
    history = good()
    history.looks.append(Look("looker", 0, 7.0, 6))
    history.polls += [
        replace(poll(8.0, (0, "a:0"), assignment=1), client="member", subscribed=True),
        replace(poll(9.0, (6, "a:1"), assignment=1), client="member", subscribed=True),
        replace(poll(9.5, (0, "a:0"), assignment=1), client="member", subscribed=True),
    ]
    verdict = check(history)
    assert verdict.normal == {
        "stale-look": 1,
        "poll-skip-subscribed": 1,
        "nonmonotonic-poll-subscribed": 1,
    }
    assert verdict.passed


def test_interleaved_transactions_are_normal() -> None:
    history = good()
    history.transactions += [
        Transaction("u/1", "u", "committed", 5.0, 6.0),
        Transaction("v/1", "v", "committed", 5.0, 6.0),
    ]
    history.sends += [
        send("u:0", 8, 4.0, transaction="u/1"),
        send("v:0", 9, 4.0, transaction="v/1"),
        send("u:1", 10, 4.6, transaction="u/1"),
        send("v:1", 0, 4.0, partition=1, transaction="v/1"),
        send("u:2", 1, 4.7, partition=1, transaction="u/1"),
    ]
    tail = [Found(0, 8, "u:0"), Found(0, 9, "v:0"), Found(0, 10, "u:1")]
    history.final = {
        0: [*history.final[0], *tail],
        1: [Found(1, 0, "v:1"), Found(1, 1, "u:2")],
    }
    history.looks.clear()
    verdict = check(history)
    assert verdict.normal == {"G0": 1, "int-send-skip": 1}
    assert verdict.passed


def test_no_name_is_both_bad_and_normal() -> None:
    assert not set(BAD) & set(NORMAL)
