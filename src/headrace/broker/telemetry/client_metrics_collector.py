"""The metrics that clients pushed, and those about their receiver, for `/metrics`."""

from collections.abc import Iterator

from headrace.broker.telemetry.client_metrics_receiver import ClientMetricsReceiver
from headrace.metrics.family import MetricFamily
from headrace.telemetry.client_series import PushingClient
from headrace.telemetry.series_names import CLIENT_LABELS

_RESOURCE_LABELS = (
    "client_rack",
    "group_id",
    "group_instance_id",
    "group_member_id",
    "transactional_id",
)


class ClientMetricsCollector:
    """Reads one receiver."""

    def __init__(self, receiver: ClientMetricsReceiver) -> None:
        self._receiver = receiver

    def collect(self) -> Iterator[MetricFamily]:
        receiver = self._receiver
        receiver.expire()
        yield _gauge(
            "kafka_server_client_metrics_instance_count",
            "Client instances that asked for a subscription to client metrics.",
            len(receiver.instances),
        )
        counts = receiver.counts
        yield _counter(
            "kafka_server_client_metrics_unknown_subscription_request_total",
            "Pushes with an old or unknown subscription id.",
            counts.unknown_subscriptions,
        )
        yield _counter(
            "kafka_server_client_metrics_throttle_total",
            "Telemetry requests that came before the next push interval.",
            counts.throttled,
        )
        yield _counter(
            "kafka_server_client_metrics_plugin_export_total",
            "Pushes of client metrics that were accepted.",
            counts.accepted,
        )
        yield _counter(
            "kafka_server_client_metrics_plugin_error_total",
            "Pushes of client metrics that could not be decoded or were too large.",
            counts.failed,
        )
        yield _gauge(
            "headrace_client_metrics_series", "Series pushed by clients.", receiver.series.count
        )
        yield MetricFamily(
            "headrace_client_metrics_dropped_total",
            "counter",
            "Parts of pushes that were dropped, by reason.",
            ("reason",),
            tuple(((why.value,), float(n)) for why, n in sorted(receiver.series.dropped.items())),
        )
        yield MetricFamily(
            "headrace_client_metrics_client_info",
            "info",
            "Clients that push metrics.",
            (*CLIENT_LABELS, "client_source_address", *_RESOURCE_LABELS),
            ((_client_labels(client), 1.0) for client in receiver.series.clients()),
        )
        yield from receiver.series.families()


def _client_labels(client: PushingClient) -> tuple[str, ...]:
    resource = (client.resource.get(name, "") for name in _RESOURCE_LABELS)
    return (*client.labels, client.address, *resource)


def _gauge(name: str, help_: str, value: float) -> MetricFamily:
    return MetricFamily(name, "gauge", help_, (), (((), float(value)),))


def _counter(name: str, help_: str, value: float) -> MetricFamily:
    return MetricFamily(name, "counter", help_, (), (((), float(value)),))
