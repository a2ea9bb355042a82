"""Produce (key 0), versions 3-13: appends record batches.

* v3: record batches of magic 2. v0-v2 are advertised for old librdkafka, and refused.
* v5: the response has the log start offset.
* v7: zstd.
* v8: errors per record.
* v9: flexible.
* v10: the response has the new leader and its endpoint for partitions with a wrong leader.
* v11: TRANSACTION_ABORTABLE.
* v12: a write adds its partition to the transaction (KIP-890).
* v13: topics by id.
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context, resolve_reply
from headrace.broker.produce.append_batch import (
    PendingValidations,
    append_batch,
    append_validated_batches,
    count_failed,
    find_leader,
)
from headrace.broker.produce.delayed_produce import DelayedSingleProduce
from headrace.broker.produce.partition_response import appended_response, error_response
from headrace.broker.produce.produce_access import remove_denied_topics, repeats_grant
from headrace.broker.produce.response_template import (
    FIRST_VERSION_WITH_LOG_START,
    response_template,
)
from headrace.broker.produce.response_wait import (
    ACKS_ALL,
    Appended,
    Appends,
    add_leaders,
    answer_when_done,
)
from headrace.broker.produce.transactional_produce import Admission
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.log.log import AppendResult

if TYPE_CHECKING:
    from headrace.broker.node import Broker

NAMES_ITSELF: Final = True
"""This module sets CURRENT_API where it decides: most requests repeat what was allowed before."""

Reply = (
    ProduceResponse
    | bytes
    | asyncio.Future[ProduceResponse | bytes | None]
    | Coroutine[object, object, ProduceResponse | bytes | None]
)


def handle(broker: "Broker", context: Context, request: ProduceRequest) -> Reply | None:
    denied: list[TopicProduceResponse] = []
    if broker.access.is_enforced and not repeats_grant(context, request):
        denied = remove_denied_topics(broker, context, request)
        if denied and not request.topic_data:
            response = ProduceResponse(responses=denied)
            return answer_when_done(broker, context, request, response, [])
    if request.transactional_id is None:
        return _append_and_respond(broker, context, request, None, denied)
    admission = Admission(broker, context.version, request)
    pending = admission.verify_partitions()
    if pending is None:
        return _append_and_respond(broker, context, request, admission, denied)
    # Copies: the request's bytes are valid only until the event loop runs again.
    for data in request.topic_data:
        for partition in data.partition_data:
            if isinstance(partition.records, memoryview):
                partition.records = memoryview(bytearray(partition.records))
    return _append_when_verified(broker, context, request, admission, denied, pending)


async def _append_when_verified(
    broker: "Broker",
    context: Context,
    request: ProduceRequest,
    admission: Admission,
    denied: list[TopicProduceResponse],
    pending: "asyncio.Future[ErrorCode]",
) -> ProduceResponse | bytes | None:
    """Appends after the transaction coordinator has verified or added the partitions."""
    admission.apply_verdict(await pending)
    return await resolve_reply(_append_and_respond(broker, context, request, admission, denied))


def _append_and_respond(
    broker: "Broker",
    context: Context,
    request: ProduceRequest,
    admission: Admission | None,
    denied: list[TopicProduceResponse],
) -> Reply | None:
    version = context.version
    acks = request.acks
    topics = request.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1 and acks in (1, -1) and not denied:
        return _append_to_one_partition(broker, context, request, admission)
    appends: Appends = []
    validations: PendingValidations = []
    if -1 <= acks <= 1:
        response = _append_to_all_partitions(
            broker, version, request, admission, appends, validations
        )
    else:
        response = _reject_request(request, ErrorCode.INVALID_REQUIRED_ACKS)
    response.responses += denied
    if validations:
        return _respond_after_validation(broker, context, request, response, validations, appends)
    return answer_when_done(broker, context, request, response, appends)


def _append_to_one_partition(
    broker: "Broker", context: Context, request: ProduceRequest, admission: Admission | None
) -> Reply | None:
    """The common case: one partition, whose response is a template with a few numbers."""
    version = context.version
    data = request.topic_data[0]
    partition = data.partition_data[0]
    acks = request.acks
    topic, leader = find_leader(broker.partitions, version, data, partition.index)
    if not isinstance(leader, SoleLeader):
        response = _single_partition_response(data, error_response(partition.index, leader))
        add_leaders(broker.metadata.image, context, response)
        return response
    assert topic is not None
    validations: PendingValidations = []
    result = append_batch(version, acks, leader, partition, broker.clock, admission, validations)
    if isinstance(result, AppendResult):
        committed = leader.high_watermark > result.last_offset
        if version >= FIRST_VERSION_WITH_LOG_START and (committed or not leader.flush_pending):
            ready = response_template(topic, version).encode(
                partition.index, result, leader.log.log_start_offset
            )
            if committed or acks != ACKS_ALL:
                return ready
            return _wait_for_commit(broker, context, request, leader, result, ready)
        answer = appended_response(leader, result)
        appends = [Appended(answer, leader, result.last_offset + 1)]
        return answer_when_done(
            broker, context, request, _single_partition_response(data, answer), appends
        )
    count_failed(leader, result, len(partition.records or b""))
    response = _single_partition_response(data, result)
    if validations:
        return _respond_after_validation(broker, context, request, response, validations, [])
    return response


def _wait_for_commit(
    broker: "Broker",
    context: Context,
    request: ProduceRequest,
    leader: SoleLeader,
    result: AppendResult,
    ready: bytes,
) -> "asyncio.Future[ProduceResponse | bytes | None]":
    data = request.topic_data[0]

    def refuse(code: ErrorCode) -> ProduceResponse:
        answer = appended_response(leader, result)
        answer.error_code = code
        response = _single_partition_response(data, answer)
        add_leaders(broker.metadata.image, context, response)
        return response

    next_offset = result.last_offset + 1
    # The request's bytes are valid only until the event loop runs again.
    data.partition_data[0].records = None
    timeout_s = max(0, request.timeout_ms) / 1000
    return DelayedSingleProduce(broker.loop, leader, next_offset, timeout_s, ready, refuse).future


def _single_partition_response(
    data: TopicProduceData, partition: PartitionProduceResponse
) -> ProduceResponse:
    topic = TopicProduceResponse(
        name=data.name, topic_id=data.topic_id, partition_responses=[partition]
    )
    return ProduceResponse(responses=[topic])


def _append_to_all_partitions(
    broker: "Broker",
    version: int,
    request: ProduceRequest,
    admission: Admission | None,
    appends: Appends,
    validations: PendingValidations,
) -> ProduceResponse:
    acks, clock = request.acks, broker.clock
    responses = []
    for data in request.topic_data:
        partitions = []
        for partition in data.partition_data:
            _, leader = find_leader(broker.partitions, version, data, partition.index)
            if not isinstance(leader, SoleLeader):
                partitions.append(error_response(partition.index, leader))
                continue
            result = append_batch(version, acks, leader, partition, clock, admission, validations)
            if isinstance(result, AppendResult):
                answer = appended_response(leader, result)
                appends.append(Appended(answer, leader, result.last_offset + 1))
                partitions.append(answer)
            else:
                count_failed(leader, result, len(partition.records or b""))
                partitions.append(result)
        responses.append(
            TopicProduceResponse(
                name=data.name, topic_id=data.topic_id, partition_responses=partitions
            )
        )
    return ProduceResponse(responses=responses)


async def _respond_after_validation(
    broker: "Broker",
    context: Context,
    request: ProduceRequest,
    response: ProduceResponse,
    validations: PendingValidations,
    appends: Appends,
) -> ProduceResponse | bytes | None:
    """Responds once every batch that needs record validation is appended or refused."""
    await append_validated_batches(validations, broker.clock, appends)
    return await resolve_reply(answer_when_done(broker, context, request, response, appends))


def _reject_request(request: ProduceRequest, error: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=data.name,
                topic_id=data.topic_id,
                partition_responses=[
                    error_response(partition.index, error) for partition in data.partition_data
                ],
            )
            for data in request.topic_data
        ]
    )
