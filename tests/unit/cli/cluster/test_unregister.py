"""Why a broker that holds replicas is not unregistered."""

from headrace.cli.cluster.status import Overview
from headrace.cli.cluster.unregister import refusal_text, replicas_of
from headrace.client.admin.brokers import BrokerInfo, ClusterInfo
from headrace.client.metadata import PartitionInfo, TopicInfo

BROKERS = tuple(BrokerInfo(each, "h", 1, fenced=each == 3) for each in (1, 2, 3))


def overview(*topics: tuple[str, int, tuple[int, ...]]) -> Overview:
    """Topics with a number of partitions on brokers 1 and 3, and their in-sync replicas."""
    return Overview(
        ClusterInfo("c", 1, BROKERS),
        tuple(
            TopicInfo(
                name, bytes(16), False, dict.fromkeys(range(n), PartitionInfo(1, 0, (1, 3), isr))
            )
            for name, n, isr in topics
        ),
    )


def test_the_refusal_names_the_topics_and_the_command_that_moves_them() -> None:
    found = overview(("a", 1, (1,)), ("b", 3, (1,)), ("c", 2, (1,)), ("d", 1, (1,)))
    held = replicas_of(found, 3)
    assert held.total() == 7
    assert refusal_text(found, 3, held) == (
        "broker 3 still holds 7 replicas of topics b (3), c (2), a (1) and 1 more topic. Move them "
        "first: headrace cluster reassign --to 1,2 --execute. --force unregisters it all the same"
    )
    assert not replicas_of(found, 2)


def test_the_last_in_sync_replica_is_pointed_out() -> None:
    found = overview(("a", 2, (3,)))
    text = refusal_text(found, 3, replicas_of(found, 3))
    assert "the last in-sync replica of 2 partitions, whose records would be lost" in text
