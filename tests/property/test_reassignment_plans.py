"""A plan keeps all partitions, spreads them evenly, keeps their racks and moves little."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operations.replica_balancing import (
    CannotBalance,
    PlacedPartition,
    balance,
    changed,
)

BROKERS = range(1, 9)
RACKS = (None, "a", "b", "c")


@st.composite
def clusters(draw: st.DrawFn, *, with_racks: bool = True) -> tuple[dict, dict]:
    wanted = draw(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=8, unique=True))
    rack = st.sampled_from(RACKS) if with_racks else st.none()
    racks = {broker: draw(rack) for broker in wanted}
    placed = {}
    for topic in range(draw(st.integers(0, 4))):
        factor = draw(st.integers(1, min(4, len(wanted))))
        for index in range(draw(st.integers(1, 12))):
            chosen = st.lists(
                st.sampled_from(BROKERS), min_size=factor, max_size=factor, unique=True
            )
            placed[PlacedPartition(f"t{topic}", index)] = tuple(draw(chosen))
    return placed, racks


def spread_of(counts: Counter, brokers: dict) -> int:
    values = [counts[broker] for broker in brokers]
    return max(values) - min(values)


@given(clusters())
def test_partitions_keep_their_number_of_replicas_on_wanted_brokers(case: tuple) -> None:
    placed, racks = case
    after = balance(placed, racks)
    assert list(after) == list(placed)
    for each, replicas in after.items():
        assert len(replicas) == len(placed[each]) == len(set(replicas))
        assert set(replicas) <= racks.keys()


@given(clusters())
def test_no_partition_ends_in_fewer_racks(case: tuple) -> None:
    placed, racks = case
    for each, replicas in balance(placed, racks).items():
        before = {racks[broker] for broker in placed[each] if broker in racks}
        assert len({racks[broker] for broker in replicas}) >= len(before)


@given(clusters(with_racks=False))
def test_a_topic_is_spread_evenly_where_racks_do_not_forbid_it(case: tuple) -> None:
    placed, racks = case
    after = balance(placed, racks)
    for topic in {each.topic for each in placed}:
        held = Counter(b for each, of in after.items() if each.topic == topic for b in of)
        factor = next(len(of) for each, of in after.items() if each.topic == topic)
        # If all brokers but one hold each partition, there is almost no choice left.
        assert spread_of(held, racks) <= (1 if factor * 2 <= len(racks) else 2)


@given(clusters(with_racks=False))
def test_a_second_plan_is_no_worse_than_the_first(case: tuple) -> None:
    placed, racks = case
    after = balance(placed, racks)
    again = balance(after, racks)
    for topic in {each.topic for each in placed}:
        held = Counter(b for each, of in after.items() if each.topic == topic for b in of)
        held_again = Counter(b for each, of in again.items() if each.topic == topic for b in of)
        assert spread_of(held_again, racks) <= spread_of(held, racks)


def test_a_fourth_broker_receives_a_quarter_and_nothing_else_moves() -> None:
    placed = {
        PlacedPartition("orders", index): tuple((index + step) % 3 + 1 for step in range(3))
        for index in range(12)
    }
    racks = dict.fromkeys((1, 2, 3, 4))
    after = balance(placed, racks)
    held = Counter(broker for replicas in after.values() for broker in replicas)
    assert set(held.values()) == {9}
    assert Counter(replicas[0] for replicas in after.values()) == dict.fromkeys((1, 2, 3, 4), 3)
    moved = sum(len(set(after[each]) - set(placed[each])) for each in placed)
    assert moved == 9


def test_a_removed_broker_hands_over_all_its_replicas() -> None:
    placed = {
        PlacedPartition("t", index): tuple((index + step) % 4 + 1 for step in range(2))
        for index in range(8)
    }
    after = balance(placed, dict.fromkeys((1, 2, 3)))
    assert all(4 not in replicas for replicas in after.values())
    kept = [each for each in placed if 4 not in placed[each]]
    assert sum(set(after[each]) == set(placed[each]) for each in kept) >= len(kept) - 1


def test_leaders_even_out_without_moving_data() -> None:
    placed = {PlacedPartition("t", index): (1, 2, 3) for index in range(9)}
    after = balance(placed, dict.fromkeys((1, 2, 3)))
    assert all(set(replicas) == {1, 2, 3} for replicas in after.values())
    assert Counter(replicas[0] for replicas in after.values()) == {1: 3, 2: 3, 3: 3}


def test_small_topics_are_spread_over_all_brokers() -> None:
    placed = {PlacedPartition(f"t{number}", 0): (1, 2) for number in range(12)}
    after = balance(placed, dict.fromkeys((1, 2, 3, 4)))
    assert Counter(broker for of in after.values() for broker in of) == dict.fromkeys(
        (1, 2, 3, 4), 6
    )
    assert Counter(of[0] for of in after.values()) == dict.fromkeys((1, 2, 3, 4), 3)


def test_a_new_rack_receives_replicas() -> None:
    placed = {PlacedPartition("t", index): (1, 2) for index in range(6)}
    racks = {1: "a", 2: "a", 3: "b"}
    after = balance(placed, racks)
    assert Counter(3 in replicas for replicas in after.values())[True] >= 4


def test_a_plan_lists_only_the_partitions_that_change() -> None:
    one, two = PlacedPartition("t", 0), PlacedPartition("t", 1)
    assert changed({one: (1, 2), two: (2, 1)}, {one: (1, 2), two: (1, 2)}) == {two: (1, 2)}


def test_too_few_brokers_are_rejected_with_the_partition_name() -> None:
    with pytest.raises(CannotBalance, match="t-0 has 3 replicas"):
        balance({PlacedPartition("t", 0): (1, 2, 3)}, {1: None, 2: None})
    with pytest.raises(CannotBalance, match="no broker"):
        balance({}, {})
