"""The settings, first users and client configurations of secured brokers."""

from pathlib import Path

import pytest

from headrace.certificate_files import CertificateFiles
from headrace.client.login.security import Mechanism, security_of
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import AclCreated, ScramCredentialChanged
from headrace.cluster.settings import BrokerSettings
from headrace.local_security import (
    MECHANISM,
    ClientConfig,
    FirstUsers,
    SecurityProtocol,
    broker_login,
    broker_settings,
    scram_login,
)
from headrace.security.sasl.jaas import parse_jaas
from headrace.testing import allow

ACL = allow("alice", "read", topic="orders")


@pytest.mark.parametrize("password", ["plain", 'a "quoted" \\ one', "with = and ;", "naïve"])
def test_a_login_keeps_every_character_of_the_password(password: str) -> None:
    login = parse_jaas(scram_login("alice", password))
    assert (login.username, login.password) == ("alice", password)
    config = ClientConfig("a:1", "SASL_PLAINTEXT", user="alice", password=password)
    for settings in (config.librdkafka(), config.java()):
        sasl = security_of(settings).sasl
        assert sasl is not None
        found = (sasl.mechanism, sasl.username, sasl.password)
        assert found == (Mechanism.SCRAM_SHA_512, "alice", password)
    assert password not in repr(config)


def test_only_missing_users_and_acls_are_added() -> None:
    first = FirstUsers({"alice": "secret"}, [ACL])
    records = first.records(MetadataImage())
    assert [type(each) for each in records] == [ScramCredentialChanged, AclCreated]
    image = MetadataImage().apply(records)
    assert first.records(image) == []
    (changed,) = FirstUsers({"alice": "other"}, replaces=True).records(image)
    assert isinstance(changed, ScramCredentialChanged)
    assert changed.credential != image.scram_credentials["alice", MECHANISM]
    assert "secret" not in repr(first)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_the_settings_of_a_broker_are_valid(protocol: SecurityProtocol, tmp_path: Path) -> None:
    settings = broker_settings(protocol, CertificateFiles(tmp_path), ["User:admin"])
    if protocol != "SSL":
        settings |= broker_login(protocol, "broker", "secret")
    parsed = BrokerSettings.parse({**settings, "listeners": f"{protocol}://127.0.0.1:0"})
    assert parsed.warnings == ()
    assert "secret" not in repr(parsed)
