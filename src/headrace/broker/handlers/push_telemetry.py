"""PushTelemetry (key 72), version 0: metrics that a client pushes (KIP-714).

As in Kafka, no right is needed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.handlers.get_telemetry_subscriptions import requester_of
from headrace.broker.network.dispatch import Context
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from headrace.telemetry.client_instance import Push

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(
    broker: Broker, context: Context, request: PushTelemetryRequest
) -> PushTelemetryResponse | asyncio.Future[PushTelemetryResponse]:
    receiver = broker.client_metrics
    if receiver is None:
        return PushTelemetryResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    push = Push(
        request.subscription_id,
        request.terminating,
        request.compression_type,
        len(request.metrics),
    )
    data = bytes(request.metrics)
    outcome = receiver.push(requester_of(context), request.client_instance_id, push, data)
    if isinstance(outcome, ErrorCode):
        return PushTelemetryResponse(error_code=outcome)
    return asyncio.ensure_future(_respond(outcome))


async def _respond(outcome: asyncio.Future[ErrorCode]) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=await outcome)
