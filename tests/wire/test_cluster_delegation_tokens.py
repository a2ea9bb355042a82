"""Requests for delegation tokens that a broker forwards to the controller keep their identity."""

from collections.abc import Iterator

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headrace.testing import Cluster
from support.wire.connection import Wire

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.brokers.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} username="broker" password="secret" user_broker="secret";'
    ),
    "delegation.token.secret.key": "the same on every broker",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, settings=SETTINGS) as cluster:
        yield cluster


def test_a_client_without_a_login_gets_no_token_of_the_broker_that_forwards(
    cluster: Cluster,
) -> None:
    for broker in cluster.brokers.values():
        with Wire(broker.bootstrap_servers) as wire:
            response = wire.call(CreateDelegationTokenRequest(), CreateDelegationTokenResponse)
            assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, response
            assert response.principal_name == "ANONYMOUS"
