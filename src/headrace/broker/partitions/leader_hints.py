"""The current leader in the response to a client that asked the wrong broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import NO_LEADER, Topic
from headrace.protocol.errors import ErrorCode

WRONG_LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

LeaderT = TypeVar("LeaderT")
EndpointT = TypeVar("EndpointT")


class PartitionResponse(Protocol[LeaderT]):
    """A partition in a response that has a field for the current leader."""

    current_leader: LeaderT


class WrongLeader(NamedTuple, Generic[LeaderT]):
    """A partition of a response for which the client asked the wrong broker."""

    topic: Topic | None
    partition: int
    response: PartitionResponse[LeaderT]


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
    """The topic of a request that has either its name or its id."""
    return image.topics.get(name) if name else image.topics_by_id.get(topic_id)


def leader_hint(topic: Topic | None, index: int) -> LeaderHint | None:
    """The partition's leader; None if there is none: the client then requests metadata."""
    partition = topic.partition(index) if topic is not None else None
    if partition is None or partition.leader == NO_LEADER:
        return None
    return LeaderHint(partition.leader, partition.leader_epoch)


def add_leader_hints(
    image: MetadataImage,
    listener: str,
    wrong: Iterable[WrongLeader[LeaderT]],
    leader: Callable[..., LeaderT],
    endpoint: Callable[..., EndpointT],
) -> list[EndpointT]:
    """Sets the current leader of each partition that has one; returns the leaders' endpoints.

    `leader` and `endpoint` are the structs of the API: they differ in name only.
    """
    leader_ids: set[int] = set()
    for topic, partition, response in wrong:
        hint = leader_hint(topic, partition)
        if hint is not None:
            response.current_leader = leader(**hint._asdict())
            leader_ids.add(hint.leader_id)
    hints = node_hints(image, listener, sorted(leader_ids))
    return [endpoint(**hint._asdict()) for hint in hints]


def node_hints(image: MetadataImage, listener: str, leaders: Iterable[int]) -> list[NodeHint]:
    """The addresses of these brokers, each once."""
    hints = []
    for broker_id in dict.fromkeys(leaders):
        known = image.brokers.get(broker_id)
        endpoint = known.endpoint(listener) if known is not None else None
        if known is not None and endpoint is not None:
            hints.append(NodeHint(broker_id, endpoint.host, endpoint.port, known.rack))
    return hints
