"""The embedded consumer protocol: the bytes in JoinGroup and SyncGroup, decoded and encoded.

The bytes start with their version. A version newer than the newest known one is read as that one:
fields are only added at the end.
"""

import struct
from typing import Final, TypeVar

from headrace.cluster.image import MetadataImage
from headrace.coordinator.group.consumer.member import Owned
from headrace.coordinator.group.consumer.reconciliation import Reported
from headrace.coordinator.group.modern.assignor_spec import Assignment
from headrace.coordinator.group.modern.subscribed_topics import with_topic_names
from headrace.protocol.errors import ProtocolError
from headrace.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

S = TypeVar("S", ConsumerProtocolAssignment, ConsumerProtocolSubscription)

_VERSION: Final = struct.Struct(">h")
_NEWEST_VERSION: Final = 3


class MalformedProtocol(Exception):
    """The bytes are not of the consumer protocol."""


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Decodes a subscription; raises `MalformedProtocol`."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Decodes an assignment, which is empty for empty bytes; raises `MalformedProtocol`."""
    return _read(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()


def _read(kind: type[S], data: bytes) -> S:
    try:
        read, _ = kind.read(data, _VERSION.size, len(data), protocol_version(data))
    except (ProtocolError, struct.error) as error:
        raise MalformedProtocol(str(error)) from error
    return read


def protocol_version(data: bytes) -> int:
    """The version of the bytes, as far as it is known."""
    try:
        (version,) = _VERSION.unpack_from(data)
    except struct.error as error:
        raise MalformedProtocol("no version") from error
    if version < 0:
        raise MalformedProtocol(f"version {version}")
    return min(int(version), _NEWEST_VERSION)


def write_assignment(assignment: Assignment, image: MetadataImage, version: int) -> bytes:
    """Encodes an assignment for a consumer that sent its subscription in that version."""
    topics = [
        ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=partitions)
        for name, _, partitions in with_topic_names(assignment, image)
    ]
    body = ConsumerProtocolAssignment(assigned_partitions=topics).encode(version)
    return _VERSION.pack(version) + body


def assignment_of(assignment: ConsumerProtocolAssignment, image: MetadataImage) -> Assignment:
    """The assignment by topic id, without deleted topics."""
    return {
        image.topics[one.topic].topic_id: frozenset(one.partitions)
        for one in assignment.assigned_partitions
        if one.topic in image.topics and one.partitions
    }


def reported_by(subscription: ConsumerProtocolSubscription, image: MetadataImage) -> Reported:
    """The owned partitions in the subscription: none before version 1."""
    return {
        image.topics[one.topic].topic_id: frozenset(one.partitions)
        for one in subscription.owned_partitions
        if one.topic in image.topics and one.partitions
    }


def without_epochs(owned: Owned) -> Assignment:
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}
