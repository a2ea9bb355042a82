"""DeleteRecords (key 21), versions 0-2: moves a partition's log start forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.dispatch import Context
from headrace.cluster.topology import INTERNAL_TOPICS
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from headrace.replication.leader import Leader
from headrace.storage.config import DELETE
from headrace.storage.errors import StorageError

if TYPE_CHECKING:
    from headrace.broker.node import Broker

UP_TO_HIGH_WATERMARK: Final = -1
NO_LOW_WATERMARK: Final = -1


def handle(
    broker: Broker, context: Context, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(broker, topic.name, asked.partition_index, asked.offset)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete(broker: Broker, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    if topic in INTERNAL_TOPICS:
        return _failed(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    leader = broker.partitions.find(topic, index)
    if not isinstance(leader, Leader):
        return _failed(index, leader)
    try:
        log = leader.log
        if DELETE not in log.config.cleanup_policy:
            return _failed(index, ErrorCode.POLICY_VIOLATION)
        before = leader.high_watermark if offset == UP_TO_HIGH_WATERMARK else offset
        if not 0 <= before <= leader.high_watermark:
            return _failed(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        if before > log.log_start_offset:
            log.delete_before(before)
            leader.interrupt()
    except StorageError as error:
        return _failed(index, error.code)
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=log.log_start_offset)


def _failed(index: int, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=NO_LOW_WATERMARK, error_code=error
    )
