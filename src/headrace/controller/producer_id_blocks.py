"""Blocks of producer ids: each broker allocates ids to its producers from its own blocks. Pure."""

from typing import Final, NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import ProducerIdsReserved
from headrace.controller.broker_registration import not_registered_error
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult
from headrace.protocol.errors import ErrorCode

PRODUCER_ID_BLOCK_SIZE: Final = 1_000
"""Ids allocated to a broker at once: one durable write for each 1,000 producers."""

MAX_PRODUCER_ID: Final = 2**63 - 1


class ProducerIdBlock(NamedTuple):
    """Producer ids from `first` up to but not including `first + size`, for one broker only."""

    first: int = -1
    size: int = 0
    error: ApiError = NO_ERROR


def allocate_producer_ids(
    image: MetadataImage, broker_id: int, broker_epoch: int
) -> ControllerResult[ProducerIdBlock]:
    """Allocates the next block. No id is allocated twice, not even after a crash."""
    broker = image.brokers.get(broker_id)
    error = NO_ERROR
    if broker is None:
        error = not_registered_error(broker_id)
    elif broker.epoch != broker_epoch:
        error = ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
        )
    elif image.next_producer_id > MAX_PRODUCER_ID - PRODUCER_ID_BLOCK_SIZE:
        error = ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the "
            "int64 type limit",
        )
    if error.code != ErrorCode.NONE:
        return ControllerResult((), [ProducerIdBlock(error=error)])
    first = image.next_producer_id
    record = ProducerIdsReserved(first + PRODUCER_ID_BLOCK_SIZE)
    return ControllerResult((record,), [ProducerIdBlock(first, PRODUCER_ID_BLOCK_SIZE)])
