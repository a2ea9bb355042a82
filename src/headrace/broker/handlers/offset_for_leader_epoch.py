"""OffsetForLeaderEpoch (key 23), versions 2-4: finds the end offset of a leader epoch.

Clients and followers use it to detect log truncation.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochEpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from headrace.replication.sole_leader import SoleLeader
from headrace.security.authorization.acl import AclOperation
from headrace.storage.errors import StorageError

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: OffsetForLeaderEpochRequest) -> Verdict:
    if check.access.shows_cluster(check.session, AclOperation.CLUSTER_ACTION):
        return None  # a follower
    return check.filter_topics(AclOperation.DESCRIBE, attrgetter("topic"))


def handle(
    broker: Broker, context: Context, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _epoch_end_offset(broker, topic.topic, asked) for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _epoch_end_offset(
    broker: Broker, topic: str, asked: OffsetForLeaderPartition
) -> OffsetForLeaderEpochEpochEndOffset:
    leader = broker.partitions.find_at_epoch(topic, asked.partition, asked.current_leader_epoch)
    if not isinstance(leader, SoleLeader):
        return OffsetForLeaderEpochEpochEndOffset(partition=asked.partition, error_code=leader)
    try:
        epoch, end_offset = leader.log.end_offset_for_epoch(asked.leader_epoch)
    except StorageError as error:
        return OffsetForLeaderEpochEpochEndOffset(partition=asked.partition, error_code=error.code)
    return OffsetForLeaderEpochEpochEndOffset(
        error_code=ErrorCode.NONE,
        partition=asked.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )
