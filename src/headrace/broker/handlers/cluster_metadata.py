"""ClusterMetadata (key 10000), version 0: long poll for metadata changes after a version.

Headrace's own API, between the brokers of a cluster: the active controller responds when the
metadata has changed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.cluster_metadata import (
    ClusterMetadataRequest,
    ClusterMetadataResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(
    broker: Broker, context: Context, request: ClusterMetadataRequest
) -> ClusterMetadataResponse | asyncio.Future[ClusterMetadataResponse]:
    image = broker.metadata.image
    active_controller = broker.active_controller
    if (
        active_controller is None
        or request.controller_epoch > active_controller.elected.controller_epoch
    ):
        if active_controller is not None:
            active_controller.recheck_registrations()  # the request names a later controller epoch
        return ClusterMetadataResponse(
            error_code=ErrorCode.NOT_CONTROLLER,
            controller_id=image.controller_id,
            controller_epoch=image.controller_epoch,
        )
    known = image.brokers.get(request.broker_id)
    if known is None or known.epoch < request.broker_epoch:
        # The broker has registered, but this controller has not read its registration yet.
        active_controller.recheck_registrations()
    # A future, not a coroutine: with a coroutine, the server would not read the connection
    # meanwhile and would not notice its end.
    return broker.loop.create_task(active_controller.polls.poll(request, context.connection))
