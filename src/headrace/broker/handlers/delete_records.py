"""DeleteRecords (key 21), versions 0-2: advances the log start offset of partitions.

The response waits until every live replica has deleted the records, or until the request times
out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.broker.partitions.delete_records import DelayedDeleteRecords, delete_records
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from headrace.security.authorization.acl import AclOperation

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: DeleteRecordsRequest) -> Verdict:
    return check.filter_topics(AclOperation.DELETE)


def handle(
    broker: Broker, context: Context, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]:
    deleted = [
        [
            delete_records(broker.partitions, topic.name, asked.partition_index, asked.offset)
            for asked in topic.partitions
        ]
        for topic in request.topics
    ]

    def respond() -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[
                        DeleteRecordsPartitionResult(
                            partition_index=asked.partition_index,
                            low_watermark=each.low_watermark,
                            error_code=each.error,
                        )
                        for asked, each in zip(topic.partitions, partitions, strict=True)
                    ],
                )
                for topic, partitions in zip(request.topics, deleted, strict=True)
            ]
        )

    every = [each for partitions in deleted for each in partitions]
    if all(each.leader is None for each in every):
        return respond()
    timeout_s = max(0, request.timeout_ms) / 1000
    return DelayedDeleteRecords(
        broker.loop, lambda: broker.metadata.image, every, timeout_s, respond
    ).future
