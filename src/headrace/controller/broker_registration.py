"""Registration and unregistration of brokers. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    BrokerFenced,
    BrokerRegistered,
    BrokerUnregistered,
    LeaderRestarted,
    MetadataRecord,
)
from headrace.cluster.topology import ZERO_UUID, BrokerRegistration, Endpoint
from headrace.controller.broker_fencing import elect_new_leaders
from headrace.controller.leader_election import Rules
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult
from headrace.controller.staged_records import StagedRecords
from headrace.protocol.errors import ErrorCode


class RegistrationResult(NamedTuple):
    """The result of a registration: the broker's epoch, which fences earlier incarnations."""

    broker_epoch: int = -1
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
        return ControllerResult((), [not_registered_error(broker_id)])
    records = () if broker.fenced else (BrokerFenced(broker_id),)
    return ControllerResult(records, [NO_ERROR])


def not_registered_error(broker_id: int) -> ApiError:
    """The error for a request that names a broker without a registration."""
    return ApiError(
        ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered."
    )


def unregister_broker(
    image: MetadataImage, rules: Rules, broker_id: int
) -> ControllerResult[ApiError]:
    """Removes a broker that will not return. A live broker is refused."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ControllerResult((), [not_registered_error(broker_id)])
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
        return not_registered_error(broker_id)
    if broker.epoch != broker_epoch:
        return ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
        )
    return NO_ERROR
