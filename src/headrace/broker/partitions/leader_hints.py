"""Who leads instead: what an answer tells a client that asked the wrong broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import NO_LEADER, Topic
from headrace.protocol.errors import ErrorCode

ASKED_THE_WRONG_ONE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


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


def topic_of(image: MetadataImage, name: str, topic_id: bytes) -> Topic | None:
    """The topic that a request names in one way or the other."""
    return image.topics.get(name) if name else image.topics_by_id.get(topic_id)


def leader_hint(topic: Topic | None, index: int) -> LeaderHint | None:
    """None where nobody leads: the client asks for metadata then."""
    partition = topic.partition(index) if topic is not None else None
    if partition is None or partition.leader == NO_LEADER:
        return None
    return LeaderHint(partition.leader, partition.leader_epoch)


def leader_hints(
    image: MetadataImage, partitions: Iterable[tuple[bytes, int]]
) -> dict[tuple[bytes, int], LeaderHint]:
    """Who leads these partitions of topics by id; without those that nobody leads."""
    topics = image.topics_by_id
    hints = {each: leader_hint(topics.get(each[0]), each[1]) for each in partitions}
    return {each: hint for each, hint in hints.items() if hint is not None}


def node_hints(image: MetadataImage, listener: str, leaders: Iterable[int]) -> list[NodeHint]:
    """The addresses of these brokers, each once."""
    hints = []
    for broker_id in dict.fromkeys(leaders):
        known = image.brokers.get(broker_id)
        endpoint = known.endpoint(listener) if known is not None else None
        if known is not None and endpoint is not None:
            hints.append(NodeHint(broker_id, endpoint.host, endpoint.port, known.rack))
    return hints
