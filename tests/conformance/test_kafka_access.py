"""Apache Kafka needs the rights that `access_cases` lists, and refuses with the same errors."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

import pytest

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headrace.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from support.clients.java import KafkaNode
from support.security.access import AUTHORIZER, SUPER_USER
from support.security.access_cases import CASES
from support.security.access_matrix import (
    MATRIX_SETTINGS,
    NOBODY,
    case_users,
    check_nobody,
    check_rights,
    prepare,
)
from support.wire.connection import Wire

SASL_LOGIN_KEYS: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
INVALID_REQUESTS: Final = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
"""The requests of the cases have filters and ACLs that Kafka cannot read."""
KEYS: Final = [
    key
    for key in CASES
    if key in APIS
    and not APIS[key].for_members
    and key not in (*SASL_LOGIN_KEYS, *INVALID_REQUESTS)
]
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


class SaslKafkaNode(KafkaNode):
    """A node whose clients log in; brokers and controllers do not, on their own listener."""

    def __init__(self, *args: object, users: list[str], **settings: object) -> None:
        super().__init__(*args, settings=settings)  # type: ignore[arg-type]
        options = " ".join(f'user_{name}="{name}"' for name in users)
        login = f'username="{SUPER_USER}" password="{SUPER_USER}"'
        controller = f"CONTROLLER://127.0.0.1:{self.controller_port}"
        self._settings |= {
            **AUTHORIZER,
            "super.users": f"User:{SUPER_USER};User:ANONYMOUS",
            "listeners": f"SASL_PLAINTEXT://{self.bootstrap_servers},{controller}",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f"{PLAIN_MODULE} required {login} {options};"
            ),
        }


class Server(NamedTuple):
    """Connects as a user; the id of the topic."""

    connect: Callable[[str], Wire]
    topic_id: bytes


@pytest.fixture(scope="module")
def server(kafka_lib: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    users = [SUPER_USER, NOBODY, *(user.name for key in CASES for user in case_users(key))]
    home = tmp_path_factory.mktemp("kafka") / "node"
    more: dict[str, object] = {
        **MATRIX_SETTINGS,
        "group.initial.rebalance.delay.ms": 0,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
    }
    with SaslKafkaNode(home, users=users, **more) as node:
        connect = partial(_connect, node.bootstrap_servers)
        with connect(SUPER_USER) as admin:
            topic_id = prepare(admin)
        yield Server(connect, topic_id)


def _connect(servers: str, name: str) -> Wire:
    wire = Wire(servers)
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)
    token = f"\0{name}\0{name}".encode()
    answer = wire.call(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return wire


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_the_right_and_only_the_right_is_enough(server: Server, key: ApiKey) -> None:
    check_rights(server.connect, key, server.topic_id)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_user_without_rights_is_refused(server: Server, key: ApiKey) -> None:
    check_nobody(server.connect, key, server.topic_id)
