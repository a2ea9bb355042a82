"""AlterPartition (key 56), versions 2-3: changes the in-sync replicas that a leader reports.

* v3: the ISR carries broker epochs (KIP-903).
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.controller.broker_registration import check_broker_epoch
from headrace.controller.errors import NotController, require_active
from headrace.controller.isr_changes import IsrChange, IsrMember, IsrResult, alter_partitions
from headrace.controller.metadata_controller import MetadataController
from headrace.controller.result import ApiError, ControllerResult
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_EPOCHS: Final = 3


async def handle(
    broker: Broker, context: Context, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    changes = [
        IsrChange(
            topic.topic_id,
            asked.partition_index,
            asked.leader_epoch,
            asked.partition_epoch,
            _isr_members(context.version, asked),
        )
        for topic in request.topics
        for asked in topic.partitions
    ]
    try:
        active_controller = require_active(broker.active_controller)
        decided = await active_controller.decide(
            lambda controller: _decide_isr_changes(controller, request, changes)
        )
    except NotController:
        return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    answers: list[IsrResult] = []
    for result in decided.results:
        if isinstance(result, ApiError):
            return AlterPartitionResponse(error_code=result.code)
        answers.append(result)
    return AlterPartitionResponse(
        topics=[
            AlteredTopic(topic_id=topic_id, partitions=[_altered_partition(each) for each in group])
            for topic_id, group in groupby(answers, key=lambda answer: answer.topic_id)
        ]
    )


def _decide_isr_changes(
    controller: MetadataController, request: AlterPartitionRequest, changes: list[IsrChange]
) -> ControllerResult[IsrResult | ApiError]:
    known = controller.image.brokers.get(request.broker_id)
    error = check_broker_epoch(known, request.broker_id, request.broker_epoch)
    if error.code:
        # A fenced or restarted leader must first learn of its new epoch from the metadata.
        return ControllerResult((), [ApiError(ErrorCode.STALE_BROKER_EPOCH, error.message)])
    outcome = alter_partitions(
        controller.image, controller.rules, request.broker_id, request.broker_epoch, changes
    )
    return ControllerResult(outcome.records, list[IsrResult | ApiError](outcome.results))


def _isr_members(version: int, asked: AlterPartitionData) -> tuple[IsrMember, ...]:
    if version >= FIRST_VERSION_WITH_EPOCHS:
        return tuple(
            IsrMember(each.broker_id, each.broker_epoch) for each in asked.new_isr_with_epochs
        )
    return tuple(IsrMember(id_) for id_ in asked.new_isr)


def _altered_partition(answer: IsrResult) -> AlteredPartition:
    partition = answer.partition
    if partition is None:
        return AlteredPartition(partition_index=answer.index, error_code=answer.error.code)
    return AlteredPartition(
        partition_index=answer.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        partition_epoch=partition.partition_epoch,
    )
