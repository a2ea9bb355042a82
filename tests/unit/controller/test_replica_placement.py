"""Replicas of new partitions are spread evenly."""

from collections import Counter
from random import Random

import pytest

from headrace.cluster.topology import BrokerRegistration
from headrace.controller.replica_placement import place
from headrace.controller.result import Refused


def brokers(count: int, *, racks: int = 0, fenced: int = 0) -> list[BrokerRegistration]:
    return [
        BrokerRegistration(
            id_, 1, (), rack=f"r{id_ % racks}" if racks else None, fenced=id_ >= count - fenced
        )
        for id_ in range(count)
    ]


def test_leaders_are_spread_evenly() -> None:
    partitions = place(brokers(5), count=100, replication_factor=3, rng=Random(3))
    assert set(Counter(item.leader for item in partitions).values()) == {20}


def test_the_followers_of_one_leader_are_spread_too() -> None:
    partitions = place(brokers(5), count=200, replication_factor=2, rng=Random(3))
    followers = Counter(item.replicas[1] for item in partitions if item.leader == 0)
    assert set(followers) == {1, 2, 3, 4}


def test_replicas_are_in_different_racks_if_there_are_enough() -> None:
    partitions = place(brokers(6, racks=3), count=60, replication_factor=3, rng=Random(5))
    for item in partitions:
        assert len({id_ % 3 for id_ in item.replicas}) == 3


def test_a_fenced_broker_gets_replicas_only_if_needed_and_never_leads() -> None:
    enough = place(brokers(4, fenced=1), count=30, replication_factor=3, rng=Random(1))
    assert all(3 not in item.replicas for item in enough)
    needed = place(brokers(4, fenced=2), count=30, replication_factor=3, rng=Random(1))
    for item in needed:
        assert len(set(item.replicas)) == 3
        assert item.leader in (0, 1)
        assert set(item.isr) == {0, 1}


def test_on_one_broker_all_partitions_share_one_object() -> None:
    partitions = place(brokers(1), count=10_000, replication_factor=1, rng=Random(1))
    assert len({id(item) for item in partitions}) == 1


@pytest.mark.parametrize(("count", "fenced", "factor"), [(2, 0, 3), (2, 2, 1), (0, 0, 1)])
def test_too_few_brokers_are_refused(count: int, fenced: int, factor: int) -> None:
    with pytest.raises(Refused):
        place(brokers(count, fenced=fenced), count=1, replication_factor=factor, rng=Random(1))
