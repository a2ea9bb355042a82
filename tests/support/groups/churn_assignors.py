"""The assignment by the leader of a classic group, and its format in consumers."""

import struct
from collections.abc import Collection, Mapping
from typing import NamedTuple

from headrace.coordinator.group.consumer.embedded_protocol import read_assignment, read_subscription
from headrace.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

EAGER = "range"
COOPERATIVE = "cooperative-sticky"
_VERSION = 3

Named = tuple[str, int]


class Claim(NamedTuple):
    """The partitions that a member claims to own, and the generation of the claim."""

    owned: frozenset[Named]
    generation: int


def share_out(
    protocol: str, claims: Mapping[str, Claim], topics: Mapping[str, int]
) -> dict[str, set[Named]]:
    """Partitions by member: all of them, except those that a member must give up first."""
    if protocol == COOPERATIVE:
        return _cooperative(claims, topics)
    members = sorted(claims)
    shares: dict[str, set[Named]] = {one: set() for one in members}
    for topic, partitions in topics.items():
        for index in range(partitions):
            shares[members[index * len(members) // partitions]].add((topic, index))
    return shares


def _cooperative(claims: Mapping[str, Claim], topics: Mapping[str, int]) -> dict[str, set[Named]]:
    """Each member keeps its partitions up to a fair share; only partitions without an owner move.
    Of two claims the newer one wins, but an old claim may be true: when a group changes back from
    the consumer protocol, its members have different generations.
    """
    partitions = [(topic, index) for topic, size in topics.items() for index in range(size)]
    owners = {
        partition: member_id
        for member_id, claim in sorted(claims.items(), key=lambda item: item[1].generation)
        for partition in claim.owned
    }
    fair = -(-len(partitions) // len(claims))
    shares: dict[str, set[Named]] = {one: set() for one in sorted(claims)}
    for partition in partitions:
        owner = owners.get(partition)
        if owner is not None and len(shares[owner]) < fair:
            shares[owner].add(partition)
    for partition in partitions:
        if partition not in owners:
            min(shares.values(), key=len).add(partition)
    return shares


def write_subscription(topics: Collection[str], owned: Collection[Named], generation: int) -> bytes:
    subscription = ConsumerProtocolSubscription(
        topics=sorted(topics),
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in _by_topic(owned).items()
        ],
        generation_id=generation,
    )
    return struct.pack(">h", _VERSION) + subscription.encode(_VERSION)


def read_claim(data: bytes) -> Claim:
    subscription = read_subscription(data)
    owned = {
        (one.topic, index) for one in subscription.owned_partitions for index in one.partitions
    }
    return Claim(frozenset(owned), subscription.generation_id)


def write_share(share: Collection[Named]) -> bytes:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in _by_topic(share).items()
        ]
    )
    return struct.pack(">h", _VERSION) + assignment.encode(_VERSION)


def read_share(data: bytes) -> set[Named]:
    return {
        (one.topic, index)
        for one in read_assignment(data).assigned_partitions
        for index in one.partitions
    }


def _by_topic(partitions: Collection[Named]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics
