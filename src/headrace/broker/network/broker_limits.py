"""The broker-wide limits that handlers and listeners need, from the current image."""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.broker.network.connection_limits import UNLIMITED, ListenerLimits, ServerLimits
from headrace.cluster.effective_config import EffectiveConfig
from headrace.cluster.listeners import Listener


class BrokerLimits(NamedTuple):
    """Named like Kafka's settings; created again when a broker's configuration changes."""

    fetch_max_bytes: int
    auto_create_topics: bool
    max_partitions_per_page: int
    producer_id_expiration_ms: int
    transaction_verification: bool
    adding_retry_s: float
    adding_retry_max_s: float
    server: ServerLimits

    @classmethod
    def from_config(
        cls, effective: EffectiveConfig, listeners: Sequence[Listener] = ()
    ) -> "BrokerLimits":
        def number(name: str) -> int:
            value = effective.broker_value(name)
            assert isinstance(value, int)
            return value

        return cls(
            fetch_max_bytes=number("fetch.max.bytes"),
            auto_create_topics=bool(number("auto.create.topics.enable")),
            max_partitions_per_page=number("max.request.partition.size.limit"),
            producer_id_expiration_ms=number("producer.id.expiration.ms"),
            transaction_verification=bool(number("transaction.partition.verification.enable")),
            adding_retry_s=number("add.partitions.to.txn.retry.backoff.ms") / 1000,
            adding_retry_max_s=number("add.partitions.to.txn.retry.backoff.max.ms") / 1000,
            server=ServerLimits(
                max_frame_bytes=number("socket.request.max.bytes"),
                max_in_flight=number("headrace.max.inflight.requests.per.connection"),
                max_in_flight_bytes=number("headrace.max.inflight.bytes.per.connection"),
                max_connections=number("max.connections"),
                max_connections_per_ip=number("max.connections.per.ip"),
                connections_per_ip_overrides=_overrides(
                    str(effective.broker_value("max.connections.per.ip.overrides") or "")
                ),
                max_idle_s=number("connections.max.idle.ms") / 1000,
                max_creation_rate=number("max.connection.creation.rate"),
                tls_receive_buffer_bytes=number("socket.receive.buffer.bytes"),
                slow_request_s=number("headrace.slow.request.ms") / 1000,
                listeners={each.name: _listener_limits(effective, each) for each in listeners},
            ),
        )


def _listener_limits(effective: EffectiveConfig, listener: Listener) -> ListenerLimits:
    """Only the listener's own values: the broker's count for all listeners together."""
    settings = effective.listener(listener.name)
    most, rate = settings.own("max.connections"), settings.own("max.connection.creation.rate")
    return ListenerLimits(int(most or UNLIMITED), int(rate or UNLIMITED))


def _overrides(text: str) -> dict[str, int]:
    """`host:count,...` by host; the validation of the setting has checked the format."""
    pairs = (pair.rpartition(":") for pair in text.split(",") if pair.strip())
    return {host.strip(): int(count) for host, _, count in pairs}
