"""Names and labels of pushed metrics in Prometheus' form.

`org.apache.kafka.producer.connection.creation.total` becomes
`org_apache_kafka_producer_connection_creation_total`, as OpenTelemetry's rules say: characters that
Prometheus does not allow become underscores, and a counter ends in `_total`. A name outside
`org.apache.kafka` gets a prefix, so that no client can push a metric with the name of a broker's.
"""

import re
from typing import Final

KAFKA_PREFIX: Final = "org_apache_kafka_"
OTHER_PREFIX: Final = "client_telemetry_"
MAX_NAME_CHARS: Final = 200
"""Kafka's longest metric names have about 90 characters."""
MAX_LABEL_NAME_CHARS: Final = 64
MAX_LABEL_VALUE_CHARS: Final = 256
"""A topic's name has at most 249."""

CLIENT_LABELS: Final = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
)
"""The labels of every series; the broker knows their values, and the client cannot choose them."""

_RESERVED: Final = frozenset((*CLIENT_LABELS, "instance", "job", "le", "quantile"))
_NOT_ALLOWED: Final = re.compile(r"[^a-zA-Z0-9]+")


def metric_name(name: str, *, is_counter: bool) -> str | None:
    """The name of the family; None for a name that is empty or too long."""
    if len(name) > MAX_NAME_CHARS:
        return None
    plain = _NOT_ALLOWED.sub("_", name).strip("_").lower()
    if not plain:
        return None
    if not plain.startswith(KAFKA_PREFIX):
        plain = OTHER_PREFIX + plain
    if is_counter:
        return plain if plain.endswith("_total") else f"{plain}_total"
    # In OpenMetrics only a counter may end in _total.
    return plain.removesuffix("_total")


def label_name(name: str) -> str | None:
    """The name of a label; None for one that is empty, too long or the broker's own."""
    if len(name) > MAX_LABEL_NAME_CHARS:
        return None
    plain = _NOT_ALLOWED.sub("_", name).strip("_")
    if plain[:1].isdigit():
        plain = f"_{plain}"
    return None if not plain or plain in _RESERVED else plain


def label_value(value: str) -> str:
    return value[:MAX_LABEL_VALUE_CHARS]
