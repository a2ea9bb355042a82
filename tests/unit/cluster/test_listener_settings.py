"""A listener's own settings, and the listener of the brokers."""

import pytest

from headrace.cluster.listener_settings import ListenerSettings
from headrace.cluster.settings import BrokerSettings, InvalidSetting

DYNAMIC = {"listener.name.inside.ssl.keystore.location": "dynamic", "ssl.client.auth": "none"}
STATIC = {
    "listener.name.inside.ssl.keystore.location": "static",
    "listener.name.inside.ssl.client.auth": "required",
    "listener.name.inside.plain.connections.max.reauth.ms": "7",
    "connections.max.reauth.ms": "5",
    "ssl.keystore.location": "broker",
}
INSIDE = ListenerSettings("INSIDE", (DYNAMIC, STATIC))
OUTSIDE = ListenerSettings("OUTSIDE", (DYNAMIC, STATIC))


def test_a_listeners_own_value_hides_that_of_the_broker_even_a_dynamic_one() -> None:
    assert INSIDE.string("ssl.keystore.location") == "dynamic"
    assert OUTSIDE.string("ssl.keystore.location") == "broker"
    assert INSIDE.string("ssl.client.auth") == "required"
    assert OUTSIDE.string("ssl.client.auth") == "none"
    assert OUTSIDE.own("ssl.client.auth") is None


def test_a_value_of_a_mechanism_hides_that_of_its_listener() -> None:
    assert INSIDE.integer("connections.max.reauth.ms", mechanism="PLAIN") == 7
    assert INSIDE.integer("connections.max.reauth.ms", mechanism="OAUTHBEARER") == 5


def test_secrets_are_in_no_repr() -> None:
    secret = ListenerSettings("A", ({"listener.name.a.ssl.key.password": "hunter2"},))
    assert "hunter2" not in repr(secret)


TWO = {
    "listeners": "CLIENTS://:9092,SSL://:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,SSL:SSL",
    "ssl.keystore.location": "store.pem",
}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "CLIENTS"),
        ({"inter.broker.listener.name": "ssl"}, "SSL"),
        ({"security.inter.broker.protocol": "SSL"}, "SSL"),
    ],
)
def test_the_listener_of_the_brokers_is_named_by_either_setting(
    more: dict[str, str], expected: str
) -> None:
    assert BrokerSettings.parse(TWO | more).inter_broker_listener.name == expected


def test_both_settings_for_the_listener_of_the_brokers_are_refused() -> None:
    both = {"inter.broker.listener.name": "SSL", "security.inter.broker.protocol": "SSL"}
    with pytest.raises(InvalidSetting, match=r"set either this or security\.inter\.broker"):
        BrokerSettings.parse(TWO | both)


MEMBER = {
    "zookeeper.connect": "somewhere:2181",
    "broker.id": "1",
    "listeners": "SASL_PLAINTEXT://:9092",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
}
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, r"sasl\.mechanism\.inter\.broker\.protocol = GSSAPI: between brokers, use one of"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "must be among"),
        (
            {"sasl.mechanism.inter.broker.protocol": "PLAIN", JAAS: f'{MODULE} user_a="b";'},
            "with a username and a password",
        ),
    ],
)
def test_a_member_that_cannot_log_in_at_other_brokers_is_refused(
    more: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidSetting, match=words):
        BrokerSettings.parse({JAAS: f'{MODULE} user_a="b";'} | MEMBER | more)


def test_the_login_at_other_brokers_comes_from_the_jaas_text() -> None:
    jaas = f'{MODULE} username="broker" password="hunter2" user_broker="hunter2";'
    more = {"sasl.mechanism.inter.broker.protocol": "PLAIN", JAAS: jaas}
    login = BrokerSettings.parse(MEMBER | more).inter_broker_login
    assert login is not None
    assert (login.mechanism, login.username, login.password) == ("PLAIN", "broker", "hunter2")
    assert "hunter2" not in repr(login)
