"""Kafka's own tool manages delegation tokens, and Java clients log in with them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import Broker
from support.clients.java import ToolFailed, run

TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN} user_alice="alice-secret" user_bob="bob-secret";'
    ),
    "delegation.token.secret.key": "the same on every broker",
}


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        yield broker


def config(path: Path, mechanism: str, jaas: str) -> str:
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
    )
    return str(path)


@pytest.fixture
def alice(tmp_path: Path) -> str:
    jaas = f'{PLAIN} username="alice" password="alice-secret";'
    return config(tmp_path / "alice.properties", "PLAIN", jaas)


def tokens(broker: Broker, login: str, *arguments: str) -> str:
    server = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", login)
    return run(TOKENS, *server, *arguments)


def created(broker: Broker, login: str, *arguments: str) -> tuple[str, str]:
    """The id and the HMAC of a new token, from the table that the tool prints."""
    out = tokens(broker, login, "--create", "--max-life-time-period", "-1", *arguments)
    row = next(line for line in out.splitlines() if "User:alice" in line)
    token_id, hmac = row.split()[:2]
    assert re.fullmatch(r"[A-Za-z0-9+/]{86}==", hmac), out
    return token_id, hmac


def test_the_tool_creates_describes_renews_and_expires_a_token(secured: Broker, alice: str) -> None:
    token_id, hmac = created(secured, alice, "--renewer-principal", "User:bob")
    described = tokens(secured, alice, "--describe", "--owner-principal", "User:alice")
    row = next(line for line in described.splitlines() if line.startswith(token_id))
    assert "User:bob" in row
    renewed = tokens(secured, alice, "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    assert "Completed renew operation" in renewed
    expired = tokens(secured, alice, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert "Completed expire operation" in expired
    assert token_id not in tokens(secured, alice, "--describe")
    with pytest.raises(ToolFailed, match="DelegationTokenNotFound"):
        tokens(secured, alice, "--renew", "--renew-time-period", "-1", "--hmac", hmac)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_java_client_logs_in_with_a_token_and_cannot_create_another(
    secured: Broker, alice: str, tmp_path: Path, mechanism: str
) -> None:
    token_id, hmac = created(secured, alice)
    jaas = f'{SCRAM} username="{token_id}" password="{hmac}" tokenauth="true";'
    login = config(tmp_path / "token.properties", mechanism, jaas)
    topic = f"by-{mechanism.lower()}"
    server = ("--bootstrap-server", secured.bootstrap_servers, "--command-config", login)
    run(TOPICS, *server, "--create", "--topic", topic)
    assert topic in run(TOPICS, *server, "--list").split()
    with pytest.raises(ToolFailed, match="not allowed on PLAINTEXT/1-way SSL channels"):
        tokens(secured, login, "--create", "--max-life-time-period", "-1")
