"""ListOffsets (key 2), versions 1-11: finds offsets by timestamp or by special timestamp.

* -1: latest.
* -2: earliest.
* -3: the record with the largest timestamp (v7).
* -4: earliest local (v8).
* -5: latest tiered (v9).
* -6: earliest pending upload (v11).

Headrace's own tagged fields ask for the next record of consumers (v6, `broker/lag`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.replication.leader import Leader
from headrace.replication.sole_leader import SoleLeader
from headrace.security.authorization.acl import AclOperation
from headrace.storage.errors import StorageError

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker
    from headrace.broker.partitions.partition_table import PartitionTable

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
SINCE_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
READ_COMMITTED: Final = 1
CONSUMER_REPLICA_ID: Final = -1
FIRST_VERSION_WITH_EPOCHS: Final = 4
FIRST_VERSION_WITH_UNAVAILABLE: Final = 5
UNKNOWN: Final = (-1, -1, -1)

Found = tuple[int, int, int]  # timestamp, offset, leader epoch
Bound = Callable[[SoleLeader], int]


def authorize(broker: Broker, check: RequestCheck, request: ListOffsetsRequest) -> Verdict:
    return check.filter_topics(AclOperation.DESCRIBE)


def handle(
    broker: Broker, context: Context, request: ListOffsetsRequest
) -> ListOffsetsResponse | asyncio.Future[ListOffsetsResponse]:
    response = list_offsets(broker.partitions, context.version, request)
    if any(partition.positions for topic in request.topics for partition in topic.partitions):
        return broker.loop.create_task(broker.lag.add_next_records(request, response))
    return response


def list_offsets(
    table: PartitionTable, version: int, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    """The offsets, or errors, of the partitions of the request, in its order."""
    counts = Counter(
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    bound = _upper_bound(request)
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            if counts[topic.name, asked.partition_index] > 1:
                partitions.append(_failed_partition(asked, ErrorCode.INVALID_REQUEST))
            else:
                partitions.append(_find(table, version, topic.name, asked, bound))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _upper_bound(request: ListOffsetsRequest) -> Bound:
    """The offset up to which the caller may read; the log end offset if it is not a consumer."""
    if request.replica_id != CONSUMER_REPLICA_ID:
        return lambda leader: leader.log.log_end_offset
    if request.isolation_level == READ_COMMITTED:
        return lambda leader: leader.last_stable_offset
    return lambda leader: leader.high_watermark


def _find(
    table: PartitionTable, version: int, topic: str, asked: ListOffsetsPartition, bound: Bound
) -> ListOffsetsPartitionResponse:
    since = 1 if asked.timestamp >= 0 else SINCE_VERSION.get(asked.timestamp)
    if since is None or version < since:
        return _failed_partition(asked, ErrorCode.UNSUPPORTED_VERSION)
    leader = table.find_at_epoch(topic, asked.partition_index, asked.current_leader_epoch)
    if not isinstance(leader, SoleLeader):
        return _failed_partition(asked, leader)
    try:
        timestamp, offset, epoch = found = _find_offset(leader, asked.timestamp, bound)
    except StorageError as error:
        return _failed_partition(asked, error.code)
    is_end = asked.timestamp == LATEST or found == UNKNOWN
    if is_end and asked.timestamp > LATEST_TIERED and _may_be_stale(leader, offset):
        has_code = version >= FIRST_VERSION_WITH_UNAVAILABLE
        return _failed_partition(
            asked, ErrorCode.OFFSET_NOT_AVAILABLE if has_code else ErrorCode.LEADER_NOT_AVAILABLE
        )
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if version >= FIRST_VERSION_WITH_EPOCHS else -1,
    )


def _may_be_stale(leader: SoleLeader, offset: int) -> bool:
    """Whether `offset` may be below one that an earlier leader has returned (KIP-207)."""
    return (
        isinstance(leader, Leader)
        and not leader.knows_watermark
        and offset < leader.log.log_end_offset
    )


def _find_offset(leader: SoleLeader, timestamp: int, bound: Bound) -> Found:
    log = leader.log  # first: opening the log sets the high watermark
    end = bound(leader)
    if timestamp == LATEST:
        return -1, end, log.latest_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epoch_at(log.log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return UNKNOWN  # there is no tiered storage
    found = (
        log.max_timestamp_offset()
        if timestamp == MAX_TIMESTAMP
        else log.offset_for_timestamp(timestamp)
    )
    if found is None or found[1] >= end:
        return UNKNOWN
    return found[0], found[1], found[2]


def _failed_partition(
    asked: ListOffsetsPartition, error: ErrorCode
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)
