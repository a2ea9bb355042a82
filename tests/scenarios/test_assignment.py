"""partition.assignment.strategy: the assignment, and the partitions that move."""

from collections.abc import Callable

from support.clients.librdkafka import MakeReader, Reader, until
from support.wire.topics import MakeTopic

PARTITIONS = 3


def everything(*topics: str) -> set[tuple[str, int]]:
    return {(topic, partition) for topic in topics for partition in range(PARTITIONS)}


def enter(reader: MakeReader, strategy: str, *topics: str) -> Reader:
    one = reader(**{"partition.assignment.strategy": strategy, "heartbeat.interval.ms": 100})
    one.subscribe(*topics)
    return one


def settle(members: list[Reader], expected: Callable[[], bool], *topics: str) -> None:
    """Waits until every partition has one owner and the shares are as expected."""

    def settled() -> bool:
        owned = [one.owned for one in members]
        once = sum(map(len, owned)) == len(everything(*topics))
        return once and set().union(*owned) == everything(*topics) and expected()

    until(members, settled, "the group is settled")


def test_range_divides_each_topic_separately(make_topic: MakeTopic, reader: MakeReader) -> None:
    # Invariant: the first member gets the larger part of every topic.
    topics = [make_topic(PARTITIONS), make_topic(PARTITIONS)]
    members = [enter(reader, "range", *topics) for _ in range(2)]

    def expected() -> bool:
        return sorted(len(one.owned) for one in members) == [2, 4]

    settle(members, expected, *topics)
    for one in members:
        first, second = ({part for name, part in one.owned if name == topic} for topic in topics)
        assert first == second


def test_roundrobin_divides_all_partitions_together(
    make_topic: MakeTopic, reader: MakeReader
) -> None:
    # Invariant: partition counts of members differ by at most one.
    topics = [make_topic(PARTITIONS), make_topic(PARTITIONS)]
    members = [enter(reader, "roundrobin", *topics) for _ in range(2)]
    settle(members, lambda: all(len(one.owned) == 3 for one in members), *topics)


def test_cooperative_sticky_moves_as_few_partitions_as_possible(
    make_topic: MakeTopic, reader: MakeReader
) -> None:
    # Invariant: a member keeps reading the partitions that the new member does not get.
    topics = [make_topic(PARTITIONS), make_topic(PARTITIONS)]
    stays = enter(reader, "cooperative-sticky", *topics)
    settle([stays], lambda: len(stays.owned) == 6, *topics)
    comes = enter(reader, "cooperative-sticky", *topics)
    settle([stays, comes], lambda: len(comes.owned) == 3, *topics)
    assert stays.revoked == [comes.owned]


def test_eager_strategies_revoke_all_partitions_first(
    make_topic: MakeTopic, reader: MakeReader
) -> None:
    # Invariant: with range all partitions are revoked before any moves.
    topic = make_topic(PARTITIONS)
    stays = enter(reader, "range", topic)
    settle([stays], lambda: len(stays.owned) == 3, topic)
    comes = enter(reader, "range", topic)
    settle([stays, comes], lambda: len(comes.owned) in (1, 2), topic)
    assert stays.revoked[0] == everything(topic)
