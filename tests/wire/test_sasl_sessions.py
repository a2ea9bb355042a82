"""Sessions of authenticated clients: their end, their renewal (KIP-368), and their revocation."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace.testing
from headrace.broker.coordinators.commit_fast_path import CommitFastPath
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
)
from headrace.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from headrace.security.sasl.scram_credential import ScramMechanism
from support.security.sasl_wire import (
    PREFIX,
    authenticate,
    handshake,
    log_in,
    log_in_with_scram,
    put_user,
    remove_user,
    sasl_settings,
)
from support.security.scram_client import ScramClient
from support.security.signed_tokens import claims, issuer_settings, signed
from support.waiting import wait_for
from support.wire.connection import ConnectionEnded, Wire
from support.wire.topics import create_topic

LIFETIME_MS = 700
REVOKED_WITHIN_S = 1.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.testing.Broker]:
    """Sessions of PLAIN and OAUTHBEARER end; those of SCRAM do not."""
    settings = {
        **sasl_settings("SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        **issuer_settings(tmp_path_factory.mktemp("issuer")),
        f"{PREFIX}plain.connections.max.reauth.ms": str(LIFETIME_MS),
        f"{PREFIX}oauthbearer.connections.max.reauth.ms": "60000",
    }
    with headrace.testing.Broker(settings=settings) as running:
        yield running


@pytest.fixture
def wire(broker: headrace.testing.Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as connection:
        yield connection


@pytest.fixture
def admin(broker: headrace.testing.Broker) -> Iterator[Wire]:
    """A connection whose session does not end."""
    with Wire(broker.bootstrap_servers) as first:
        log_in(first)
        put_user(first, "root", "root-secret", ScramMechanism.SCRAM_SHA_512)
    with Wire(broker.bootstrap_servers) as connection:
        log_in_with_scram(connection, "root", "root-secret", ScramMechanism.SCRAM_SHA_512)
        yield connection


def is_served(wire: Wire) -> bool:
    try:
        return wire.call(MetadataRequest(topics=[]), MetadataResponse).cluster_id is not None
    except ConnectionEnded:
        return False


def wait_until_expired(began: float) -> None:
    wait_for(lambda: time.monotonic() - began > LIFETIME_MS / 1000 + 0.05, "the session ends")


# --- the end of a session, and its renewal ------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_a_session_ends_with_its_lifetime(wire: Wire, version: int) -> None:
    answer = log_in(wire, version=version)
    assert answer.session_lifetime_ms == (0 if version == 0 else LIFETIME_MS)
    began = time.monotonic()
    assert is_served(wire)
    wait_until_expired(began)
    assert not is_served(wire)


def test_a_second_login_renews_the_session_before_and_after_its_end(wire: Wire) -> None:
    for _ in range(2):
        began = time.monotonic()
        assert log_in(wire).session_lifetime_ms == LIFETIME_MS
        assert is_served(wire)
        wait_until_expired(began)
        wait_for(lambda began=began: time.monotonic() - began > 1.05, "a second has passed")
    assert not is_served(wire)


def test_a_second_login_may_come_at_most_once_a_second(wire: Wire) -> None:
    log_in(wire)
    log_in(wire)
    refused = wire.call(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)
    assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert is_served(wire)


def test_a_second_login_cannot_change_the_user(wire: Wire) -> None:
    log_in(wire, "alice")
    answer = log_in(wire, "admin")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.admin"
    )
    assert wire.ends()


def test_a_second_login_cannot_change_the_mechanism(wire: Wire, admin: Wire) -> None:
    put_user(admin, "alice", "scram-secret")
    log_in(wire, "alice")
    answer = log_in_with_scram(wire, "alice", "scram-secret")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for "
        "re-authentication of mechanism 'PLAIN'"
    )
    assert wire.ends()


def test_a_failed_second_login_ends_the_session(wire: Wire) -> None:
    log_in(wire)
    answer = log_in(wire, "admin", "wrong")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert wire.ends()


def test_no_request_is_served_during_a_second_login(wire: Wire) -> None:
    log_in(wire)
    handshake(wire, "PLAIN")
    wire.send(MetadataRequest(topics=[]), 12)
    with pytest.raises(ConnectionEnded):
        while True:
            assert b"127.0.0.1" not in wire.receive_frame()


def test_a_request_in_progress_is_answered_during_a_second_login(wire: Wire) -> None:
    log_in(wire)
    first = wire.send(MetadataRequest(topics=[]), 12)
    second = wire.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = SaslAuthenticateRequest(auth_bytes=b"\0admin\0admin-secret")
    third = wire.send(token, 2)
    ids = [int.from_bytes(wire.receive_frame()[:4], "big") for _ in range(3)]
    assert ids == [first, second, third]
    assert is_served(wire)


def test_a_tokens_end_limits_the_session(wire: Wire) -> None:
    handshake(wire, "OAUTHBEARER")
    soon = signed(claims(exp=int(time.time()) + 20))
    answer = authenticate(wire, f"n,,\1auth=Bearer {soon}\1\1".encode())
    assert 15_000 < answer.session_lifetime_ms <= 20_000


def test_the_limit_of_the_mechanism_limits_a_tokens_session(wire: Wire) -> None:
    handshake(wire, "OAUTHBEARER")
    answer = authenticate(wire, f"n,,\1auth=Bearer {signed()}\1\1".encode())
    assert answer.session_lifetime_ms == 60_000


def commit(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    return OffsetCommitRequest(group_id="g", topics=[topic])


def test_the_fast_path_of_commits_ends_with_the_session(
    wire: Wire, admin: Wire, broker: headrace.testing.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(admin, "orders", 1)
    find = FindCoordinatorRequest(coordinator_keys=["g"])
    wait_for(
        lambda: admin.call(find, FindCoordinatorResponse).coordinators[0].error_code == 0,
        "the group has a coordinator",
    )
    served: list[bool] = []
    original = CommitFastPath.try_serve
    monkeypatch.setattr(
        CommitFastPath,
        "try_serve",
        lambda self, buffer, at: served.append(original(self, buffer, at)) or served[-1],
    )
    wait_for(
        lambda: (
            admin.call(commit(0), OffsetCommitResponse, 7).topics[0].partitions[0].error_code == 0
        ),
        "the coordinator has loaded",
    )
    began = time.monotonic()
    log_in(wire)
    for offset in range(5):
        answer = wire.call(commit(offset), OffsetCommitResponse, 7)
        assert answer.topics[0].partitions[0].error_code == 0
    assert any(served)
    wait_until_expired(began)
    before = len(served)
    wire.send(commit(9), 7)
    assert wire.ends()
    assert len(served) == before


# --- revocation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["deleted", "changed"])
def test_a_user_loses_its_sessions_with_its_credential(
    broker: headrace.testing.Broker, admin: Wire, change: str
) -> None:
    put_user(admin, "eve", "eve-secret")
    put_user(admin, "other", "other-secret")
    with Wire(broker.bootstrap_servers) as eve, Wire(broker.bootstrap_servers) as other:
        log_in_with_scram(eve, "eve", "eve-secret")
        log_in_with_scram(other, "other", "other-secret")
        assert is_served(eve)
        if change == "deleted":
            remove_user(admin, "eve")
        else:
            put_user(admin, "eve", "another-secret")
        eve.socket.settimeout(REVOKED_WITHIN_S)
        assert eve.ends()
        assert is_served(other)
        assert is_served(admin)
    with Wire(broker.bootstrap_servers) as again:
        failed = log_in_with_scram(again, "eve", "eve-secret")
        assert failed.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_the_other_mechanism_of_a_user_keeps_its_sessions(
    broker: headrace.testing.Broker, admin: Wire
) -> None:
    put_user(admin, "two", "two-secret")
    put_user(admin, "two", "two-secret", ScramMechanism.SCRAM_SHA_512)
    with Wire(broker.bootstrap_servers) as wire:
        log_in_with_scram(wire, "two", "two-secret", ScramMechanism.SCRAM_SHA_512)
        remove_user(admin, "two")
        assert is_served(wire)


def test_a_credential_that_changes_during_a_login_is_of_no_use(
    broker: headrace.testing.Broker, admin: Wire
) -> None:
    put_user(admin, "late", "late-secret")
    with Wire(broker.bootstrap_servers) as wire:
        client = ScramClient("late", "late-secret")
        handshake(wire, "SCRAM-SHA-256")
        challenge = authenticate(wire, client.first)
        put_user(admin, "late", "other-secret")
        answer = authenticate(wire, client.final(bytes(challenge.auth_bytes)))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_users_survive_a_restart(tmp_path: Path) -> None:
    settings = sasl_settings("SCRAM-SHA-256")
    with headrace.testing.Broker(settings=settings, data=tmp_path) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            log_in(wire)
            put_user(wire, "bob", "bob-secret")
        broker.restart()
        with Wire(broker.bootstrap_servers) as wire:
            assert log_in_with_scram(wire, "bob", "bob-secret").error_code == 0
            assert is_served(wire)


def test_closed_connections_are_forgotten(broker: headrace.testing.Broker, admin: Wire) -> None:
    put_user(admin, "short", "short-secret")
    for _ in range(3):
        with Wire(broker.bootstrap_servers) as wire:
            log_in_with_scram(wire, "short", "short-secret")
    assert broker.node is not None
    authentication = broker.node.authentication
    assert authentication is not None
    key = ("short", ScramMechanism.SCRAM_SHA_256)
    wait_for(lambda: key not in authentication._sessions._open, "no connection is remembered")
