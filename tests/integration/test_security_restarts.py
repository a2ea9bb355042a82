"""ACLs, users, quotas and tokens survive kills of a node, and of the controller of a cluster."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.broker.membership.standalone import METADATA_FILE
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headrace.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headrace.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from headrace.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from headrace.security.authorization.acl import Acl
from headrace.security.principal import user
from headrace.security.tokens.delegation_token import DelegationToken
from headrace.testing import Broker, Cluster
from support.brokers.processes import BrokerProcess
from support.security.access import change_session
from support.wire.acls import create_acls, delete_acls, describe_acls, exactly, listed, topic_acl
from support.wire.connection import Wire
from support.wire.quotas import set_quota

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS;User:carol",
    "delegation.token.secret.key": "the same on every broker",
}
ALICE_QUOTA = [("client-id", None), ("user", "alice")]
SALTED_PASSWORD = hashlib.pbkdf2_hmac("sha256", b"hush", b"salt", 4096)
SHA_256, SHA_512 = 1, 2
KEPT = topic_acl("orders")
REMOVED = topic_acl("orders", "User:bob")
PREFIXED = topic_acl("ord", prefixed=True)


class Described(NamedTuple):
    """What a broker lists."""

    acls: set[Acl]
    users: dict[str, list[tuple[int, int]]]
    quotas: list[tuple[str, float]]


EXPECTED = Described(
    acls={KEPT, PREFIXED},
    users={"alice": [(SHA_256, 4096)], "ü/~": [(SHA_512, 5000)]},
    quotas=[("producer_byte_rate", 1024.0)],
)


def upsertion(name: str, mechanism: int, iterations: int) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=SALTED_PASSWORD,
    )


def change(servers: str) -> None:
    with Wire(servers) as wire:
        for result in create_acls(wire, [KEPT, REMOVED, PREFIXED]):
            assert result.error_code == ErrorCode.NONE
        delete_acls(wire, [exactly(REMOVED)])
        set_quota(wire, ALICE_QUOTA, producer_byte_rate=1024.0, consumer_byte_rate=1.0)
        set_quota(wire, ALICE_QUOTA, consumer_byte_rate=None)
        for request in (
            AlterUserScramCredentialsRequest(
                upsertions=[upsertion("alice", SHA_256, 4096), upsertion("ü/~", SHA_512, 5000)]
            ),
            AlterUserScramCredentialsRequest(upsertions=[upsertion("alice", SHA_512, 4096)]),
            AlterUserScramCredentialsRequest(
                deletions=[ScramCredentialDeletion(name="alice", mechanism=SHA_512)]
            ),
        ):
            for altered in wire.call(request, AlterUserScramCredentialsResponse).results:
                assert altered.error_code == ErrorCode.NONE


def described(servers: str) -> Described:
    with Wire(servers) as wire:
        acls = listed(describe_acls(wire))
        users = wire.call(
            DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsResponse
        ).results
        (entry,) = (
            wire.call(DescribeClientQuotasRequest(), DescribeClientQuotasResponse).entries or ()
        )
    mechanisms = {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in users
    }
    return Described(acls, mechanisms, [(limit.key, limit.value) for limit in entry.values])


def create_token(broker: Broker) -> dict[str, DelegationToken]:
    """Creates a delegation token as carol; returns all tokens that the broker knows."""
    request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
    with Wire(broker.bootstrap_servers) as wire:
        wire.call(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
        change_session(
            broker,
            wire,
            lambda session: replace(
                session, principal=user("carol"), security_protocol="SASL_PLAINTEXT"
            ),
        )
        created = wire.call(request, CreateDelegationTokenResponse)
    assert created.error_code == ErrorCode.NONE
    tokens = tokens_of(broker)
    assert tokens[created.token_id].owner == user("carol")
    return tokens


def tokens_of(broker: Broker) -> dict[str, DelegationToken]:
    assert broker.node is not None
    return dict(broker.node.metadata.image.delegation_tokens)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", settings=SETTINGS) as started:
        yield started


def test_a_node_keeps_acls_users_and_quotas_in_files_that_only_its_owner_reads(
    broker: BrokerProcess,
) -> None:
    change(broker.bootstrap_servers)
    assert described(broker.bootstrap_servers) == EXPECTED
    broker.kill()
    broker.start()
    assert described(broker.bootstrap_servers) == EXPECTED
    assert broker.stop() == 0
    broker.start()
    assert described(broker.bootstrap_servers) == EXPECTED
    databases = list(broker.data.glob(f"{METADATA_FILE}*"))
    assert databases
    assert {path.stat().st_mode & 0o777 for path in databases} == {0o600}
    log = broker.log.read_bytes()
    assert SALTED_PASSWORD.hex().encode() not in log
    assert repr(SALTED_PASSWORD).encode() not in log


def test_a_cluster_keeps_acls_users_quotas_and_tokens_when_its_controller_is_killed() -> None:
    with Cluster(3, settings=SETTINGS) as cluster:
        change(cluster.bootstrap_servers)
        tokens = create_token(cluster.brokers[1])
        controller = cluster.controller
        assert controller is not None
        cluster.kill(controller)
        cluster.headrace.wait_for(
            lambda: cluster.controller not in (None, controller), "another controller"
        )
        for broker in cluster.brokers.values():
            if broker.is_running:
                assert described(broker.bootstrap_servers) == EXPECTED
                assert tokens_of(broker) == tokens
        change(cluster.bootstrap_servers.split(",")[controller % 3])
        cluster.restart(controller)
        cluster.wait_until_healthy()
        assert described(cluster.brokers[controller].bootstrap_servers) == EXPECTED
        assert tokens_of(cluster.brokers[controller]) == tokens
