"""GetTelemetrySubscriptions (key 71), version 0: the metrics that a client should push (KIP-714).

As in Kafka, no right is needed, and counters are requested as deltas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.broker.telemetry.client_metrics_receiver import Requester
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from headrace.records.codec import Codec

if TYPE_CHECKING:
    from headrace.broker.node import Broker

ACCEPTED_CODECS: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""In Kafka's order: clients take the first that they have. Uncompressed pushes are accepted too."""


def requester_of(context: Context) -> Requester:
    return Requester(context.connection, context.client_id, context.session.host)


def handle(
    broker: Broker, context: Context, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    receiver = broker.client_metrics
    if receiver is None:
        return GetTelemetrySubscriptionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    code, instance = receiver.subscribe(requester_of(context), request.client_instance_id)
    if code:
        return GetTelemetrySubscriptionsResponse(error_code=code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED_CODECS),
        push_interval_ms=instance.wanted.interval_ms,
        telemetry_max_bytes=receiver.max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.wanted.metrics),
    )
