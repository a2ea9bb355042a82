"""Plans move what they must and nothing else, and never lose a replica or a rack."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.results import TopicPartition
from headrace.operations.reassignment_plan import (
    CannotPlan,
    moves_between,
    with_replication_factor,
    without_brokers,
)

P0, P1, P2 = (TopicPartition("orders", index) for index in range(3))
RACKS = {1: None, 2: None, 3: None}


def test_an_emptied_broker_keeps_no_replica_and_the_others_stay() -> None:
    placed = {P0: (1, 2), P1: (2, 3), P2: (3, 1)}
    plan = without_brokers(placed, RACKS, [1])
    assert plan == {P0: (3, 2), P2: (3, 2)}


def test_the_first_replica_of_an_emptied_broker_passes_its_preferred_leadership_on() -> None:
    plan = without_brokers({P0: (1, 2)}, RACKS, [1])
    assert plan[P0][0] == 3


def test_a_replica_goes_to_a_rack_that_the_partition_is_not_in() -> None:
    racks = {1: "a", 2: "b", 3: "b", 4: "a"}
    plan = without_brokers({P0: (1, 2), P1: (4, 3)}, racks, [1])
    assert plan == {P0: (4, 2)}


def test_emptying_fails_if_no_broker_is_left_for_a_replica() -> None:
    with pytest.raises(CannotPlan, match="orders-0 has 3 replicas, and no other live broker"):
        without_brokers({P0: (1, 2, 3)}, RACKS, [1])


def test_more_replicas_go_to_the_brokers_with_the_fewest() -> None:
    plan = with_replication_factor({P0: (1,), P1: (1,)}, RACKS, 2)
    assert sorted(each[1] for each in plan.values()) == [2, 3]
    assert all(each[0] == 1 for each in plan.values())


def test_fewer_replicas_keep_the_preferred_leader_and_drop_dead_brokers_first() -> None:
    plan = with_replication_factor({P0: (1, 9, 2)}, RACKS, 2)
    assert plan == {P0: (1, 2)}
    assert with_replication_factor({P0: (1, 2, 3)}, RACKS, 1) == {P0: (1,)}


def test_a_factor_above_the_number_of_live_brokers_is_refused() -> None:
    with pytest.raises(CannotPlan, match="4 replicas need 4 brokers, and 3 are live"):
        with_replication_factor({P0: (1,)}, RACKS, 4)
    with pytest.raises(CannotPlan, match="at least one replica"):
        with_replication_factor({P0: (1,)}, RACKS, 0)


def test_copies_are_the_brokers_that_do_not_have_the_partition_yet() -> None:
    (move,) = moves_between({P0: (1, 2), P1: (1, 2)}, {P0: (3, 2), P1: (1, 2)})
    assert (move.partition, move.copies) == (P0, (3,))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict, dict]:
    racks = {broker: draw(st.sampled_from((None, "a", "b"))) for broker in range(1, 6)}
    placed = {}
    for index in range(draw(st.integers(1, 10))):
        replicas = st.lists(st.sampled_from(sorted(racks)), min_size=1, max_size=4, unique=True)
        placed[TopicPartition("t", index)] = tuple(draw(replicas))
    return placed, racks


@given(clusters(), st.integers(1, 5))
def test_emptying_keeps_the_number_of_replicas_and_every_other_replica(
    cluster: tuple[dict, dict], gone: int
) -> None:
    placed, racks = cluster
    plan = without_brokers(placed, racks, [gone])
    assert plan.keys() == {each for each, replicas in placed.items() if gone in replicas}
    for each, after in plan.items():
        assert gone not in after
        assert len(set(after)) == len(placed[each])
        assert set(placed[each]) - {gone} <= set(after)


@given(clusters(), st.integers(1, 5))
def test_every_planned_partition_has_the_factor(cluster: tuple[dict, dict], factor: int) -> None:
    placed, racks = cluster
    after = {**placed, **with_replication_factor(placed, racks, factor)}
    assert all(len(set(replicas)) == factor for replicas in after.values())
    assert all(after[each][0] == placed[each][0] for each in placed)
