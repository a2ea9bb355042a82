"""Clients log in with delegation tokens, and `headrace token` manages them."""

import asyncio
import base64
import logging
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest

from headrace.client.admin.tokens import TokenInfo, create_token, expire_token, renew_token
from headrace.client.admin.topics import NewTopic, create_topics
from headrace.client.client import ClusterClient
from headrace.client.login.security import Credentials, Mechanism, Security
from headrace.client.results import Refusal
from headrace.clock import SystemClock
from headrace.log_formatters import TextFormatter
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headrace.testing import Broker
from support.cli.command import Cli
from support.wire.connection import Wire
from support.wire.sasl import log_in

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SECRET_KEY = "delegation.token.secret.key"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} user_alice="alice-secret" user_bob="bob-secret";'
    ),
    SECRET_KEY: "the same on every broker",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:alice",
}
ALICE = Credentials(Mechanism.PLAIN, "alice", "alice-secret")
BOB = Credentials(Mechanism.PLAIN, "bob", "bob-secret")
TIMEOUT_S = 10.0
SCRAM = [Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        yield broker


def client(broker: Broker, credentials: Credentials) -> ClusterClient:
    return ClusterClient(
        broker.bootstrap_servers,
        client_id="tests",
        clock=SystemClock(),
        random=SystemRandom(),
        security=Security(sasl=credentials),
    )


def new_token(broker: Broker, who: Credentials = ALICE) -> TokenInfo:
    async def create() -> TokenInfo | Refusal:
        async with client(broker, who) as connected:
            return await create_token(connected, timeout_s=TIMEOUT_S)

    created = asyncio.run(create())
    assert isinstance(created, TokenInfo), created
    return created


def end(broker: Broker, token: TokenInfo, period_ms: int = -1) -> None:
    async def expire() -> int | Refusal:
        async with client(broker, ALICE) as connected:
            return await expire_token(
                connected, token.hmac, timeout_s=TIMEOUT_S, period_ms=period_ms
            )

    assert isinstance(asyncio.run(expire()), int)


def token_login(token: TokenInfo, mechanism: Mechanism = SCRAM[0]) -> Credentials:
    return Credentials(mechanism, token.token_id, token.password, is_token=True)


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_client_with_a_token_acts_as_its_owner(broker: Broker, mechanism: Mechanism) -> None:
    token = new_token(broker)

    async def create() -> Refusal | None:
        topic = f"of-{mechanism.value.lower()}"
        async with client(broker, token_login(token, mechanism)) as connected:
            created = await create_topics(connected, [NewTopic(topic)], timeout_s=TIMEOUT_S)
            return created[topic]

    assert asyncio.run(create()) is None  # alice is a super user


def test_a_client_with_a_token_cannot_create_or_renew_tokens(broker: Broker) -> None:
    token = new_token(broker)

    async def work() -> list[object]:
        async with client(broker, token_login(token)) as connected:
            return [
                await create_token(connected, timeout_s=TIMEOUT_S),
                await renew_token(connected, token.hmac, timeout_s=TIMEOUT_S),
            ]

    for refused in asyncio.run(work()):
        assert isinstance(refused, Refusal)
        assert refused.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_the_session_of_a_login_ends_with_the_token(broker: Broker) -> None:
    token = new_token(broker)
    with Wire(broker.bootstrap_servers) as wire:
        accepted = log_in(wire, token_login(token))
    assert accepted.error_code == ErrorCode.NONE
    remaining_ms = token.expiry_ms - broker.now_ms()
    assert abs(accepted.session_lifetime_ms - remaining_ms) < 60_000


@pytest.mark.parametrize("fault", ["password", "id", "no tokenauth"])
def test_a_login_with_a_wrong_token_is_refused(broker: Broker, fault: str) -> None:
    token = new_token(broker)
    password = base64.b64encode(b"x" * 64).decode() if fault == "password" else token.password
    name = "unknown" if fault == "id" else token.token_id
    wrong = Credentials(SCRAM[0], name, password, is_token=fault != "no tokenauth")
    with Wire(broker.bootstrap_servers) as wire:
        refused = log_in(wire, wrong)
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_removed_token_closes_its_sessions_and_admits_no_login(broker: Broker) -> None:
    token, other = new_token(broker), new_token(broker)
    with (
        Wire(broker.bootstrap_servers) as wire,
        Wire(broker.bootstrap_servers) as kept,
        Wire(broker.bootstrap_servers) as late,
    ):
        assert log_in(wire, token_login(token)).error_code == ErrorCode.NONE
        assert log_in(kept, token_login(other)).error_code == ErrorCode.NONE
        end(broker, token)
        assert wire.ends()
        assert log_in(late, token_login(token)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert kept.call(DescribeClusterRequest(), DescribeClusterResponse)


def test_a_token_whose_expiry_was_moved_closes_its_sessions(broker: Broker) -> None:
    token = new_token(broker)
    with Wire(broker.bootstrap_servers) as wire, Wire(broker.bootstrap_servers) as late:
        assert log_in(wire, token_login(token)).error_code == ErrorCode.NONE
        end(broker, token, 100)
        assert wire.ends()
        assert log_in(late, token_login(token)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_no_secret_is_in_the_log(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        token = new_token(broker)
        with Wire(broker.bootstrap_servers) as wire, Wire(broker.bootstrap_servers) as other:
            assert log_in(wire, token_login(token)).error_code == ErrorCode.NONE
            wrong = Credentials(SCRAM[0], token.token_id, token.password + "=", is_token=True)
            assert log_in(other, wrong).error_code
        end(broker, token)
    written = "\n".join(map(TextFormatter().format, caplog.records))
    assert token.token_id in written
    for secret in (token.password, token.hmac.hex(), SETTINGS[SECRET_KEY], ALICE.password):
        assert secret not in written
        assert secret not in repr(token)


# --- headrace token ---------------------------------------------------------------------------


@pytest.fixture
def cli(broker: Broker, tmp_path: Path) -> Cli:
    return Cli(broker.bootstrap_servers, tmp_path)


def login(credentials: Credentials) -> dict[str, str]:
    return {
        "HEADRACE_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "HEADRACE_SASL_MECHANISM": credentials.mechanism.value,
        "HEADRACE_SASL_USERNAME": credentials.username,
        "HEADRACE_SASL_PASSWORD": credentials.password,
        "HEADRACE_SASL_TOKENAUTH": str(credentials.is_token).lower(),
    }


def test_the_hmac_is_shown_at_the_creation_only(cli: Cli) -> None:
    env = login(ALICE)
    created = cli("token", "create", "--renewer", "User:bob", "--format", "json", env=env).facts
    assert isinstance(created, dict)
    assert created["owner"] == created["requester"] == "User:alice"
    assert created["renewers"] == ["User:bob"]
    for form in ("text", "json"):
        listed = cli("token", "list", "--format", form, env=env).stdout
        assert created["token_id"] in listed
        assert created["hmac"] not in listed
    with_token = Credentials(SCRAM[0], created["token_id"], created["hmac"], is_token=True)
    assert cli("topic", "list", env=login(with_token)).code == 0


def test_a_renewer_renews_and_expires_a_token(cli: Cli) -> None:
    words = ("token", "create", "--renewer", "User:bob", "--max-lifetime", "2d", "--format", "json")
    created = cli(*words, env=login(ALICE)).facts
    assert isinstance(created, dict)
    token_id, bob = created["token_id"], login(BOB)
    renewed = cli("token", "renew", token_id, "--for", "1h", "--format", "json", env=bob).facts
    assert isinstance(renewed, dict)
    assert renewed["expires"] < created["expires"]
    plan = cli("token", "expire", token_id, env=bob)
    assert "Nothing was changed. Add --execute" in plan.stderr
    later = cli("token", "expire", token_id, "--in", "10m", "--execute", env=bob)
    assert later.stdout.startswith(f"token {token_id} expires at ")
    expired = cli("token", "expire", token_id, "--execute", env=bob)
    assert expired.stdout == f"expired {token_id}\n"
    assert cli("token", "renew", token_id, env=bob).code == 4


def test_refusals_say_why(cli: Cli) -> None:
    for_alice = cli("token", "create", "--owner", "User:alice", env=login(BOB))
    assert for_alice.code == 1
    assert "DELEGATION_TOKEN_AUTHORIZATION_FAILED" in for_alice.stderr
    malformed = cli("token", "create", "--renewer", "bob", env=login(BOB))
    assert malformed.code == 2
    assert "expected a principal such as User:alice" in malformed.stderr


def test_the_secret_key_is_not_shown_with_the_settings(cli: Cli) -> None:
    shown = cli("config", "get", "broker", "1", SECRET_KEY, env=login(ALICE))
    assert "(hidden)" in shown.stdout
    assert SETTINGS[SECRET_KEY] not in shown.stdout
