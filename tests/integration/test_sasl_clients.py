"""Real clients log in: librdkafka, aiokafka and kafka-python, with every mechanism they have."""

import asyncio
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokens
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

import headrace.testing
from support.security.sasl_wire import PREFIX, sasl_settings
from support.security.signed_tokens import claims, issuer_settings, signed
from support.waiting import wait_for

with warnings.catch_warnings():
    # It reads its schemas through an importlib API that newer Python versions deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokens

    from kafka import KafkaConsumer, KafkaProducer

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

DEADLINE_S = 30.0
ADMIN = {"sasl.username": "admin", "sasl.password": "admin-secret", "sasl.mechanism": "PLAIN"}
CREDENTIALS = {
    "PLAIN": ("alice", "alice-secret"),
    "SCRAM-SHA-256": ("bob", "bob-secret"),
    "SCRAM-SHA-512": ("carol", "carol,secret="),
}
MECHANISMS = [*CREDENTIALS, "OAUTHBEARER"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.testing.Broker]:
    settings = {
        **sasl_settings("SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        **issuer_settings(tmp_path_factory.mktemp("issuer")),
        "group.initial.rebalance.delay.ms": "0",
    }
    with headrace.testing.Broker(settings=settings) as running:
        for user, mechanism, iterations in (
            ("bob", ScramMechanism.SCRAM_SHA_256, 4096),
            ("carol", ScramMechanism.SCRAM_SHA_512, 8192),
        ):
            put_user(running, user, CREDENTIALS[name_of(mechanism)][1], mechanism, iterations)
        yield running


def name_of(mechanism: ScramMechanism) -> str:
    return mechanism.name.replace("_", "-")


def put_user(
    broker: headrace.testing.Broker,
    user: str,
    password: str,
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256,
    iterations: int = 4096,
) -> None:
    info = ScramCredentialInfo(mechanism, iterations)
    change = UserScramCredentialUpsertion(user, info, password.encode())
    admin = AdminClient(confluent(broker, ADMIN))  # its destruction would end the request
    admin.alter_user_scram_credentials([change])[user].result(DEADLINE_S)


def confluent(broker: headrace.testing.Broker, more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        **more,
    }


def login_of(mechanism: str) -> dict[str, Any]:
    """The settings of librdkafka for a mechanism."""
    if mechanism == "OAUTHBEARER":
        return {
            "sasl.mechanism": mechanism,
            "oauth_cb": lambda _: (signed(claims("dora")), time.time() + 3600, "dora", {}),
        }
    user, password = CREDENTIALS[mechanism]
    return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_writes_and_reads(broker: headrace.testing.Broker, mechanism: str) -> None:
    topic = f"rdkafka-{mechanism.lower()}"
    producer = Producer(confluent(broker, login_of(mechanism)))
    producer.poll(0)
    producer.produce(topic, b"hello")
    assert producer.flush(DEADLINE_S) == 0
    group = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(confluent(broker, {**login_of(mechanism), **group}))
    consumer.subscribe([topic])
    message = wait_for(lambda: consumer.poll(0.1), "a record is read", deadline_s=DEADLINE_S)
    assert message.value() == b"hello"
    consumer.close()


class AioToken(AioTokens):
    """Tokens for aiokafka."""

    async def token(self) -> str:
        return signed(claims("dora"))


class PythonToken(PythonTokens):
    """Tokens for kafka-python."""

    def __init__(self, **_: Any) -> None:
        pass

    def token(self) -> str:
        return signed(claims("dora"))


def python_login(mechanism: str, provider: object) -> dict[str, Any]:
    shared = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return {**shared, "sasl_oauth_token_provider": provider}
    user, password = CREDENTIALS[mechanism]
    return {**shared, "sasl_plain_username": user, "sasl_plain_password": password}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_writes_and_reads(broker: headrace.testing.Broker, mechanism: str) -> None:
    topic = f"aiokafka-{mechanism.lower()}"
    login = {
        "bootstrap_servers": broker.bootstrap_servers,
        **python_login(mechanism, AioToken()),
    }

    async def main() -> bytes | None:
        async with AIOKafkaProducer(**login) as producer:
            await producer.send_and_wait(topic, b"hello")
        consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", **login)
        async with consumer:
            message = await asyncio.wait_for(consumer.getone(), DEADLINE_S)
        value: bytes | None = message.value
        return value

    assert asyncio.run(main()) == b"hello"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes_and_reads(broker: headrace.testing.Broker, mechanism: str) -> None:
    topic = f"python-{mechanism.lower()}"
    login = {
        "bootstrap_servers": broker.bootstrap_servers,
        **python_login(mechanism, PythonToken()),
    }
    producer = KafkaProducer(**login)
    producer.send(topic, b"hello").get(DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=int(DEADLINE_S * 1000), **login
    )
    assert next(consumer).value == b"hello"
    consumer.close()


@pytest.mark.parametrize(
    "login",
    [
        {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "wrong"},
        {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "carol", "sasl.password": "wrong"},
        {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "carol", "sasl.password": "x"},
    ],
)
def test_librdkafka_reports_wrong_credentials(
    broker: headrace.testing.Broker, login: dict[str, str]
) -> None:
    errors: list[KafkaError] = []
    admin = AdminClient(confluent(broker, {**login, "error_cb": errors.append}))

    def refused() -> bool:
        with suppress(KafkaException):
            admin.list_topics(timeout=0.2)
        admin.poll(0)
        return any(each.code() == KafkaError._AUTHENTICATION for each in errors)

    wait_for(refused, "an authentication error")


def test_users_are_listed_and_deleted(broker: headrace.testing.Broker) -> None:
    put_user(broker, "short", "x", ScramMechanism.SCRAM_SHA_512, 8192)
    admin = AdminClient(confluent(broker, ADMIN))
    found = admin.describe_user_scram_credentials().result(DEADLINE_S)
    assert {"bob", "carol", "short"} <= found.keys()
    (info,) = found["short"].scram_credential_infos
    assert (info.mechanism, info.iterations) == (ScramMechanism.SCRAM_SHA_512, 8192)
    deletion = UserScramCredentialDeletion("short", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])["short"].result(DEADLINE_S)
    with pytest.raises(KafkaException) as missing:
        admin.describe_user_scram_credentials(["short"])["short"].result(DEADLINE_S)
    assert missing.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


def test_clients_renew_their_sessions(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A producer writes for several lifetimes of its session without an error."""
    settings = {**sasl_settings(), f"{PREFIX}plain.connections.max.reauth.ms": "1500"}
    errors: list[KafkaError] = []
    with headrace.testing.Broker(settings=settings) as broker:
        login = {**login_of("PLAIN"), "error_cb": errors.append, "linger.ms": 0}
        producer = Producer(confluent(broker, login))
        failed: list[object] = []
        end = time.monotonic() + 4
        while time.monotonic() < end:
            producer.produce("t", b"x", on_delivery=lambda error, _: failed.append(error))
            assert producer.flush(DEADLINE_S) == 0
            producer.poll(0.05)
    assert set(failed) == {None}
    assert all(each.code() != KafkaError._AUTHENTICATION for each in errors)
