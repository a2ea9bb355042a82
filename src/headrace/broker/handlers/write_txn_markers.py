"""WriteTxnMarkers (key 27), versions 1-2: ends transactions in partitions of this broker.

Sent by other brokers' coordinators, and by tools that abort a hanging transaction. v2 says by
which protocol the transaction ends (KIP-1228), which decides how the epoch is checked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.commits import when_committed
from headrace.broker.dispatch import Context
from headrace.broker.handlers.errors import failure
from headrace.broker.transaction_markers import append_marker
from headrace.coordinator.turn import Producer
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headrace.replication.leader import Leader
from headrace.storage.errors import StorageError

if TYPE_CHECKING:
    from headrace.broker.node import Broker


async def handle(
    broker: Broker, context: Context, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    waiting: list[tuple[asyncio.Future[ErrorCode], WritableTxnMarkerPartitionResult]] = []
    results = []
    for marker in request.markers:
        topics = []
        for topic in marker.topics:
            partitions = []
            for index in topic.partition_indexes:
                result = WritableTxnMarkerPartitionResult(partition_index=index)
                leader = _write(broker, marker, topic.name, index)
                if not isinstance(leader, Leader):
                    result.error_code = leader
                else:
                    end = leader.log.log_end_offset
                    done = when_committed(broker.loop, broker.flusher, leader, end)
                    waiting.append((done, result))
                partitions.append(result)
            topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
        results.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
    for done, result in waiting:
        result.error_code = await done
    return WriteTxnMarkersResponse(markers=results)


def _write(broker: Broker, marker: WritableTxnMarker, topic: str, index: int) -> Leader | ErrorCode:
    leader = broker.partitions.find(topic, index)
    if not isinstance(leader, Leader):
        return leader
    try:
        append_marker(
            broker,
            leader,
            Producer(marker.producer_id, marker.producer_epoch),
            commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            version=marker.transaction_version,
        )
    except StorageError as error:
        return failure(error)[0]
    return leader
