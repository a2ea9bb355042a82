"""Who leads instead: what an answer tells a client that asked the wrong broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from headrace.cluster.topology import NO_LEADER, Topic

if TYPE_CHECKING:
    from headrace.broker.node import Broker


class LeaderHint(NamedTuple):
    """The leader of a partition and its epoch, as far as this broker knows."""

    leader_id: int
    leader_epoch: int


class NodeHint(NamedTuple):
    """A broker's address, on the listener that the client used."""

    node_id: int
    host: str
    port: int
    rack: str | None


def topic_of(broker: Broker, name: str, topic_id: bytes) -> Topic | None:
    """The topic that a request names in one way or the other."""
    image = broker.metadata.image
    return image.topics.get(name) if name else image.topics_by_id.get(topic_id)


def leader_hint(topic: Topic | None, index: int) -> LeaderHint | None:
    """None where nobody leads: the client asks for metadata then."""
    partition = topic.partition(index) if topic is not None else None
    if partition is None or partition.leader == NO_LEADER:
        return None
    return LeaderHint(partition.leader, partition.leader_epoch)


def node_hints(broker: Broker, listener: str, leaders: Iterable[int]) -> list[NodeHint]:
    """The addresses of these brokers, each once."""
    hints = []
    for broker_id in dict.fromkeys(leaders):
        known = broker.metadata.image.brokers.get(broker_id)
        endpoint = known.endpoint(listener) if known is not None else None
        if known is not None and endpoint is not None:
            hints.append(NodeHint(broker_id, endpoint.host, endpoint.port, known.rack))
    return hints
