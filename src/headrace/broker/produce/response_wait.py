"""When Produce responds: after pending flushes, and with acks=all after the commit."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Protocol

from headrace.broker.metadata.standalone_metadata import MetadataView
from headrace.broker.network.dispatch import Context
from headrace.broker.partitions.flusher import Flusher
from headrace.broker.partitions.leader_hints import WrongLeader, add_leader_hints, topic_of
from headrace.broker.produce.delayed_produce import DelayedProduce
from headrace.cluster.image import MetadataImage
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceLeaderIdAndEpoch,
    ProduceNodeEndpoint,
    ProduceRequest,
    ProduceResponse,
)
from headrace.replication.sole_leader import SoleLeader

ACKS_ALL: Final = -1
FIRST_VERSION_WITH_LEADERS: Final = 10
NOT_LEADER_OR_FOLLOWER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER


class ResponseWaitHost(Protocol):
    """The part of the broker that the answers to Produce use."""

    loop: asyncio.AbstractEventLoop
    flusher: Flusher

    @property
    def metadata(self) -> MetadataView: ...


class Appended(NamedTuple):
    """An appended batch, whose response may have to wait for a flush or for the commit."""

    partition: PartitionProduceResponse
    leader: SoleLeader
    next_offset: int


Appends = list[Appended]


def answer_when_done(
    host: ResponseWaitHost,
    context: Context,
    request: ProduceRequest,
    response: ProduceResponse,
    appends: Appends,
) -> ProduceResponse | asyncio.Future[ProduceResponse | bytes | None] | None:
    """The response, or a future of it while flushes or commits are pending."""
    acks = request.acks
    if acks == 0:
        _close_on_error(context, response)
        return None
    delayed: DelayedProduce | None = None
    for partition, leader, next_offset in appends:
        if leader.high_watermark >= next_offset:
            continue
        flush = leader.flush_pending
        if not flush and acks != ACKS_ALL:
            continue
        if delayed is None:
            delayed = DelayedProduce(
                host.loop, response, lambda done: add_leaders(host.metadata.image, context, done)
            )
        if acks == ACKS_ALL:
            delayed.wait_for_commit(partition, leader, next_offset)
        if flush:
            delayed.wait_for_flush(partition, host.flusher.flush(leader))
    if delayed is None:
        add_leaders(host.metadata.image, context, response)
        return response
    # The request's bytes are valid only until the event loop runs again.
    for data in request.topic_data:
        for asked in data.partition_data:
            asked.records = None
    return delayed.start(max(0, request.timeout_ms) / 1000)


def add_leaders(image: MetadataImage, context: Context, response: ProduceResponse) -> None:
    if context.version < FIRST_VERSION_WITH_LEADERS:
        return
    wrong = (
        WrongLeader(topic_of(image, data.name, data.topic_id), partition.index, partition)
        for data in response.responses
        for partition in data.partition_responses
        if partition.error_code == NOT_LEADER_OR_FOLLOWER
    )
    response.node_endpoints = add_leader_hints(
        image, context.connection.listener, wrong, ProduceLeaderIdAndEpoch, ProduceNodeEndpoint
    )


def _close_on_error(context: Context, response: ProduceResponse) -> None:
    """acks=0 has no response, so that only a closed connection can report an error."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                where = f"{topic.name}-{partition.index}"
                context.connection.close(
                    f"Produce with acks=0 failed for {where}: error {partition.error_code}"
                )
                return
