"""Controlled shutdown: leadership moves off a broker before it stops. Pure."""

from typing import NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import BrokerLeaving, MetadataRecord, PartitionChanged
from headrace.cluster.topology import NO_LEADER
from headrace.controller.broker_registration import check_broker_epoch
from headrace.controller.leader_election import Rules, election_context
from headrace.controller.partition_change import PartitionChange
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult
from headrace.controller.staged_records import StagedRecords


class LeavingStep(NamedTuple):
    """The partitions that the stopping broker still leads because no other replica can."""

    remaining: tuple[tuple[str, int], ...] = ()
    error: ApiError = NO_ERROR


def begin_controlled_shutdown(
    image: MetadataImage, rules: Rules, broker_id: int, broker_epoch: int
) -> ControllerResult[LeavingStep]:
    """Moves every partition that the broker leads to another replica in sync."""
    broker = image.brokers.get(broker_id)
    error = check_broker_epoch(broker, broker_id, broker_epoch)
    if error.code:
        return ControllerResult((), [LeavingStep(error=error)])
    assert broker is not None
    steps = StagedRecords(image)
    if not broker.leaving:
        steps.add(BrokerLeaving(broker_id))
    remaining: list[tuple[str, int]] = []
    changes: list[MetadataRecord] = []
    for topic in steps.image.topics.values():
        context = election_context(steps.image, rules, topic.name)
        for index, partition in enumerate(topic.partitions):
            if broker_id not in partition.isr:
                continue
            after = PartitionChange(partition, context).result()
            if after is not None and after.leader != NO_LEADER:
                changes.append(PartitionChanged(topic.topic_id, index, after))
            elif partition.leader == broker_id:
                # No other replica can lead: the broker remains the leader until it exits.
                remaining.append((topic.name, index))
    steps.add(*changes)
    return ControllerResult(tuple(steps.records), [LeavingStep(tuple(remaining))])
