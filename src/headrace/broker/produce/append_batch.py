"""Appends the batch of one partition of a Produce request to the partition's log."""

from typing import Final, NamedTuple

from headrace.broker.partitions.partition_table import HostedTopic, PartitionTable
from headrace.broker.produce.batch_format_check import check_batch
from headrace.broker.produce.partition_response import (
    EARLIER_BATCH_MISSING,
    append_error_response,
    appended_response,
    copy_result,
    error_response,
)
from headrace.broker.produce.response_wait import ACKS_ALL, Appended, Appends
from headrace.broker.produce.sliced_validation import append_after_validation
from headrace.broker.produce.transactional_produce import Admission
from headrace.clock import Clock
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
)
from headrace.records.batch_header import HEADER_SIZE
from headrace.records.record_validation import Rules
from headrace.replication.sole_leader import SoleLeader
from headrace.replication.tolerated_gaps import NEVER
from headrace.storage.errors import StorageError
from headrace.storage.log.append_validation import NeedsRecordValidation
from headrace.storage.log.log import AppendResult

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
# Reading an attribute of an enum class costs ten times as much as reading a global, and these are
# read for every request.
UNKNOWN_TOPIC_OR_PARTITION: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN_TOPIC_ID: Final = ErrorCode.UNKNOWN_TOPIC_ID
NOT_LEADER_OR_FOLLOWER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
NOT_ENOUGH_REPLICAS: Final = ErrorCode.NOT_ENOUGH_REPLICAS
_NOT_IN_TRANSACTION: Final = "the partition is not in an open transaction of this producer"
_NOT_ENOUGH_IN_SYNC: Final = "fewer replicas are in sync than min.insync.replicas requires"


class PendingValidation(NamedTuple):
    """A batch to append after its records are validated; `response` is filled in then."""

    response: PartitionProduceResponse
    leader: SoleLeader
    batch: bytearray
    rules: Rules
    admission: Admission | None


PendingValidations = list[PendingValidation]


def find_leader(
    table: PartitionTable, version: int, data: TopicProduceData, index: int
) -> "tuple[HostedTopic | None, SoleLeader | ErrorCode]":
    """The topic and the leader of a partition, or the error to respond with."""
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        topic = table.by_id.get(data.topic_id)
        unknown = UNKNOWN_TOPIC_ID
    else:
        topic = table.by_name.get(data.name)
        unknown = UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        return None, unknown
    if topic.internal:
        # Only coordinators write to internal topics.
        return topic, ErrorCode.INVALID_TOPIC_EXCEPTION
    leaders = topic.leaders
    if 0 <= index < len(leaders):
        return topic, leaders[index] or NOT_LEADER_OR_FOLLOWER
    return topic, UNKNOWN_TOPIC_OR_PARTITION


def append_batch(
    version: int,
    acks: int,
    leader: SoleLeader,
    data: PartitionProduceData,
    clock: Clock,
    admission: Admission | None,
    validations: PendingValidations,
) -> AppendResult | PartitionProduceResponse:
    """Appends the batch; returns the result, or the response if nothing was appended.

    A batch whose records must be validated goes to `validations`, and its response is still empty.
    """
    index = data.index
    records = data.records
    traffic = leader.traffic
    if traffic is not None:
        traffic.produces += 1
    if not isinstance(records, memoryview) or len(records) < HEADER_SIZE:
        return error_response(
            index,
            ErrorCode.INVALID_RECORD,
            f"Produce v{version} must have exactly one record batch per partition",
        )
    problem = check_batch(version, records, transactional=admission is not None)
    if problem is not None:
        return error_response(index, *problem)
    if admission is not None:
        refusal = admission.refusal(leader)
        if refusal is not None:
            return error_response(index, refusal, _NOT_IN_TRANSACTION)
    if acks == ACKS_ALL and not leader.enough_in_sync:
        leader.gaps.refused(clock.monotonic())
        return error_response(index, NOT_ENOUGH_REPLICAS, _NOT_ENOUGH_IN_SYNC)
    try:
        in_doubt = leader.gaps.starts_doubted_until > NEVER
        if in_doubt and leader.misses_start(records, clock.monotonic()):
            return error_response(index, NOT_ENOUGH_REPLICAS, EARLIER_BATCH_MISSING)
        return leader.append(records, clock.wall_ms())
    except StorageError as error:
        return append_error_response(leader, error, clock)
    except NeedsRecordValidation as needed:
        # A copy: the request's bytes are valid only until the event loop runs again.
        answer = PartitionProduceResponse(index=index)
        validations.append(
            PendingValidation(answer, leader, bytearray(records), needed.rules, admission)
        )
        return answer


def count_failed(leader: SoleLeader, answer: PartitionProduceResponse, size_bytes: int) -> None:
    """Counts a batch that was refused."""
    traffic = leader.traffic
    if traffic is not None and answer.error_code:
        traffic.failed_produces += 1
        if answer.error_code in _TOO_LARGE:
            traffic.bytes_rejected += size_bytes


async def append_validated_batches(
    validations: PendingValidations, clock: Clock, appends: Appends
) -> None:
    """Validates and appends each batch, in order, and fills in its response."""
    for validation in validations:
        leader = validation.leader
        try:
            result = await append_after_validation(
                leader,
                validation.batch,
                validation.rules,
                clock,
                None if validation.admission is None else validation.admission.check,
            )
        except StorageError as error:
            refused = append_error_response(leader, error, clock)
            count_failed(leader, refused, len(validation.batch))
            copy_result(refused, validation.response)
            continue
        copy_result(appended_response(leader, result), validation.response)
        appends.append(Appended(validation.response, leader, result.last_offset + 1))
