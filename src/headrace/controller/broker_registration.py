"""Broker registration, unregistration, and blocks of producer ids. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    BrokerFenced,
    BrokerRegistered,
    BrokerUnregistered,
    LeaderRestarted,
    MetadataRecord,
    ProducerIdsReserved,
)
from headrace.cluster.topology import ZERO_UUID, BrokerRegistration, Endpoint
from headrace.controller.broker_fencing import elect_new_leaders
from headrace.controller.leader_election import Rules
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult
from headrace.controller.staged_records import StagedRecords
from headrace.protocol.errors import ErrorCode

PRODUCER_ID_BLOCK_SIZE: Final = 1_000
"""Ids allocated to a broker at once: one durable write for each 1,000 producers."""

MAX_PRODUCER_ID: Final = 2**63 - 1


class RegistrationResult(NamedTuple):
    """The result of a registration: the broker's epoch, which fences earlier incarnations."""

    broker_epoch: int = -1
    error: ApiError = NO_ERROR


class ProducerIdBlock(NamedTuple):
    """Producer ids from `first` up to but not including `first + size`, for one broker only."""

    first: int = -1
    size: int = 0
    error: ApiError = NO_ERROR


def register_broker(
    image: MetadataImage,
    broker_id: int,
    endpoints: Sequence[Endpoint],
    *,
    rack: str | None = None,
    incarnation_id: bytes = ZERO_UUID,
    clean_restart: bool = False,
) -> ControllerResult[RegistrationResult]:
    """Registers a broker. After an unclean stop its partitions enter a new leader epoch.

    The new epoch lets consumers detect that the restart lost an unflushed tail.
    """
    before = image.brokers.get(broker_id)
    if before is not None and not before.fenced and before.incarnation_id != incarnation_id:
        error = ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with that broker id: {broker_id}.",
        )
        return ControllerResult((), [RegistrationResult(error=error)])
    epoch = image.version + 1
    broker = BrokerRegistration(broker_id, epoch, tuple(endpoints), rack, incarnation_id)
    records: list[MetadataRecord] = [BrokerRegistered(broker)]
    if before is not None and before.fenced and not clean_restart:
        records.append(LeaderRestarted(broker_id))
    return ControllerResult(tuple(records), [RegistrationResult(epoch)])


def fence_standalone_broker(image: MetadataImage, broker_id: int) -> ControllerResult[ApiError]:
    """Fences the only broker. Its partitions keep their leader: no other broker could lead."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ControllerResult((), [_not_registered(broker_id)])
    records = () if broker.fenced else (BrokerFenced(broker_id),)
    return ControllerResult(records, [NO_ERROR])


def allocate_producer_ids(
    image: MetadataImage, broker_id: int, broker_epoch: int
) -> ControllerResult[ProducerIdBlock]:
    """Allocates the next block. No id is allocated twice, not even after a crash."""
    broker = image.brokers.get(broker_id)
    error = NO_ERROR
    if broker is None:
        error = _not_registered(broker_id)
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


def _not_registered(broker_id: int) -> ApiError:
    return ApiError(
        ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered."
    )


def unregister_broker(
    image: MetadataImage, rules: Rules, broker_id: int
) -> ControllerResult[ApiError]:
    """Removes a broker that will not return. A live broker is refused."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ControllerResult((), [_not_registered(broker_id)])
    if not broker.fenced:
        error = ApiError(
            ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is running. Stop it first."
        )
        return ControllerResult((), [error])
    steps = StagedRecords(image)
    steps.add(BrokerUnregistered(broker_id))
    steps.add(*elect_new_leaders(steps.image, rules))
    return ControllerResult(tuple(steps.records), [NO_ERROR])


def check_broker_epoch(
    broker: BrokerRegistration | None, broker_id: int, broker_epoch: int
) -> ApiError:
    """The error for a request that is not from the broker's current incarnation."""
    if broker is None or broker.fenced:
        return _not_registered(broker_id)
    if broker.epoch != broker_epoch:
        return ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
        )
    return NO_ERROR
