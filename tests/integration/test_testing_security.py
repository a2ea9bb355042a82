"""Secured brokers of `headrace.testing`: users, rights, and the faults of security."""

import socket
import ssl
from collections.abc import Iterator
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.testing import Broker, Cluster, Headrace, VirtualClock, allow, deny, factories
from headrace.testing.security import NoSuchUser, SecurityName

SECURITY: tuple[SecurityName, ...] = ("ssl", "sasl_plaintext", "sasl_ssl")
ACLS = [
    allow("alice", "write", topic="orders"),
    allow("*", "read", topic="public-", prefixed=True),
    deny("mallory", "all", topic="*"),
]
DEADLINE_S = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    users = {"alice": "secret", "mallory": "pass word"}
    with Broker(security="sasl_ssl", users=users, acls=ACLS) as broker:
        broker.headrace.create_topic("orders")
        yield broker


@pytest.fixture(autouse=True)
def clean(broker: Broker) -> Iterator[None]:
    yield
    broker.trouble.clear()


def write(config: dict[str, str], topic: str = "orders", value: str = "x") -> KafkaError | None:
    """The error of one record."""
    producer = Producer({**config, "message.timeout.ms": DEADLINE_S * 1000, "log_level": 0})
    outcome: list[KafkaError | None] = []
    producer.produce(topic, value, on_delivery=lambda error, _: outcome.append(error))
    assert producer.flush(DEADLINE_S) == 0
    return outcome[0]


def certificate_of(broker: Broker) -> bytes:
    """What a new connection gets, in DER."""
    context = ssl.create_default_context(cafile=str(broker.ca_path))
    with (
        socket.create_connection(("127.0.0.1", broker.port), timeout=DEADLINE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        return cast("bytes", secured.getpeercert(binary_form=True))


@pytest.mark.parametrize("security", SECURITY)
def test_a_user_may_do_what_its_acls_allow(security: SecurityName) -> None:
    with Broker(security=security, users=["alice", "bob"], acls=ACLS) as broker:
        broker.headrace.create_topic("orders")
        assert write(broker.client_config("alice")) is None
        refused = write(broker.client_config("bob"))
        assert refused is not None
        assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert [record.value for record in broker.headrace.consume("orders", 1)] == [b"x"]
        broker.restart()
        assert write(broker.client_config("alice"), value="y") is None
        assert len(broker.headrace.consume("orders", 2)) == 2
        broker.headrace.revoke(ACLS[0])
        broker.restart()
        assert write(broker.client_config("alice")) is not None


def test_a_wrong_password_and_a_client_without_tls_are_refused(broker: Broker) -> None:
    wrong = broker.client_config("alice") | {"sasl.password": "guess"}
    for config in (wrong, {"bootstrap.servers": broker.bootstrap_servers}):
        producer = Producer({**config, "log_level": 0, "socket.timeout.ms": 1000})
        with pytest.raises(KafkaException):
            producer.list_topics(timeout=1)


def test_a_right_is_granted_and_revoked_while_clients_run(broker: Broker) -> None:
    right = allow("mallory", "write", topic="orders")
    broker.headrace.grant(right)
    assert write(broker.client_config("mallory")) is not None  # the deny wins
    broker.headrace.revoke(ACLS[2])
    assert write(broker.client_config("mallory")) is None
    broker.headrace.revoke(right)
    assert write(broker.client_config("mallory")) is not None
    broker.headrace.grant(ACLS[2])


def test_an_expired_session_ends_and_the_client_logs_in_again(broker: Broker) -> None:
    errors: list[KafkaError] = []
    config = {**broker.client_config("alice"), "error_cb": errors.append, "log_level": 0}
    producer = Producer(config)
    producer.list_topics("orders", timeout=DEADLINE_S)
    producer.produce("orders", "before")
    assert producer.flush(DEADLINE_S) == 0
    before = broker.on_loop(lambda: set(broker.node.server.connections if broker.node else ()))
    broker.trouble.expire_sessions("alice")
    producer.produce("orders", "after")
    assert producer.flush(DEADLINE_S) == 0
    after = broker.on_loop(lambda: set(broker.node.server.connections if broker.node else ()))
    assert after - before


def test_a_rotated_certificate_is_used_for_new_connections(broker: Broker) -> None:
    producer = Producer(broker.client_config("alice"))
    producer.produce("orders", "before")
    assert producer.flush(DEADLINE_S) == 0
    before = certificate_of(broker)
    broker.trouble.rotate_certificate()
    assert certificate_of(broker) != before
    producer.produce("orders", "after, on the open connection")
    assert producer.flush(DEADLINE_S) == 0
    assert write(broker.client_config("alice")) is None


@pytest.mark.parametrize("security", SECURITY)
def test_faults_reach_the_requests_of_secured_clients(security: SecurityName) -> None:
    with Broker(security=security, users=["alice"], acls=ACLS) as broker:
        broker.headrace.create_topic("orders")
        open_before = Producer(broker.client_config("alice"))
        open_before.produce("orders", "x")
        assert open_before.flush(DEADLINE_S) == 0
        for producer in (open_before, None):
            fault = broker.trouble.fail("Produce", "NOT_ENOUGH_REPLICAS")
            if producer is None:  # its connection opens while the fault waits
                assert write(broker.client_config("alice")) is None
            else:
                producer.produce("orders", "x")
                assert producer.flush(DEADLINE_S) == 0
            assert fault.hits == 1


def test_sessions_end_as_the_clock_advances() -> None:
    clock = VirtualClock()
    settings = {"connections.max.reauth.ms": 60_000}
    with Broker(security="sasl_plaintext", users=["a"], clock=clock, settings=settings) as broker:
        broker.headrace.create_topic("orders")
        clock.advance(minutes=5)
        assert broker.headrace.topics() == {"orders": 1}


secured_proc = factories.headrace_proc(security="ssl", users=["alice"], acls=ACLS)
secured = factories.headrace("secured_proc")


def test_fixtures_take_security(secured: Headrace) -> None:
    secured.create_topic("orders")
    assert write(secured.client_config("alice")) is None
    assert secured.consume("orders", 1)[0].value == b"x"


def test_mistakes_are_explained(broker: Broker) -> None:
    with pytest.raises(NoSuchUser, match="alice"):
        broker.client_config("bob")
    with pytest.raises(ValueError, match="security"):
        Broker(users=["alice"])
    with pytest.raises(ValueError, match="sasl_ssl"):
        Broker(security=cast("SecurityName", "tls"))
    with Broker() as plain:
        assert plain.client_config() == {"bootstrap.servers": plain.bootstrap_servers}
        with pytest.raises(TypeError, match="security"):
            plain.client_config("alice")
    with pytest.raises(ValueError, match="one resource"):
        allow("alice", "read")
    with pytest.raises(ValueError, match="there are"):
        allow("alice", "reed", topic="orders")
    assert "secret" not in repr(broker.security)


@pytest.mark.parametrize("security", ["ssl", "sasl_ssl"])
def test_the_brokers_of_a_cluster_authenticate_to_each_other(security: SecurityName) -> None:
    with Cluster(3, security=security, users=["alice"], acls=ACLS) as cluster:
        cluster.headrace.create_topic("orders")
        assert write(cluster.client_config("alice")) is None
        cluster.kill(cluster.leader("orders"))
        assert write(cluster.client_config("alice"), value="y") is None
        values = [record.value for record in cluster.headrace.consume("orders", 2)]
        assert values == [b"x", b"y"]
        cluster.headrace.revoke(ACLS[0])
        assert write(cluster.client_config("alice")) is not None
