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
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.broker.network.dispatch import Context
from headrace.broker.partitions.partition_table import HostedTopic, PartitionTable
from headrace.broker.produce.delayed_produce import DelayedSingleProduce
from headrace.broker.produce.request_checks import check_batch
from headrace.broker.produce.response_template import FIRST_VERSION_WITH_LOG_START, usual_answer
from headrace.broker.produce.response_wait import (
    ACKS_ALL,
    Appended,
    Appends,
    add_leaders,
    answer_when_done,
)
from headrace.broker.produce.sliced_validation import append_after_look
from headrace.broker.produce.transactional_produce import Admission
from headrace.broker.runtime.error_codes import failure
from headrace.clock import Clock
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headrace.records.batch import HEADER_SIZE
from headrace.records.record_validation import Rules
from headrace.replication.sequence_gaps import NEVER
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import (
    InvalidRecord,
    InvalidTimestamp,
    OutOfOrderSequence,
    StorageError,
)
from headrace.storage.log.log import AppendResult
from headrace.storage.state.append_validation import NeedsRecordValidation

if TYPE_CHECKING:
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_TOPIC_IDS = 13
# An attribute of an enum class costs ten times a global's look-up; these are read per request.
UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_ID
NOT_LEADER_OR_FOLLOWER = ErrorCode.NOT_LEADER_OR_FOLLOWER
NOT_ENOUGH_REPLICAS = ErrorCode.NOT_ENOUGH_REPLICAS
INVALID_REQUIRED_ACKS = ErrorCode.INVALID_REQUIRED_ACKS
_NOT_IN_TRANSACTION: Final = "the partition is not in an open transaction of this producer"
_TOO_FEW: Final = "fewer replicas are in sync than min.insync.replicas asks for"
_COMES_AGAIN: Final = "a batch before this one was refused for the moment, and is to come first"


class _Look(NamedTuple):
    """A batch that is appended after a long look inside; `partition` is its answer."""

    partition: PartitionProduceResponse
    leader: SoleLeader
    batch: bytearray
    rules: Rules
    admission: Admission | None


Looks = list[_Look]
Reply = (
    ProduceResponse
    | bytes
    | asyncio.Future[ProduceResponse | bytes | None]
    | Coroutine[object, object, ProduceResponse | bytes | None]
)


def handle(broker: "Broker", context: Context, request: ProduceRequest) -> Reply | None:
    if request.transactional_id is None:
        return _handle(broker, context, request, None)
    admission = Admission(broker, context.version, request)
    pending = admission.ask()
    if pending is None:
        return _handle(broker, context, request, admission)
    # The request's own bytes are gone when the loop goes on.
    for data in request.topic_data:
        for partition in data.partition_data:
            if isinstance(partition.records, memoryview):
                partition.records = memoryview(bytearray(partition.records))
    return _after_admission(broker, context, request, admission, pending)


async def _after_admission(
    broker: "Broker",
    context: Context,
    request: ProduceRequest,
    admission: Admission,
    pending: "asyncio.Future[ErrorCode]",
) -> ProduceResponse | bytes | None:
    """The partitions join the transaction when its coordinator has that on disk."""
    admission.ask_again(await pending)
    reply = _handle(broker, context, request, admission)
    if isinstance(reply, asyncio.Future | Coroutine):
        return await reply
    return reply


def _handle(
    broker: "Broker", context: Context, request: ProduceRequest, admission: Admission | None
) -> Reply | None:
    version = context.version
    acks = request.acks
    topics = request.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1 and acks in (1, -1):
        return _append_one(broker, context, request, admission)
    appends: Appends = []
    looks: Looks = []
    if -1 <= acks <= 1:
        response = _append_all(broker, version, request, admission, appends, looks)
    else:
        response = _refuse_all(request, INVALID_REQUIRED_ACKS)
    if looks:
        return _after_looks(broker, context, request, response, looks, appends)
    return answer_when_done(broker, context, request, response, appends)


def _append_one(
    broker: "Broker", context: Context, request: ProduceRequest, admission: Admission | None
) -> Reply | None:
    """What a small request holds: one partition, whose answer is nearly ready-made."""
    version = context.version
    data = request.topic_data[0]
    partition = data.partition_data[0]
    acks = request.acks
    topic, leader = _leader(broker.partitions, version, data, partition.index)
    if not isinstance(leader, SoleLeader):
        response = _answer_one(data, _refused(partition.index, leader))
        add_leaders(broker, context, response)
        return response
    assert topic is not None
    looks: Looks = []
    result = _append(version, acks, leader, partition, broker.clock, admission, looks)
    if isinstance(result, AppendResult):
        committed = leader.high_watermark > result.last_offset
        if version >= FIRST_VERSION_WITH_LOG_START and (committed or not leader.flush_pending):
            ready = usual_answer(topic, version).encode(
                partition.index, result, leader.log.log_start_offset
            )
            if committed or acks != ACKS_ALL:
                return ready
            return _commit_one(broker, context, request, leader, result, ready)
        answer = _appended(leader, result)
        appends = [Appended(answer, leader, result.last_offset + 1)]
        return answer_when_done(broker, context, request, _answer_one(data, answer), appends)
    response = _answer_one(data, result)
    if looks:
        return _after_looks(broker, context, request, response, looks, [])
    return response


def _commit_one(
    broker: "Broker",
    context: Context,
    request: ProduceRequest,
    leader: SoleLeader,
    result: AppendResult,
    ready: bytes,
) -> "asyncio.Future[ProduceResponse | bytes | None]":
    data = request.topic_data[0]

    def refuse(code: ErrorCode) -> ProduceResponse:
        answer = _appended(leader, result)
        answer.error_code = code
        response = _answer_one(data, answer)
        add_leaders(broker, context, response)
        return response

    next_offset = result.last_offset + 1
    # The request's own bytes are gone when the loop goes on.
    data.partition_data[0].records = None
    timeout_s = max(0, request.timeout_ms) / 1000
    return DelayedSingleProduce(broker.loop, leader, next_offset, timeout_s, ready, refuse).future


def _answer_one(data: TopicProduceData, partition: PartitionProduceResponse) -> ProduceResponse:
    topic = TopicProduceResponse(
        name=data.name, topic_id=data.topic_id, partition_responses=[partition]
    )
    return ProduceResponse(responses=[topic])


def _append_all(
    broker: "Broker",
    version: int,
    request: ProduceRequest,
    admission: Admission | None,
    appends: Appends,
    looks: Looks,
) -> ProduceResponse:
    acks, clock = request.acks, broker.clock
    responses = []
    for data in request.topic_data:
        partitions = []
        for partition in data.partition_data:
            _, leader = _leader(broker.partitions, version, data, partition.index)
            if not isinstance(leader, SoleLeader):
                partitions.append(_refused(partition.index, leader))
                continue
            result = _append(version, acks, leader, partition, clock, admission, looks)
            if isinstance(result, AppendResult):
                answer = _appended(leader, result)
                appends.append(Appended(answer, leader, result.last_offset + 1))
                partitions.append(answer)
            else:
                partitions.append(result)
        responses.append(
            TopicProduceResponse(
                name=data.name, topic_id=data.topic_id, partition_responses=partitions
            )
        )
    return ProduceResponse(responses=responses)


def _leader(
    table: PartitionTable, version: int, data: TopicProduceData, index: int
) -> "tuple[HostedTopic | None, SoleLeader | ErrorCode]":
    """The partition's topic and leader, or the error that the client gets instead."""
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        topic = table.by_id.get(data.topic_id)
        unknown = UNKNOWN_TOPIC_ID
    else:
        topic = table.by_name.get(data.name)
        unknown = UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        return None, unknown
    if topic.internal:
        # Coordinators alone write to the topics that hold their state.
        return topic, ErrorCode.INVALID_TOPIC_EXCEPTION
    leaders = topic.leaders
    if 0 <= index < len(leaders):
        return topic, leaders[index] or NOT_LEADER_OR_FOLLOWER
    return topic, UNKNOWN_TOPIC_OR_PARTITION


def _append(
    version: int,
    acks: int,
    leader: SoleLeader,
    data: PartitionProduceData,
    clock: Clock,
    admission: Admission | None,
    looks: Looks,
) -> AppendResult | PartitionProduceResponse:
    """Where the records are now, or what the client is told instead.

    A batch that needs a long look goes to `looks` with an answer that is still to be filled in.
    """
    index = data.index
    records = data.records
    if not isinstance(records, memoryview) or len(records) < HEADER_SIZE:
        return _refused(
            index,
            ErrorCode.INVALID_RECORD,
            f"Produce v{version} must carry one record batch for each partition",
        )
    problem = check_batch(version, records, transactional=admission is not None)
    if problem is not None:
        return _refused(index, *problem)
    if admission is not None:
        refusal = admission.refusal(leader)
        if refusal is not None:
            return _refused(index, refusal, _NOT_IN_TRANSACTION)
    if acks == ACKS_ALL and not leader.enough_in_sync:
        leader.gaps.refused(clock.monotonic())
        return _refused(index, NOT_ENOUGH_REPLICAS, _TOO_FEW)
    try:
        doubted = leader.gaps.starts_doubted_until > NEVER
        if doubted and leader.misses_start(records, clock.monotonic()):
            return _refused(index, NOT_ENOUGH_REPLICAS, _COMES_AGAIN)
        return leader.append(records, clock.wall_ms())
    except StorageError as error:
        return _not_appended(leader, error, clock)
    except NeedsRecordValidation as look:
        # The request's own bytes are gone when the loop goes on.
        answer = PartitionProduceResponse(index=index)
        looks.append(_Look(answer, leader, bytearray(records), look.rules, admission))
        return answer


def _not_appended(
    leader: SoleLeader, error: StorageError, clock: Clock
) -> PartitionProduceResponse:
    if isinstance(error, InvalidRecord | InvalidTimestamp):
        return _invalid_records(leader.index, error)
    if isinstance(error, OutOfOrderSequence) and leader.excuses(error, clock.monotonic()):
        return _refused(leader.index, NOT_ENOUGH_REPLICAS, _COMES_AGAIN)
    return _refused(leader.index, *failure(error), log_start_offset=_log_start(leader))


def _appended(leader: SoleLeader, result: AppendResult) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=leader.index,
        base_offset=result.first_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=leader.log.log_start_offset,
    )


def _refuse_all(request: ProduceRequest, error: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=data.name,
                topic_id=data.topic_id,
                partition_responses=[
                    _refused(partition.index, error) for partition in data.partition_data
                ],
            )
            for data in request.topic_data
        ]
    )


async def _after_looks(
    broker: "Broker",
    context: Context,
    request: ProduceRequest,
    response: ProduceResponse,
    looks: Looks,
    appends: Appends,
) -> ProduceResponse | bytes | None:
    """The response, once every batch that needed a long look has been appended or refused."""
    for look in looks:
        leader = look.leader
        try:
            result = await append_after_look(
                leader,
                look.batch,
                look.rules,
                broker.clock,
                None if look.admission is None else look.admission.check,
            )
        except StorageError as error:
            _take_over(look.partition, _not_appended(leader, error, broker.clock))
            continue
        _take_over(look.partition, _appended(leader, result))
        appends.append(Appended(look.partition, leader, result.last_offset + 1))
    reply = answer_when_done(broker, context, request, response, appends)
    return await reply if isinstance(reply, asyncio.Future) else reply


def _take_over(answer: PartitionProduceResponse, outcome: PartitionProduceResponse) -> None:
    answer.error_code = outcome.error_code
    answer.error_message = outcome.error_message
    answer.record_errors = outcome.record_errors
    answer.base_offset = outcome.base_offset
    answer.log_append_time_ms = outcome.log_append_time_ms
    answer.log_start_offset = outcome.log_start_offset


def _log_start(leader: SoleLeader) -> int:
    try:
        return leader.log.log_start_offset
    except StorageError:
        return -1


def _refused(
    index: int, code: ErrorCode, message: str | None = None, *, log_start_offset: int = -1
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=-1,
        log_start_offset=log_start_offset,
        error_message=message,
    )


def _invalid_records(
    index: int, invalid: InvalidRecord | InvalidTimestamp
) -> PartitionProduceResponse:
    response = _refused(index, *failure(invalid))
    response.record_errors = [
        BatchIndexAndErrorMessage(batch_index=fault.index, batch_index_error_message=fault.reason)
        for fault in invalid.record_errors
    ]
    return response
