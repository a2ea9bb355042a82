"""librdkafka gets settings that it knows, whichever client they were written for."""

import pytest
from confluent_kafka import Producer

from headrace.client.login.rdkafka_settings import rdkafka_settings
from headrace.client.login.security import InvalidSecurity


def test_settings_of_java_clients_are_translated() -> None:
    found = rdkafka_settings(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": 'ScramLoginModule required username="me" password="p";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/etc/ca.pem",
            "ssl.keystore.location": "/etc/me.p12",
            "ssl.keystore.password": "q",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "p",
        "ssl.ca.location": "/etc/ca.pem",
        "ssl.keystore.location": "/etc/me.p12",
        "ssl.keystore.password": "q",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_librdkafkas_own_names_win() -> None:
    found = rdkafka_settings({"ssl.ca.location": "a.pem", "ssl.truststore.location": "b.jks"})
    assert found == {"ssl.ca.location": "a.pem"}


def test_a_pem_key_store_is_certificate_and_key() -> None:
    found = rdkafka_settings(
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": "me.pem", "ssl.protocol": "TLSv1.3"}
    )
    assert found == {"ssl.certificate.location": "me.pem", "ssl.key.location": "me.pem"}


def test_librdkafka_accepts_the_result_for_inline_certificates_and_tokens() -> None:
    found = rdkafka_settings(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "file:///run/token",
            "sasl.oauthbearer.client.credentials.client.id": "only Java knows this name",
            "ssl.keystore.key": "",
        }
    )
    assert found == {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    config: dict[str, object] = {**found, "bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    Producer(config | {"oauth_cb": lambda _: ("token", 4e9)}).flush(0)


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl.tokenauth": "true", "sasl.mechanism": "SCRAM-SHA-256"},
        {"ssl.truststore.location": "/etc/trust.p12"},
        {"ssl.truststore.location": "/etc/trust", "ssl.truststore.type": "JKS"},
    ],
)
def test_what_librdkafka_cannot_do_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidSecurity, match="librdkafka"):
        rdkafka_settings(settings)
