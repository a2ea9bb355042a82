"""A secured cluster of three brokers: rights, users and tokens are the same on every broker.

Clients use SASL_SSL, brokers a listener of their own. Every change goes through a broker that is
not the controller, and must be in effect on all brokers when the request returns.
"""

import base64
import threading
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, ShareConsumer

from headrace.broker.membership.envelopes import wrap_request
from headrace.broker.runtime.errors import StartupError
from headrace.client.admin.users import NewCredential
from headrace.client.login.security import Credentials, Mechanism
from headrace.local_security import scram_login
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.protocol.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopic,
)
from headrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headrace.protocol.messages.cluster_metadata import ClusterMetadataRequest
from headrace.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.envelope import EnvelopeRequest
from headrace.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from headrace.protocol.messages.fetch import FetchResponse
from headrace.protocol.messages.leave_cluster import LeaveClusterRequest
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headrace.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from headrace.protocol.struct import Struct
from headrace.security.authorization.acl import Acl, AclOperation, AclResourceType
from headrace.security.principal import user
from headrace.security.sasl.scram_credential import ScramMechanism
from headrace.security.session import Session
from headrace.testing import Cluster
from headrace.testing.security import BROKER
from support.security.access import allow, allow_on_cluster
from support.waiting import wait_for
from support.wire.acls import create_acls, delete_acls, exactly
from support.wire.batches import FETCH_BY_NAME, batch, fetch_request, produce, topic_id_of
from support.wire.connection import ConnectionEnded, Wire
from support.wire.sasl import log_in
from support.wire.secure import SecureWire

PASSWORDS = {
    "alice": "alice-secret",
    "bob": "bob-secret",
    "admin": "admin-secret",
    "agent": "agent-secret",
    BROKER: "broker-secret",
}
LOGIN = "listener.name.brokers.scram-sha-512.sasl.jaas.config"
SETTINGS = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SASL_SSL,BROKERS:SASL_SSL",
    "inter.broker.listener.name": "BROKERS",
    LOGIN: scram_login(BROKER, PASSWORDS[BROKER]),
    "delegation.token.secret.key": "the same on every broker",
}
MECHANISM = ScramMechanism.SCRAM_SHA_512
ROUNDS = 3
PAUSE_S = 0.3
TIMEOUT_S = 20.0
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


class Secured:
    """The cluster, and connections of its users to each broker."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._opened: list[Wire] = []

    def connect(
        self, broker_id: int, credentials: str | Credentials, listener: int = 0
    ) -> SecureWire:
        node = self.cluster.brokers[broker_id].node
        assert node is not None
        wire = SecureWire(
            f"127.0.0.1:{node.endpoints[listener].port}",
            self.cluster.ca_path,
            login(credentials) if isinstance(credentials, str) else credentials,
        )
        self._opened.append(wire)
        return wire

    def is_accepted(self, broker_id: int, credentials: Credentials) -> bool:
        """Whether the broker accepts a login."""
        servers = self.cluster.brokers[broker_id].bootstrap_servers
        with SecureWire(servers, self.cluster.ca_path) as wire:
            return not log_in(wire, credentials).error_code

    @property
    def running(self) -> list[int]:
        return [id_ for id_, broker in self.cluster.brokers.items() if broker.is_running]

    def follower(self) -> SecureWire:
        """The administrator's connection to a broker that is not the controller."""
        controller = self.cluster.controller
        return self.connect(next(id_ for id_ in self.running if id_ != controller), "admin")

    def on_every_broker(self, credentials: str | Credentials) -> list[SecureWire]:
        return [self.connect(broker_id, credentials) for broker_id in self.running]

    def topic(self, name: str, partitions: int = 1) -> str:
        new = CreatableTopic(name=name, num_partitions=partitions, replication_factor=3)
        (created,) = self.follower().ask(CreateTopicsRequest(topics=[new])).topics  # type: ignore[attr-defined]
        assert created.error_code == ErrorCode.NONE, created
        return name

    def grant(self, *acls: Acl) -> None:
        results = create_acls(self.follower(), acls)
        assert not any(result.error_code for result in results), results

    def revoke(self, *acls: Acl) -> None:
        results = delete_acls(self.follower(), [exactly(acl) for acl in acls])
        assert not any(result.error_code for result in results), results

    def close(self) -> None:
        for wire in self._opened:
            wire.close()
        self._opened = []


def login(user: str) -> Credentials:
    return Credentials(Mechanism(MECHANISM.mechanism_name), user, PASSWORDS[user])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    agent = allow_on_cluster("agent", AclOperation.CLUSTER_ACTION)
    with Cluster(
        3, settings=SETTINGS, security="sasl_ssl", users=PASSWORDS, acls=[agent]
    ) as cluster:
        yield cluster


@pytest.fixture
def secured(cluster: Cluster) -> Iterator[Secured]:
    secured = Secured(cluster)
    yield secured
    secured.close()


def code_of(wire: Wire, topic: str) -> ErrorCode:
    """What Metadata says about a topic."""
    asked = [MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    return ErrorCode(wire.call(request, MetadataResponse).topics[0].error_code)


# --- rights of clients ------------------------------------------------------------------------


def produce_one(cluster: Cluster, user: str, topic: str) -> KafkaError | None:
    """Produces a record with acks=all; returns the error of its delivery."""
    errors: list[KafkaError | None] = []
    producer = Producer({**cluster.client_config(user), "enable.idempotence": False})

    def delivered(error: KafkaError | None, _: Message) -> None:
        errors.append(error)

    producer.produce(topic, b"value", on_delivery=delivered)
    producer.flush(TIMEOUT_S)
    (error,) = errors
    return error


def consume(
    cluster: Cluster, user: str, topic: str, group: str, count: int = 1
) -> list[KafkaError | bytes | None]:
    """The first records, or the error of the consumer."""
    consumer = Consumer(
        {**cluster.client_config(user), "group.id": group, "auto.offset.reset": "earliest"}
    )
    found: list[KafkaError | bytes | None] = []
    try:
        consumer.subscribe([topic])
        while len(found) < count:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, found
            found.append(message.error() or message.value())
    except KafkaException as error:
        found.append(error.args[0])
    finally:
        consumer.close()
    return found


def test_clients_use_what_they_have_rights_for_and_nothing_else(secured: Secured) -> None:
    topic = secured.topic("orders")
    secured.grant(
        allow("alice", WRITE, TOPIC, topic),
        allow("bob", READ, TOPIC, topic),
        allow("bob", READ, GROUP, "billing"),
    )
    assert produce_one(secured.cluster, "alice", topic) is None
    assert consume(secured.cluster, "bob", topic, "billing") == [b"value"]
    denied = produce_one(secured.cluster, "bob", topic)
    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    (denied_group,) = consume(secured.cluster, "bob", topic, "another")
    assert isinstance(denied_group, KafkaError)
    assert denied_group.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def test_a_transaction_ends_on_all_partitions_and_brokers(secured: Secured) -> None:
    """The coordinator sends its markers to the other brokers, with its own rights."""
    topic = secured.topic("payments", partitions=6)
    secured.grant(
        allow("alice", WRITE, TOPIC, topic),
        allow("alice", WRITE, AclResourceType.TRANSACTIONAL_ID, "payer"),
        allow("bob", READ, TOPIC, topic),
        allow("bob", READ, GROUP, "auditors"),
    )
    config = secured.cluster.client_config("alice") | {"transactional.id": "payer"}
    producer = Producer(config)
    producer.init_transactions(TIMEOUT_S)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for partition in range(6):
            producer.produce(topic, end.__name__.encode(), partition=partition)
        end(TIMEOUT_S)
    assert consume(secured.cluster, "bob", topic, "auditors", 6) == [b"commit_transaction"] * 6
    forbidden = Producer(config | {"transactional.id": "thief"})
    with pytest.raises(KafkaException) as denied:
        forbidden.init_transactions(TIMEOUT_S)
    code = denied.value.args[0].code()
    assert code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_share_groups_keep_their_state_on_other_brokers(secured: Secured) -> None:
    topic = secured.topic("jobs", partitions=3)
    secured.grant(
        allow("alice", WRITE, TOPIC, topic),
        allow("bob", READ, TOPIC, topic),
        allow("bob", READ, GROUP, "workers"),
    )
    config = secured.cluster.client_config("bob") | {"group.id": "workers", "log_level": 0}
    worker = ShareConsumer(config)
    try:
        worker.subscribe([topic])
        produced = 0

        def received() -> bool:
            nonlocal produced
            produced += produce_one(secured.cluster, "alice", topic) is None
            return any(message.error() is None for message in worker.poll(0.5))

        wait_for(received, "a record that was produced after the group was there")
    finally:
        worker.close()


# --- changes are in effect on every broker when the request returns ---------------------------


def test_an_acl_takes_effect_on_every_broker_at_once(secured: Secured) -> None:
    topic = secured.topic("acls")
    wires = secured.on_every_broker("alice")
    acl = allow("alice", DESCRIBE, TOPIC, topic)
    for _ in range(ROUNDS):
        secured.grant(acl)
        assert [code_of(wire, topic) for wire in wires] == [ErrorCode.NONE] * 3
        secured.revoke(acl)
        assert [code_of(wire, topic) for wire in wires] == [
            ErrorCode.TOPIC_AUTHORIZATION_FAILED
        ] * 3


def test_a_change_waits_for_the_slowest_broker(secured: Secured) -> None:
    topic = secured.topic("slow")
    alice = {broker_id: secured.connect(broker_id, "alice") for broker_id in secured.running}
    controller = secured.cluster.controller
    asked, slow = (each for each in secured.running if each != controller)
    admin = secured.connect(asked, "admin")
    broker = secured.cluster.brokers[slow]
    resumed = threading.Event()

    def resume() -> None:
        resumed.set()
        broker.resume()

    broker.pause()
    threading.Timer(PAUSE_S, resume).start()
    (result,) = create_acls(admin, [allow("alice", DESCRIBE, TOPIC, topic)])
    assert result.error_code == ErrorCode.NONE
    assert resumed.is_set()
    assert code_of(alice[slow], topic) == ErrorCode.NONE


def test_a_user_can_log_in_to_every_broker_at_once_and_is_gone_from_all(
    secured: Secured,
) -> None:
    admin = secured.follower()
    for number in range(ROUNDS):
        carol = Credentials(Mechanism(MECHANISM.mechanism_name), f"carol-{number}", "secret")
        alter_user(admin, upsert=carol)
        wires = secured.on_every_broker(carol)
        alter_user(admin, delete=carol)
        assert [wire.ends() for wire in wires] == [True] * 3
        assert not any(secured.is_accepted(each, carol) for each in secured.running)


def alter_user(
    wire: Wire, *, upsert: Credentials | None = None, delete: Credentials | None = None
) -> None:
    request = AlterUserScramCredentialsRequest()
    if upsert is not None:
        new = NewCredential(upsert.username, MECHANISM, upsert.password, b"salt", 4096)
        request.upsertions = [
            ScramCredentialUpsertion(
                name=new.user,
                mechanism=MECHANISM,
                iterations=new.iterations,
                salt=new.salt,
                salted_password=new.salted_password,
            )
        ]
    if delete is not None:
        request.deletions = [ScramCredentialDeletion(name=delete.username, mechanism=MECHANISM)]
    (result,) = wire.call(request, AlterUserScramCredentialsResponse).results
    assert result.error_code == ErrorCode.NONE, result


def test_a_delegation_token_is_valid_on_every_broker_at_once_and_ends_on_all(
    secured: Secured,
) -> None:
    topic = secured.topic("tokens")
    secured.grant(allow("alice", DESCRIBE, TOPIC, topic))
    not_controller = next(each for each in secured.running if each != secured.cluster.controller)
    alice = secured.connect(not_controller, "alice")
    token = alice.call(CreateDelegationTokenRequest(), CreateDelegationTokenResponse)
    assert (token.error_code, token.principal_name) == (ErrorCode.NONE, "alice")
    password = base64.b64encode(token.hmac).decode()
    by_token = Credentials(
        Mechanism(MECHANISM.mechanism_name), token.token_id, password, is_token=True
    )
    wires = secured.on_every_broker(by_token)
    assert [code_of(wire, topic) for wire in wires] == [ErrorCode.NONE] * 3
    # The controller knows that a forwarded request is from a login with a token.
    for wire in wires:
        refused = wire.call(CreateDelegationTokenRequest(), CreateDelegationTokenResponse)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    expire = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
    assert alice.call(expire, ExpireDelegationTokenResponse).error_code == ErrorCode.NONE
    assert [wire.ends() for wire in wires] == [True] * 3
    assert not any(secured.is_accepted(each, by_token) for each in secured.running)


# --- requests of brokers, sent by clients -----------------------------------------------------

CLIENTS, BROKERS = 0, 1
FORGERS = pytest.mark.parametrize(
    ("user", "listener"), [("bob", CLIENTS), ("bob", BROKERS), ("agent", CLIENTS)]
)
"""The agent has CLUSTER_ACTION, which counts on the listener between brokers only."""


def forged_requests(topic_id: bytes, victim: int) -> Sequence[Struct]:
    """Requests that would remove a broker from the ISR, shut it down, read the metadata, or create
    a topic as the administrator."""
    alone = AlterPartitionData(partition_index=0, leader_epoch=0, partition_epoch=0)
    create = CreateTopicsRequest(topics=[CreatableTopic(name="forged", num_partitions=1)])
    as_admin = Session(user("admin"), "127.0.0.1", "CLIENTS", "SASL_SSL")
    spec = APIS[ApiKey.CREATE_TOPICS]
    forged = wrap_request(spec, create, spec.max_version, client_id="", session=as_admin)
    return [
        AlterPartitionRequest(
            broker_id=victim, topics=[AlterPartitionTopic(topic_id=topic_id, partitions=[alone])]
        ),
        AllocateProducerIdsRequest(broker_id=victim),
        ClusterMetadataRequest(broker_id=victim, max_wait_ms=0),
        LeaveClusterRequest(broker_id=victim),
        forged,
        EnvelopeRequest(request_data=forged.request_data),
    ]


@FORGERS
def test_a_client_cannot_send_the_requests_of_brokers(
    secured: Secured, user: str, listener: int
) -> None:
    topic = secured.topic(f"forged-{user}-{listener}")
    topic_id = topic_id_of(secured.follower(), topic)
    controller = secured.cluster.controller
    assert controller is not None
    for request in forged_requests(topic_id, controller):
        wire = secured.connect(controller, user, listener)
        try:
            response = wire.ask(request)
        except ConnectionEnded:
            continue
        code = response.error_code  # type: ignore[attr-defined]
        assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, response
    assert secured.cluster.controller == controller
    assert code_of(secured.follower(), "forged") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@FORGERS
def test_a_client_cannot_fetch_as_a_replica(secured: Secured, user: str, listener: int) -> None:
    topic = secured.topic(f"replica-{user}-{listener}")
    leader = secured.cluster.leader(topic)
    secured.grant(allow(user, READ, TOPIC, topic))
    wire = secured.connect(leader, user, listener)
    request = fetch_request(topic)
    request.replica_id = next(each for each in secured.running if each != leader)
    response = wire.call(request, FetchResponse, FETCH_BY_NAME)
    codes = {part.error_code for each in response.responses for part in each.partitions}
    assert codes == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_deleted_rights_end_a_fetch_that_waits(secured: Secured) -> None:
    topic = secured.topic("waiting")
    leader = secured.cluster.leader(topic)
    acl = allow("alice", READ, TOPIC, topic)
    secured.grant(acl)
    wire = secured.connect(leader, "alice")
    wire.send(fetch_request(topic, max_wait_ms=20_000), FETCH_BY_NAME)
    broker = secured.cluster.brokers[leader]
    wait_for(
        lambda: broker.on_loop(lambda: bool(broker.node and broker.node.delayed_fetches)),
        "the fetch waits for records",
    )
    secured.revoke(acl)
    assert produce(secured.connect(leader, "admin"), topic, batch(b"hidden")).error_code == 0
    _, response = wire.receive(APIS[ApiKey.FETCH], FETCH_BY_NAME)
    assert isinstance(response, FetchResponse)
    (partition,) = response.responses[0].partitions
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not partition.records


# --- failover ---------------------------------------------------------------------------------


def test_rights_survive_the_loss_of_leader_and_controller(secured: Secured) -> None:
    cluster = secured.cluster
    topic = secured.topic("failover")
    secured.grant(allow("alice", WRITE, TOPIC, topic))
    assert produce_one(cluster, "alice", topic) is None
    token = secured.connect(1, "alice").call(
        CreateDelegationTokenRequest(), CreateDelegationTokenResponse
    )
    for role in (lambda: cluster.leader(topic), lambda: cluster.controller):
        victim = role()
        assert victim is not None
        cluster.kill(victim)
        assert produce_one(cluster, "alice", topic) is None
        denied = produce_one(cluster, "bob", topic)
        assert denied is not None
        assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        cluster.restart(victim)
        cluster.wait_until_healthy()
    secured.grant(allow("bob", WRITE, TOPIC, topic))
    assert produce_one(cluster, "bob", topic) is None
    renew = RenewDelegationTokenRequest(hmac=token.hmac)
    for wire in secured.on_every_broker("alice"):
        assert wire.call(renew, RenewDelegationTokenResponse).error_code == ErrorCode.NONE


# --- a broker that may not join ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"super.users": "User:admin"}, "denies CLUSTER_ACTION to the principal of this broker"),
        ({LOGIN: scram_login(BROKER, "wrong")}, f"refused the user '{BROKER}'"),
    ],
)
def test_a_broker_that_cannot_join_says_why(settings: dict[str, str], reason: str) -> None:
    refused = SETTINGS | settings | {"initial.broker.registration.timeout.ms": "1000"}
    with (
        pytest.raises(StartupError, match=reason),
        Cluster(2, settings=refused, security="sasl_ssl", users=PASSWORDS),
    ):
        pass
