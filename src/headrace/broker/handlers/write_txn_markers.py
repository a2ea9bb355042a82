"""WriteTxnMarkers (key 27), versions 1-2: writes transaction markers to partitions of this broker.

* v2: the transaction version, which decides how the producer epoch is checked (KIP-1228).

Coordinators on other brokers send it, and so do tools that abort a hanging transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.broker.membership.peers import CLIENT_ID_PREFIX
from headrace.broker.metadata.change_log import log_changes
from headrace.broker.network.dispatch import Context
from headrace.broker.partitions.commit_wait import when_committed
from headrace.broker.runtime.error_codes import failure
from headrace.broker.transactions.txn_marker_append import append_marker
from headrace.coordinator.common.result import ProducerIdentity
from headrace.log_event import LogEvent, examples
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headrace.replication.sole_leader import SoleLeader
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
                leader = _append_marker(broker, marker, topic.name, index)
                if not isinstance(leader, SoleLeader):
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
    if not context.client_id.startswith(CLIENT_ID_PREFIX):
        log_changes(context, ApiKey.WRITE_TXN_MARKERS, _ended_by_hand(request))
    return WriteTxnMarkersResponse(markers=results)


def _ended_by_hand(request: WriteTxnMarkersRequest) -> Iterator[LogEvent]:
    """The transactions that an operator has ended with a tool."""
    for marker in request.markers:
        names = [
            f"{topic.name}-{index}" for topic in marker.topics for index in topic.partition_indexes
        ]
        fields = {
            "producer_id": marker.producer_id,
            "producer_epoch": marker.producer_epoch,
            "outcome": "commit" if marker.transaction_result else "abort",
            "partitions": len(names),
            "examples": examples(names),
        }
        yield LogEvent(logging.WARNING, "ended a transaction by hand", fields)


def _append_marker(
    broker: Broker, marker: WritableTxnMarker, topic: str, index: int
) -> SoleLeader | ErrorCode:
    leader = broker.partitions.find(topic, index)
    if not isinstance(leader, SoleLeader):
        return leader
    try:
        append_marker(
            broker,
            leader,
            ProducerIdentity(marker.producer_id, marker.producer_epoch),
            commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            version=marker.transaction_version,
        )
    except StorageError as error:
        return failure(error)[0]
    return leader
