"""Other projects' clients through TLS, with and without a certificate of their own."""

import asyncio
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.testing import Broker
from support.brokers.processes import LOOPBACK, BrokerProcess, free_port
from support.security.certificates import CertificateAuthority, Issued
from support.security.tls_wire import TlsWire, client_context
from support.waiting import wait_for

with warnings.catch_warnings():
    # It reads its schemas through an importlib API that newer Python versions deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

TIMEOUT_S = 20
VALUES = [b"%d" % number * 100 for number in range(200)]


class Secured(NamedTuple):
    """A broker that accepts only clients with a certificate, and such a certificate."""

    servers: str
    authority: CertificateAuthority
    client: Issued

    @property
    def librdkafka(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.ca_file),
            "ssl.certificate.location": str(self.client.certificate_file),
            "ssl.key.location": str(self.client.key_file),
        }


@pytest.fixture(scope="module")
def secured(authority: CertificateAuthority) -> Iterator[Secured]:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(authority.issue("broker").keystore_file),
        "ssl.truststore.location": str(authority.ca_file),
        "ssl.client.auth": "required",
    }
    with Broker(settings=settings) as broker:
        yield Secured(f"localhost:{broker.port}", authority, authority.issue("alice"))


def test_confluent_kafka_produces_and_consumes_in_a_group(secured: Secured) -> None:
    errors: list[KafkaError] = []
    settings = {**secured.librdkafka, "error_cb": errors.append}
    producer = Producer(settings)
    for value in VALUES:
        producer.produce("confluent", value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    found: list[bytes | None] = []
    wait_for(
        lambda: (
            found.extend(each.value() for each in consumer.consume(len(VALUES), 0.2))
            or len(found) >= len(VALUES)
        ),
        "all records",
    )
    consumer.close()
    assert sorted(filter(None, found)) == sorted(VALUES)
    assert not errors


def test_confluent_kafka_without_a_certificate_is_refused(secured: Secured) -> None:
    settings = {
        name: value
        for name, value in secured.librdkafka.items()
        if name not in ("ssl.certificate.location", "ssl.key.location")
    }
    with pytest.raises(KafkaException):
        AdminClient({**settings, "log_level": 0}).list_topics(timeout=2)


def test_aiokafka_produces_and_consumes(secured: Secured) -> None:
    async def work() -> list[bytes | None]:
        context = client_context(secured.authority, secured.client)
        shared = {
            "bootstrap_servers": secured.servers,
            "security_protocol": "SSL",
            "ssl_context": context,
        }
        async with AIOKafkaProducer(**shared) as producer:
            for value in VALUES:
                await producer.send("aiokafka", value)
        async with AIOKafkaConsumer("aiokafka", auto_offset_reset="earliest", **shared) as consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    async def bounded() -> list[bytes | None]:
        return await asyncio.wait_for(work(), TIMEOUT_S)

    assert asyncio.run(bounded()) == VALUES


def test_kafka_python_produces_and_consumes(secured: Secured) -> None:
    shared = {
        "bootstrap_servers": secured.servers,
        "security_protocol": "SSL",
        "ssl_cafile": str(secured.authority.ca_file),
        "ssl_certfile": str(secured.client.certificate_file),
        "ssl_keyfile": str(secured.client.key_file),
    }
    producer = KafkaProducer(**shared)
    for value in VALUES:
        producer.send("kafka-python", value)
    producer.flush(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer("kafka-python", auto_offset_reset="earliest", **shared)
    found: list[bytes] = []

    def has_all() -> bool:
        for records in consumer.poll(timeout_ms=200).values():
            found.extend(record.value for record in records)
        return len(found) >= len(VALUES)

    wait_for(has_all, "all records")
    consumer.close()
    assert found == VALUES


class StartedFromFile(BrokerProcess):
    """`headrace broker start`, as a service manager runs it."""

    def command(self) -> list[str]:
        file = self.log.with_name("broker.properties")
        settings = {"log.dirs": self.data, **self._settings}
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return [sys.executable, "-m", "headrace", "broker", "start", f"--config={file}"]


def test_sighup_reads_a_changed_certificate(
    tmp_path: Path, authority: CertificateAuthority
) -> None:
    first, second = authority.issue("broker"), authority.issue("broker")
    store = tmp_path / "keystore.pem"
    store.write_bytes(first.keystore_file.read_bytes())
    port = free_port()
    broker = StartedFromFile(tmp_path)
    plain = f"PLAINTEXT://{LOOPBACK}:{broker.port}"
    broker._settings["listeners"] = f"{plain},SSL://{LOOPBACK}:{port}"
    broker._settings["ssl.keystore.location"] = store
    context = client_context(authority)

    def shown() -> bytes:
        with TlsWire(port, context) as wire:
            return wire.certificate

    with broker:
        assert shown() == first.der
        store.write_bytes(second.keystore_file.read_bytes())
        os.kill(broker.pid, signal.SIGHUP)
        wait_for(lambda: shown() == second.der, "new clients see it", deadline_s=4)
        assert broker.stop() == 0
