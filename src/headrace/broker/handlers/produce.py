"""Produce (key 0), versions 3-13: append record batches.

v3 is the first with record batches v2 (0-2 are advertised for old librdkafka, and refused);
v7 allows zstd, v8 adds per-record errors, v9 is flexible, v10 tells the new leader, v13 names
topics by id.
"""

import asyncio
import struct
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.broker.dispatch import Context
from headrace.broker.handlers.errors import failure
from headrace.broker.handlers.produce_answer import FIRST_VERSION_WITH_LOG_START, usual_answer
from headrace.broker.handlers.produce_transactional import Admission
from headrace.broker.long_look import append_after_look
from headrace.broker.partitions import HostedTopic, PartitionTable
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
from headrace.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    read_header,
)
from headrace.records.codec import Codec
from headrace.records.deep import Rules
from headrace.records.errors import RecordError, UnsupportedMagic
from headrace.replication.leader import Leader
from headrace.storage.errors import InvalidRecord, InvalidTimestamp, StorageError
from headrace.storage.log import AppendResult
from headrace.storage.validation import LongLook

if TYPE_CHECKING:
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_TOPIC_IDS = 13
# An attribute of an enum class costs ten times a global's look-up; these are read per request.
UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_ID
INVALID_REQUIRED_ACKS = ErrorCode.INVALID_REQUIRED_ACKS
ZSTD = Codec.ZSTD
NOT_ZERO_ACKS: Final = 1
_NOT_IN_TRANSACTION: Final = "the partition is not in an open transaction of this producer"
_GLANCE = struct.Struct(">8xi4xB4xH")  # of a batch: its length, magic and attributes

Flushes = list[tuple[PartitionProduceResponse, "asyncio.Future[None]"]]


class _Look(NamedTuple):
    """A batch that is appended after a long look inside; `partition` is its answer."""

    partition: PartitionProduceResponse
    leader: Leader
    batch: bytearray
    rules: Rules
    admission: Admission | None


Looks = list[_Look]
Reply = (
    ProduceResponse
    | bytes
    | asyncio.Future[ProduceResponse | None]
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
        return _append_one(broker, context, topics[0], admission)
    flushes: Flushes = []
    looks: Looks = []
    if -1 <= acks <= 1:
        response = _append_all(broker, version, request, admission, flushes, looks)
    else:
        response = _refuse_all(request, INVALID_REQUIRED_ACKS)
    if looks:
        return _after_looks(broker, context, acks, response, looks, flushes)
    if acks == 0:
        _close_on_error(context, response)
        return None
    if flushes:
        return _after_flushes(broker, response, flushes)
    return response


def _append_one(
    broker: "Broker", context: Context, data: TopicProduceData, admission: Admission | None
) -> Reply:
    """What a small request holds: one partition, whose answer is nearly ready-made."""
    version = context.version
    partition = data.partition_data[0]
    topic, leader = _leader(broker.partitions, version, data, partition.index)
    if not isinstance(leader, Leader):
        return _answer_one(data, _refused(partition.index, leader))
    assert topic is not None
    looks: Looks = []
    result = _append(version, leader, partition, broker.clock.wall_ms(), admission, looks)
    if isinstance(result, AppendResult):
        if version >= FIRST_VERSION_WITH_LOG_START and not leader.flush_pending:
            answer = usual_answer(topic, version)
            return answer.encode(partition.index, result, leader.log.log_start_offset)
        result = _appended(leader, result)
    response = _answer_one(data, result)
    if looks:
        return _after_looks(broker, context, NOT_ZERO_ACKS, response, looks, [])
    if leader.flush_pending and not result.error_code:
        return _after_flushes(broker, response, [(result, broker.flusher.flush(leader))])
    return response


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
    flushes: Flushes,
    looks: Looks,
) -> ProduceResponse:
    now_ms = broker.clock.wall_ms()
    responses = []
    for data in request.topic_data:
        partitions = []
        for partition in data.partition_data:
            _, leader = _leader(broker.partitions, version, data, partition.index)
            if not isinstance(leader, Leader):
                partitions.append(_refused(partition.index, leader))
                continue
            result = _append(version, leader, partition, now_ms, admission, looks)
            if isinstance(result, AppendResult):
                result = _appended(leader, result)
                if leader.flush_pending:
                    flushes.append((result, broker.flusher.flush(leader)))
            partitions.append(result)
        responses.append(
            TopicProduceResponse(
                name=data.name, topic_id=data.topic_id, partition_responses=partitions
            )
        )
    return ProduceResponse(responses=responses)


def _leader(
    table: PartitionTable, version: int, data: TopicProduceData, index: int
) -> "tuple[HostedTopic | None, Leader | ErrorCode]":
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
    leader = leaders[index] if 0 <= index < len(leaders) else None
    return topic, UNKNOWN_TOPIC_OR_PARTITION if leader is None else leader


def _append(
    version: int,
    leader: Leader,
    data: PartitionProduceData,
    now_ms: int,
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
    problem = _check_batch(version, records, transactional=admission is not None)
    if problem is not None:
        return _refused(index, *problem)
    if admission is not None and leader in admission.refusals:
        return _refused(index, admission.refusals[leader], _NOT_IN_TRANSACTION)
    try:
        return leader.append(records, now_ms)
    except StorageError as error:
        return _not_appended(leader, error)
    except LongLook as look:
        # The request's own bytes are gone when the loop goes on.
        answer = PartitionProduceResponse(index=index)
        looks.append(_Look(answer, leader, bytearray(records), look.rules, admission))
        return answer


def _not_appended(leader: Leader, error: StorageError) -> PartitionProduceResponse:
    if isinstance(error, InvalidRecord | InvalidTimestamp):
        return _invalid_records(leader.index, error)
    return _refused(leader.index, *failure(error), log_start_offset=_log_start(leader))


def _appended(leader: Leader, result: AppendResult) -> PartitionProduceResponse:
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


def _check_batch(
    version: int, records: memoryview, *, transactional: bool
) -> tuple[ErrorCode, str] | None:
    """Kafka's rules for what one partition of a request may carry: exactly one batch, magic 2."""
    length, magic, attributes = _GLANCE.unpack_from(records)
    if (
        magic == MAGIC
        and length + LOG_OVERHEAD == len(records)
        and (transactional or not attributes & TRANSACTIONAL_FLAG)
        and (version >= FIRST_VERSION_WITH_ZSTD or attributes & CODEC_MASK != ZSTD)
    ):
        return None  # nearly always; the rest only finds the words
    try:
        header = read_header(records)
    except UnsupportedMagic as error:
        return ErrorCode.INVALID_RECORD, str(error)
    except RecordError as error:
        return ErrorCode.CORRUPT_MESSAGE, str(error)
    if version < FIRST_VERSION_WITH_ZSTD and header.codec is Codec.ZSTD:
        return (
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce v{version} does not allow zstd",
        )
    if header.size < len(records):
        return (
            ErrorCode.INVALID_RECORD,
            f"Produce v{version} may carry only one record batch for each partition",
        )
    if header.is_transactional and not transactional:
        return (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "transactional records in a request without a transactional id",
        )
    return None


async def _after_looks(
    broker: "Broker",
    context: Context,
    acks: int,
    response: ProduceResponse,
    looks: Looks,
    flushes: Flushes,
) -> ProduceResponse | None:
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
            _take_over(look.partition, _not_appended(leader, error))
            continue
        _take_over(look.partition, _appended(leader, result))
        if leader.flush_pending:
            flushes.append((look.partition, broker.flusher.flush(leader)))
    if acks == 0:
        _close_on_error(context, response)
        return None
    return await _after_flushes(broker, response, flushes) if flushes else response


def _take_over(answer: PartitionProduceResponse, outcome: PartitionProduceResponse) -> None:
    answer.error_code = outcome.error_code
    answer.error_message = outcome.error_message
    answer.record_errors = outcome.record_errors
    answer.base_offset = outcome.base_offset
    answer.log_append_time_ms = outcome.log_append_time_ms
    answer.log_start_offset = outcome.log_start_offset


def _after_flushes(
    broker: "Broker", response: ProduceResponse, flushes: Flushes
) -> "asyncio.Future[ProduceResponse | None]":
    """The response, once every promised flush is done; a failed one turns into its error."""
    answered: asyncio.Future[ProduceResponse | None] = broker.loop.create_future()
    remaining = len(flushes)

    def flushed(partition: PartitionProduceResponse, done: "asyncio.Future[None]") -> None:
        nonlocal remaining
        remaining -= 1
        error = done.exception()
        if error is not None:
            code, message = failure(error)
            partition.error_code, partition.error_message = code, message
            partition.base_offset = -1
        if not remaining and not answered.done():
            answered.set_result(response)

    for partition, future in flushes:
        future.add_done_callback(partial(flushed, partition))
    return answered


def _close_on_error(context: Context, response: ProduceResponse) -> None:
    """With acks=0 a closed connection is the only way to say that something went wrong."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                where = f"{topic.name}-{partition.index}"
                context.connection.close(f"acks=0 and error {partition.error_code} for {where}")
                return


def _log_start(leader: Leader) -> int:
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
