"""The locks of share partitions in DescribeShareGroupOffsets (tagged fields of Headrace's own)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsLock,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from headrace.share.in_flight import AcquisitionLock, InFlightRecords, UnheldRecords

MAX_LOCKS_PER_PARTITION: Final = 100
MAX_LOCKS_PER_GROUP: Final = 1000  # encoded within a few milliseconds

Held = Mapping[SharePartitionKey, InFlightRecords]


def request_of(
    group_id: str, keys: Iterable[SharePartitionKey], name_of: Callable[[bytes], str]
) -> DescribeShareGroupOffsetsRequest:
    """The question of one broker to the leader of the partitions."""
    topics: dict[bytes, list[int]] = {}
    for key in keys:
        topics.setdefault(key.topic_id, []).append(key.partition)
    named = [
        DescribeShareGroupOffsetsRequestTopic(topic_name=name_of(topic_id), partitions=partitions)
        for topic_id, partitions in topics.items()
    ]
    return DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=named)],
        include_locks=True,
        locks_only=True,
    )


def add_locks(
    group_id: str, topics: Iterable[DescribeShareGroupOffsetsResponseTopic], held: Held
) -> None:
    """Adds what is in flight to the partitions of a response, with a limit for the whole group."""
    left = MAX_LOCKS_PER_GROUP
    for topic in topics:
        for described in topic.partitions:
            key = SharePartitionKey(group_id, bytes(topic.topic_id), described.partition_index)
            found = held.get(key)
            if found is not None:
                found = found.limited(left)
                left -= len(found.locks)
                _fill(described, found)


def _fill(described: DescribeShareGroupOffsetsResponsePartition, found: InFlightRecords) -> None:
    described.acquired_records = found.acquired
    described.locks = [
        DescribeShareGroupOffsetsLock(
            first_offset=lock.first,
            last_offset=lock.last,
            member_id=lock.member,
            delivery_count=lock.deliveries,
            expires_ms=lock.expires_ms,
        )
        for lock in found.locks
    ]
    described.omitted_locks = found.omitted_locks
    if found.others is not None:
        (
            described.available_records,
            described.acknowledged_records,
            described.archiving_records,
            described.archived_records,
        ) = found.others


def locks_in(
    response: DescribeShareGroupOffsetsResponse,
) -> Iterator[tuple[SharePartitionKey, InFlightRecords]]:
    """The partitions whose leader has answered; none from a broker that does not know locks."""
    for group in response.groups:
        for topic in group.topics:
            for described in topic.partitions:
                if described.error_code or described.acquired_records < 0:
                    continue
                yield (
                    SharePartitionKey(
                        group.group_id, bytes(topic.topic_id), described.partition_index
                    ),
                    _decoded(described),
                )


def _decoded(described: DescribeShareGroupOffsetsResponsePartition) -> InFlightRecords:
    locks = tuple(
        AcquisitionLock(
            lock.first_offset,
            lock.last_offset,
            lock.member_id,
            lock.delivery_count,
            lock.expires_ms,
        )
        for lock in described.locks
    )
    others = None
    if described.available_records >= 0:
        others = UnheldRecords(
            described.available_records,
            described.acknowledged_records,
            described.archiving_records,
            described.archived_records,
        )
    return InFlightRecords(described.acquired_records, locks, described.omitted_locks, others)
