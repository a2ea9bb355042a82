"""UnregisterBroker (key 64), version 0: removes the registration of a stopped broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.metadata.change_log import decide_logged
from headrace.broker.network.dispatch import Context
from headrace.controller.broker_registration import unregister_broker
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


async def handle(
    broker: Broker, context: Context, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    results = await decide_logged(
        broker.metadata,
        context,
        ApiKey.UNREGISTER_BROKER,
        lambda controller: unregister_broker(controller.image, controller.rules, request.broker_id),
    )
    error = results[0]
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
