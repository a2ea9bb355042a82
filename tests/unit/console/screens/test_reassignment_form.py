"""The form of a reassignment: a plan for the chosen brokers and topics, or why there is none."""

import pytest

from headrace.client.results import TopicPartition
from headrace.console.screens.reassignment_form import (
    ReassignmentForm,
    from_text,
    plan_of,
    throttle_of,
    to_text,
)
from headrace.console.web.errors import PageError

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
PLACED = {ORDERS: (1, 2), PAYMENTS: (1, 3)}
RACKS = {1: None, 2: None, 3: None}


def form(kind: str, *brokers: str, topics: str = "", factor: str = "") -> ReassignmentForm:
    return ReassignmentForm(kind, brokers, topics, factor, "")


def planned(asked: ReassignmentForm) -> dict[TopicPartition, tuple[int, ...]]:
    return plan_of(asked, PLACED, RACKS, [1, 2, 3])


def test_brokers_are_emptied_of_the_matching_topics() -> None:
    assert planned(form("empty", "1", topics="ord*")) == {ORDERS: (3, 2)}


def test_the_number_of_replicas_is_set() -> None:
    assert planned(form("factor", factor="1")) == {ORDERS: (1,), PAYMENTS: (1,)}


def test_partitions_are_spread_over_the_chosen_brokers() -> None:
    plan = planned(form("balance", "2", "3"))
    assert all(set(replicas) == {2, 3} for replicas in plan.values())


@pytest.mark.parametrize(
    "asked",
    [
        form(""),
        form("empty"),
        form("empty", "9"),
        form("empty", "x"),
        form("factor", factor=""),
        form("factor", factor="9"),
        form("balance", "2"),
        form("balance", topics="none*"),
    ],
)
def test_an_impossible_plan_says_why(asked: ReassignmentForm) -> None:
    with pytest.raises(PageError, match="Nothing was moved"):
        planned(asked)


def test_the_preview_carries_the_plan() -> None:
    assert from_text(to_text(PLACED)) == PLACED
    for text in ("", "[]", '[["t", 0, 1]]', '[["t", "x", [1]]]'):
        with pytest.raises(PageError):
            from_text(text)


def test_a_limit_has_a_unit() -> None:
    assert throttle_of("50M") == 50_000_000
    assert throttle_of(" ") is None
    with pytest.raises(PageError, match="bytes per second"):
        throttle_of("fast")
