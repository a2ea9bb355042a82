"""Connections, TLS handshakes, logins and quotas."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from headrace.broker.access.access_control import AccessControl
from headrace.broker.metrics.samples import counter, gauge
from headrace.broker.network.server import Server
from headrace.broker.quotas.client_quotas import ClientQuotas
from headrace.cluster.http_listener import LISTENER_NAME
from headrace.cluster.settings import BrokerSettings
from headrace.metrics.family import Kind, MetricFamily, Sample

PREFIX: Final = "kafka_server_socket_server_metrics_"
LABELS: Final = ("listener", "networkProcessor")
ONLY_PROCESSOR: Final = "0"
"""Kafka has several network threads; here the event loop serves all connections."""


class NetworkCollectorHost(Protocol):
    """What the collector needs of the broker."""

    settings: BrokerSettings
    server: Server
    access: AccessControl
    quotas: ClientQuotas


class NetworkCollector:
    """Counts by listener."""

    def __init__(self, host: NetworkCollectorHost) -> None:
        self._host = host

    def collect(self) -> Iterator[MetricFamily | None]:
        host, server, audit = self._host, self._host.server, self._host.access.audit
        yield self._family(
            "connection_count", "gauge", "Open connections.", server.quotas.open_connections()
        )
        for name, help_, values in (
            (
                "connection_creation_total",
                "Connections that were accepted.",
                server.quotas.opened,
            ),
            ("successful_authentication_total", "Logins.", audit.logins),
            ("failed_authentication_total", "Failed logins.", audit.failed_logins),
        ):
            yield self._family(name, "counter", help_, values)
        tls = [each.name for each in host.settings.listeners if each.uses_tls]
        yield MetricFamily(
            "headrace_tls_handshakes_total",
            "counter",
            "TLS handshakes, by listener and result.",
            ("listener", "result"),
            _handshakes(tls, server.completed_handshakes, server.failed_handshakes),
        )
        yield counter(
            "headrace_refused_connections_total",
            "Connections that a limit refused: max.connections or max.connections.per.ip.",
            server.refused,
        )
        yield gauge(
            "headrace_unsent_response_bytes",
            "Bytes of responses that clients do not read.",
            server.unsent_bytes,
        )
        yield counter(
            "headrace_denied_requests_total",
            "Decisions of the authorizer that denied a right.",
            audit.denied,
        )
        requests, seconds = host.quotas.throttled
        yield counter(
            "headrace_throttled_requests_total",
            "Requests whose client was over a quota.",
            requests,
        )
        yield counter(
            "headrace_throttle_seconds_total",
            "Sum of the times for which clients over a quota were throttled.",
            seconds,
        )

    def _family(self, name: str, kind: Kind, help_: str, values: Mapping[str, int]) -> MetricFamily:
        listeners = [each.name for each in self._host.settings.listeners]
        if "authentication" in name:  # the HTTP port has no connections of Kafka's kind
            listeners.append(LISTENER_NAME)
        samples = tuple(((each, ONLY_PROCESSOR), values.get(each, 0)) for each in listeners)
        return MetricFamily(PREFIX + name, kind, help_, LABELS, samples)


def _handshakes(
    listeners: list[str], completed: Counter[str], failed: Counter[str]
) -> Iterator[Sample]:
    for name in listeners:
        yield (name, "completed"), completed[name]
        yield (name, "failed"), failed[name]
