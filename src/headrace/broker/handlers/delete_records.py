"""DeleteRecords (key 21), versions 0-2: advances the log start offset of partitions.

The response waits until every live replica has deleted the records, or until the request times
out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.broker.network.dispatch import Context
from headrace.cluster.topology import INTERNAL_TOPICS
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from headrace.replication.leader import Leader
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import StorageError
from headrace.storage.state.log_config import DELETE

if TYPE_CHECKING:
    from headrace.broker.node import Broker

UP_TO_HIGH_WATERMARK: Final = -1
NO_LOW_WATERMARK: Final = -1


def handle(
    broker: Broker, context: Context, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]:
    waits: list[_Wait] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(broker, topic.name, asked.partition_index, asked.offset, waits)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    if not waits:
        return response
    return _DelayedDelete(broker, response, waits, max(0, request.timeout_ms) / 1000).future


class _Wait(NamedTuple):
    """Records that some follower still has."""

    leader: Leader
    before: int
    result: DeleteRecordsPartitionResult


class _DelayedDelete:
    """Answers when every live replica has dropped the records, or when the time is up."""

    def __init__(
        self,
        broker: Broker,
        response: DeleteRecordsResponse,
        waits: list[_Wait],
        timeout_s: float,
    ) -> None:
        self.future: asyncio.Future[DeleteRecordsResponse] = broker.loop.create_future()
        self._broker = broker
        self._response = response
        self._waits = waits
        self._timer = broker.loop.call_later(timeout_s, self._give_up)
        for wait in waits:
            wait.leader.watch_starts(self._look)
        self.future.add_done_callback(lambda _: self._forget())
        self._look()

    def _look(self) -> None:
        live = {broker.broker_id for broker in self._broker.metadata.image.live_brokers()}
        missing = False
        for leader, before, result in self._waits:
            if leader.closed:
                result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                result.low_watermark = NO_LOW_WATERMARK
                continue
            result.low_watermark = leader.low_watermark(live)
            missing = missing or result.low_watermark < before
        if not missing and not self.future.done():
            self.future.set_result(self._response)

    def _give_up(self) -> None:
        for _, before, result in self._waits:
            if result.low_watermark < before and not result.error_code:
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
        if not self.future.done():
            self.future.set_result(self._response)

    def _forget(self) -> None:
        self._timer.cancel()
        for wait in self._waits:
            wait.leader.unwatch_starts(self._look)


def _delete(
    broker: Broker, topic: str, index: int, offset: int, waits: list[_Wait]
) -> DeleteRecordsPartitionResult:
    if topic in INTERNAL_TOPICS:
        return _failed(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    leader = broker.partitions.find(topic, index)
    if not isinstance(leader, SoleLeader):
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
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=log.log_start_offset)
    if isinstance(leader, Leader):
        waits.append(_Wait(leader, before, result))
    return result


def _failed(index: int, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=NO_LOW_WATERMARK, error_code=error
    )
