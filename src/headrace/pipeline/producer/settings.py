"""The settings for writing to a cluster, by Kafka's names."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.client.login.security import PLAINTEXT, InvalidSecurity, Security
from headrace.pipeline.source.client_security import client_security
from headrace.pipeline.source.settings import ReadSettings
from headrace.records.codec import Codec

CODECS: Final = {codec.name.lower(): codec for codec in Codec}


class BadSetting(ValueError):
    """An invalid client setting."""


class ProducerSettings(NamedTuple):
    """A producer's settings. The sizes limit its memory."""

    bootstrap_servers: str
    security: Security = PLAINTEXT
    client_id: str = "headrace-pipeline"
    codec: Codec = Codec.ZSTD
    batch_bytes: int = 512 << 10
    """The uncompressed size of a batch. A larger record is sent in its own batch."""
    buffer_bytes: int = 32 << 20
    """The largest number of batches in flight."""
    request_timeout_s: float = 30.0
    delivery_timeout_s: float = 120.0
    """The timeout for one request with all its retries."""
    transaction_timeout_ms: int = 900_000
    """The brokers' default for the largest timeout that they allow."""

    def reading(self) -> ReadSettings:
        """Settings for reading whole records from the same cluster."""
        return ReadSettings(
            self.bootstrap_servers,
            security=self.security,
            client_id=self.client_id,
            with_headers=True,
        )


def producer_settings(kafka: Mapping[str, str]) -> ProducerSettings:
    """Reads settings by Kafka's names; ignores settings that do not apply to a producer."""
    servers = kafka.get("bootstrap.servers", "").strip()
    if not servers:
        raise BadSetting("bootstrap.servers is missing, e.g. localhost:9092")
    try:
        security = client_security(kafka)
    except InvalidSecurity as error:
        raise BadSetting(str(error)) from None
    named = kafka.get("compression.type", "zstd").lower()
    if named not in CODECS:
        raise BadSetting(f"compression.type is {', '.join(CODECS)}, not {named!r}")
    defaults = ProducerSettings(servers)
    return defaults._replace(
        security=security,
        client_id=kafka.get("client.id", defaults.client_id),
        codec=CODECS[named],
        batch_bytes=_number(kafka, "batch.size", defaults.batch_bytes),
        buffer_bytes=_number(kafka, "buffer.memory", defaults.buffer_bytes),
        request_timeout_s=_seconds(kafka, "request.timeout.ms", defaults.request_timeout_s),
        delivery_timeout_s=_seconds(kafka, "delivery.timeout.ms", defaults.delivery_timeout_s),
        transaction_timeout_ms=_number(
            kafka, "transaction.timeout.ms", defaults.transaction_timeout_ms
        ),
    )


def _number(kafka: Mapping[str, str], name: str, default: int) -> int:
    text = kafka.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal() or int(text) < 1:
        raise BadSetting(f"{name} is a whole number above 0, not {text!r}")
    return int(text)


def _seconds(kafka: Mapping[str, str], name: str, default_s: float) -> float:
    return _number(kafka, name, int(default_s * 1000)) / 1000
