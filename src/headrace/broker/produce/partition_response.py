"""The response to one partition of a Produce request."""

from headrace.broker.runtime.error_codes import failure
from headrace.clock import Clock
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import (
    InvalidRecord,
    InvalidTimestamp,
    OutOfOrderSequence,
    StorageError,
)
from headrace.storage.log.log import AppendResult

EARLIER_BATCH_MISSING = (
    "an earlier batch of this producer was refused with a retriable error and must be sent first"
)


def error_response(
    index: int, code: ErrorCode, message: str | None = None, *, log_start_offset: int = -1
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=-1,
        log_start_offset=log_start_offset,
        error_message=message,
    )


def appended_response(leader: SoleLeader, result: AppendResult) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=leader.index,
        base_offset=result.first_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=leader.log.log_start_offset,
    )


def append_error_response(
    leader: SoleLeader, error: StorageError, clock: Clock
) -> PartitionProduceResponse:
    """The response to a batch that the log refused.

    A sequence gap after a batch that was refused with a retriable error is not the producer's
    fault: it gets the retriable NOT_ENOUGH_REPLICAS, and sends both batches again.
    """
    if isinstance(error, InvalidRecord | InvalidTimestamp):
        return _invalid_records_response(leader.index, error)
    if isinstance(error, OutOfOrderSequence) and leader.is_excused(error, clock.monotonic()):
        return error_response(leader.index, ErrorCode.NOT_ENOUGH_REPLICAS, EARLIER_BATCH_MISSING)
    return error_response(leader.index, *failure(error), log_start_offset=_log_start_offset(leader))


def copy_result(source: PartitionProduceResponse, target: PartitionProduceResponse) -> None:
    """Copies the outcome of an append into a response that is already part of the message."""
    target.error_code = source.error_code
    target.error_message = source.error_message
    target.record_errors = source.record_errors
    target.base_offset = source.base_offset
    target.log_append_time_ms = source.log_append_time_ms
    target.log_start_offset = source.log_start_offset


def _log_start_offset(leader: SoleLeader) -> int:
    try:
        return leader.log.log_start_offset
    except StorageError:
        return -1


def _invalid_records_response(
    index: int, invalid: InvalidRecord | InvalidTimestamp
) -> PartitionProduceResponse:
    response = error_response(index, *failure(invalid))
    response.record_errors = [
        BatchIndexAndErrorMessage(batch_index=fault.index, batch_index_error_message=fault.reason)
        for fault in invalid.record_errors
    ]
    return response
