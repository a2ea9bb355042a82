"""The collectors of the metrics that clients push and of traces, if the broker has them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from headrace.metrics.family import Collector

if TYPE_CHECKING:
    from headrace.broker.telemetry.client_metrics_receiver import ClientMetricsReceiver
    from headrace.broker.tracing.request_tracing import RequestTracing


class TelemetryCollectorsHost(Protocol):
    """What these collectors need of the broker."""

    tracing: "RequestTracing | None"

    @property
    def client_metrics(self) -> "ClientMetricsReceiver | None": ...


def telemetry_collectors(broker: TelemetryCollectorsHost) -> Iterator[Collector]:
    receiver = broker.client_metrics
    if receiver is not None:
        from headrace.broker.telemetry.client_metrics_collector import ClientMetricsCollector

        yield ClientMetricsCollector(receiver)
    if broker.tracing is not None:
        from headrace.broker.tracing.tracing_collector import TracingCollector

        yield TracingCollector(broker.tracing)
