"""Brokers join, leave and come back: what the controller makes of it. Pure.

A broker's epoch is new in each of its lives. One that is seen with another epoch than before was
bounced: its old life ends first, with everything that follows from that, and then the new one
begins; so a restart that nobody noticed is still a restart.
"""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.records import (
    BrokerFenced,
    BrokerLeaving,
    BrokerRegistered,
    BrokerUnregistered,
    MetadataRecord,
    PartitionChanged,
)
from headrace.cluster.topology import NO_LEADER, BrokerRegistration
from headrace.controller.leader_election import Disks, Rules, distrust, settle, standing
from headrace.controller.partition_change import PartitionChange
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult
from headrace.protocol.errors import ErrorCode


class Arrival(NamedTuple):
    """A broker that is registered now.

    `intact` says that its logs are what they were; if not, `disks` what there is of them.
    """

    broker: BrokerRegistration
    intact: bool = True
    disks: Disks = Disks.KEPT


class LeavingStep(NamedTuple):
    """The answer to a broker that wants to stop: what it still leads, because nobody else can."""

    remaining: tuple[tuple[str, int], ...] = ()
    error: ApiError = NO_ERROR


class _Steps:
    """Records that are decided one after the other, each on the image after those before it."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.records: list[MetadataRecord] = []

    def take(self, *records: MetadataRecord) -> None:
        if records:
            self.records.extend(records)
            self.image = self.image.apply(records)


def brokers_changed(
    image: MetadataImage, rules: Rules, registered: Mapping[int, Arrival]
) -> tuple[MetadataRecord, ...]:
    """From the brokers that were live to those that are registered now."""
    steps = _Steps(image)
    known = {id_: broker for id_, broker in image.brokers.items() if not broker.fenced}
    gone = [id_ for id_, broker in known.items() if _is_another(broker, registered.get(id_))]
    steps.take(*(BrokerFenced(id_) for id_ in sorted(gone)))
    if gone:
        steps.take(*settle(steps.image, rules))
    arrived = [
        arrival
        for id_, arrival in sorted(registered.items())
        if id_ not in known or known[id_].epoch != arrival.broker.epoch
    ]
    for arrival in arrived:
        steps.take(BrokerRegistered(arrival.broker))
        if not arrival.intact:
            id_ = arrival.broker.broker_id
            steps.take(*distrust(steps.image, rules, id_, arrival.disks))
    if arrived:
        steps.take(*settle(steps.image, rules))
    return tuple(steps.records)


def _is_another(known: BrokerRegistration, now: Arrival | None) -> bool:
    return now is None or now.broker.epoch != known.epoch


def fence(image: MetadataImage, rules: Rules, broker_id: int) -> tuple[MetadataRecord, ...]:
    """The broker is known to be dead, whatever its session says."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return ()
    steps = _Steps(image)
    steps.take(BrokerFenced(broker_id))
    steps.take(*settle(steps.image, rules))
    return tuple(steps.records)


def begin_leaving(
    image: MetadataImage, rules: Rules, broker_id: int, broker_epoch: int
) -> ControllerResult[LeavingStep]:
    """A broker stops on purpose: what it leads moves to others that are in sync."""
    broker = image.brokers.get(broker_id)
    error = check_epoch(broker, broker_id, broker_epoch)
    if error.code:
        return ControllerResult((), [LeavingStep(error=error)])
    assert broker is not None
    steps = _Steps(image)
    if not broker.leaving:
        steps.take(BrokerLeaving(broker_id))
    remaining: list[tuple[str, int]] = []
    changes: list[MetadataRecord] = []
    for topic in steps.image.topics.values():
        where = standing(steps.image, rules, topic.name)
        for index, partition in enumerate(topic.partitions):
            if broker_id not in partition.isr:
                continue
            after = PartitionChange(partition, where).result()
            if after is not None and after.leader != NO_LEADER:
                changes.append(PartitionChanged(topic.topic_id, index, after))
            elif partition.leader == broker_id:
                # It goes on leading until it is gone: half a second of service more.
                remaining.append((topic.name, index))
    steps.take(*changes)
    return ControllerResult(tuple(steps.records), [LeavingStep(tuple(remaining))])


def unregister(image: MetadataImage, rules: Rules, broker_id: int) -> ControllerResult[ApiError]:
    """A person says that this broker never comes back. One that is live is refused."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ControllerResult((), [_unknown(broker_id)])
    if not broker.fenced:
        error = ApiError(
            ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is running: stop it first."
        )
        return ControllerResult((), [error])
    steps = _Steps(image)
    steps.take(BrokerUnregistered(broker_id))
    steps.take(*settle(steps.image, rules))
    return ControllerResult(tuple(steps.records), [NO_ERROR])


def check_epoch(broker: BrokerRegistration | None, broker_id: int, broker_epoch: int) -> ApiError:
    """Whether a request comes from the broker's present life."""
    if broker is None or broker.fenced:
        return _unknown(broker_id)
    if broker.epoch != broker_epoch:
        return ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
        )
    return NO_ERROR


def _unknown(broker_id: int) -> ApiError:
    return ApiError(
        ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered."
    )
