"""Users in a cluster: any broker takes a change, and every broker applies it."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from headrace.log_formatters import AUDIT_LOGGER
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from headrace.security.sasl.scram_credential import ScramMechanism
from headrace.testing import Cluster
from support.security.sasl_wire import log_in_with_scram, put_user, remove_user
from support.wire.connection import Wire

SHA_512 = ScramMechanism.SCRAM_SHA_512
REVOKED_WITHIN_S = 1.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, security="sasl_plaintext", users={"admin": "admin-secret"}) as running:
        yield running


@pytest.fixture
def wires(cluster: Cluster) -> Iterator[list[Wire]]:
    """A connection of the administrator to each broker."""
    with ExitStack() as opened:
        found = []
        for server in cluster.bootstrap_servers.split(","):
            wire = opened.enter_context(Wire(server))
            assert log_in_with_scram(wire, "admin", "admin-secret", SHA_512).error_code == 0
            found.append(wire)
        yield found


def names(wire: Wire) -> set[str]:
    request = DescribeUserScramCredentialsRequest(users=None)
    answer = wire.call(request, DescribeUserScramCredentialsResponse)
    return {result.user for result in answer.results}


def test_a_user_that_any_broker_creates_can_log_in_to_every_broker(
    cluster: Cluster, wires: list[Wire]
) -> None:
    for number, admin in enumerate(wires):
        user = f"user-{number}"
        put_user(admin, user, "first-secret", SHA_512)
        for server in cluster.bootstrap_servers.split(","):
            with Wire(server) as wire:
                answer = log_in_with_scram(wire, user, "first-secret", SHA_512)
                assert answer.error_code == ErrorCode.NONE
        assert all(user in names(wire) for wire in wires)


def test_a_user_that_any_broker_deletes_loses_its_sessions_on_every_broker(
    cluster: Cluster, wires: list[Wire]
) -> None:
    for admin in wires:
        put_user(admin, "eve", "eve-secret", SHA_512)
        with ExitStack() as opened:
            sessions = [
                opened.enter_context(Wire(server))
                for server in cluster.bootstrap_servers.split(",")
            ]
            for wire in sessions:
                log_in_with_scram(wire, "eve", "eve-secret", SHA_512)
            remove_user(admin, "eve", SHA_512)
            for wire in sessions:
                wire.socket.settimeout(REVOKED_WITHIN_S)
                assert wire.ends()
        for server in cluster.bootstrap_servers.split(","):
            with Wire(server) as wire:
                answer = log_in_with_scram(wire, "eve", "eve-secret", SHA_512)
                assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert all("eve" not in names(wire) for wire in wires)


def test_the_audit_log_names_the_client_of_a_change_that_was_forwarded(
    wires: list[Wire], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, AUDIT_LOGGER):
        for admin in wires:
            put_user(admin, "frank", "frank-secret", SHA_512)
    changes = [vars(each) for each in caplog.records if each.msg == "set a SCRAM credential"]
    seen = [(each["principal"], each["user"], each["host"]) for each in changes]
    assert seen == [("User:admin", "frank", "127.0.0.1")] * len(wires)
