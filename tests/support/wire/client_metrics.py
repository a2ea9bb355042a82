"""Client metrics over the wire: subscriptions, OTLP payloads and pushes."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from headrace.broker.telemetry.client_metrics_collector import ClientMetricsCollector
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from headrace.records.codec import Codec, compress
from headrace.testing import Broker
from support.wire.connection import Wire

CLIENT_METRICS: Final = 16
SET, DELETE = 0, 1
DELTA, CUMULATIVE = 1, 2
SETTINGS: Final = ("interval.ms", "metrics", "match")


class Value(NamedTuple):
    """One series of a scrape."""

    labels: Mapping[str, str]
    value: float


def alter_subscription(wire: Wire, name: str, values: Mapping[str, str | None]) -> ErrorCode:
    """Sets each value, or removes it if it is None."""
    resource = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=CLIENT_METRICS,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsAlterableConfig(
                name=key, config_operation=DELETE if value is None else SET, value=value
            )
            for key, value in values.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (result,) = wire.call(request, IncrementalAlterConfigsResponse).responses
    return ErrorCode(result.error_code)


def subscribe_clients(
    wire: Wire, name: str, *, metrics: str = "*", interval_ms: int = 1000, match: str = ""
) -> None:
    values = {"metrics": metrics, "interval.ms": str(interval_ms), "match": match}
    assert alter_subscription(wire, name, values) == ErrorCode.NONE


def remove_subscription(wire: Wire, name: str) -> None:
    assert alter_subscription(wire, name, dict.fromkeys(SETTINGS)) == ErrorCode.NONE


def get_subscription(
    wire: Wire, instance_id: bytes = bytes(16)
) -> GetTelemetrySubscriptionsResponse:
    request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
    return wire.call(request, GetTelemetrySubscriptionsResponse)


def push(
    wire: Wire,
    subscription: GetTelemetrySubscriptionsResponse,
    metrics: bytes = b"",
    *,
    codec: int = Codec.NONE,
    subscription_id: int | None = None,
    terminating: bool = False,
) -> ErrorCode:
    """Pushes the payload as it is, and returns the error code."""
    request = PushTelemetryRequest(
        client_instance_id=subscription.client_instance_id,
        subscription_id=(
            subscription.subscription_id if subscription_id is None else subscription_id
        ),
        terminating=terminating,
        compression_type=codec,
        metrics=metrics,
    )
    return ErrorCode(wire.call(request, PushTelemetryResponse).error_code)


def counter(
    name: str,
    value: float,
    *,
    temporality: int = DELTA,
    attributes: Mapping[str, str] | None = None,
) -> Metric:
    metric = Metric(name=name)
    metric.sum.is_monotonic = True
    metric.sum.aggregation_temporality = temporality  # type: ignore[assignment]
    metric.sum.data_points.add(as_double=value, attributes=pairs(attributes or {}))
    return metric


def gauge(name: str, value: float, attributes: Mapping[str, str] | None = None) -> Metric:
    metric = Metric(name=name)
    metric.gauge.data_points.add(as_double=value, attributes=pairs(attributes or {}))
    return metric


def pairs(values: Mapping[str, str]) -> list[KeyValue]:
    found = []
    for key, value in values.items():
        pair = KeyValue(key=key)
        pair.value.string_value = value
        found.append(pair)
    return found


def payload(
    *metrics: Metric, codec: Codec = Codec.NONE, resource: Mapping[str, str] | None = None
) -> bytes:
    data = MetricsData()
    holder = data.resource_metrics.add()
    holder.resource.attributes.extend(pairs(resource or {}))
    holder.scope_metrics.add().metrics.extend(metrics)
    return compress(codec, data.SerializeToString())


def scraped(broker: Broker, family: str) -> list[Value]:
    """The samples of one family, as /metrics would show them."""
    return list(broker.on_loop(lambda: _samples(broker, family)))


def _samples(broker: Broker, family: str) -> list[Value]:
    assert broker.node is not None
    receiver = broker.node.client_metrics
    assert receiver is not None
    values = []
    for found in ClientMetricsCollector(receiver).collect():
        samples = list(found.samples)
        if found.name == family:
            for labels, value in samples:
                shown = dict(zip(found.labels, labels, strict=True))
                values.append(Value({name: text for name, text in shown.items() if text}, value))
    return values
