"""LeaveCluster (key 10001), version 0: controlled shutdown of a broker.

Headrace's own API, between the brokers of a cluster: the partitions that the broker leads get new
leaders before it stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.controller.controlled_shutdown import begin_controlled_shutdown
from headrace.controller.errors import NotController, require_active
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.leave_cluster import (
    LeaveClusterRequest,
    LeaveClusterResponse,
    RemainingPartition,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


async def handle(
    broker: Broker, context: Context, request: LeaveClusterRequest
) -> LeaveClusterResponse:
    try:
        active_controller = require_active(broker.active_controller)
        decided = await active_controller.decide(
            lambda controller: begin_controlled_shutdown(
                controller.image, controller.rules, request.broker_id, request.broker_epoch
            )
        )
    except NotController:
        return LeaveClusterResponse(error_code=ErrorCode.NOT_CONTROLLER)
    # The new leaders take over before the old one stops.
    await active_controller.until_propagated(decided.version)
    step = decided.results[0]
    return LeaveClusterResponse(
        error_code=step.error.code,
        error_message=step.error.message,
        version=decided.version,
        remaining=[
            RemainingPartition(topic=topic, partition_index=index)
            for topic, index in step.remaining
        ],
    )
