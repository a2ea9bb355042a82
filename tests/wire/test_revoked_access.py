"""Rights that are revoked, missing for one part of a request, or claimed by forgers."""

from typing import Final

import pytest

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.fetch import FetchReplicaState, FetchResponse
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType
from support.security.access import (
    SUPER_USER,
    TopicUser,
    allow_on_cluster,
    grant,
    revoke,
)
from support.waiting import wait_for
from support.wire.batches import (
    FETCH_BY_NAME,
    PRODUCE_BY_ID,
    PRODUCE_BY_NAME,
    batch,
    fetch,
    fetch_request,
    produce,
    topic_id_of,
    values_of,
)
from support.wire.connection import Wire, request_frame
from support.wire.topics import create_topic

TOPIC: Final = AclResourceType.TOPIC
GROUP: Final = AclResourceType.GROUP
READ: Final = AclOperation.READ
WRITE: Final = AclOperation.WRITE
DESCRIBE: Final = AclOperation.DESCRIBE
NO_ID: Final = bytes(16)
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
OTHER_LISTENER: Final = "CLIENTS"


# --- revoked rights ---------------------------------------------------------------------------


def test_a_fetch_that_waits_gets_no_records_after_its_right_was_revoked(
    access: TopicUser, alice: Wire, admin: Wire
) -> None:
    right = access.allow(READ, TOPIC, access.topic)
    request = fetch_request(access.topic, max_wait_ms=20_000)
    alice.send(request, FETCH_BY_NAME)
    node = access.broker.node
    assert node is not None
    wait_for(lambda: access.broker.on_loop(lambda: len(node.delayed_fetches)), "it waits")
    revoke(access.broker, right)
    assert produce(admin, access.topic, batch(b"secret")).error_code == ErrorCode.NONE
    _, answer = alice.receive(APIS[ApiKey.FETCH], FETCH_BY_NAME)
    assert isinstance(answer, FetchResponse)
    (data,) = answer.responses[0].partitions
    assert (data.error_code, bytes(data.records or b"")) == (DENIED, b"")
    assert data.high_watermark == -1


def test_every_request_of_a_fetch_session_is_authorized(
    access: TopicUser, alice: Wire, admin: Wire
) -> None:
    right = access.allow(READ, TOPIC, access.topic)
    produce(admin, access.topic, batch(b"public"))
    first = alice.call(fetch_request(access.topic, session_epoch=0), FetchResponse, FETCH_BY_NAME)
    assert values_of(first.responses[0].partitions[0].records) == [b"public"]
    revoke(access.broker, right)
    again = fetch_request(access.topic, session_id=first.session_id, session_epoch=1)
    again.topics = []
    second = alice.call(again, FetchResponse, FETCH_BY_NAME)
    (data,) = second.responses[0].partitions
    assert (data.error_code, bytes(data.records or b"")) == (DENIED, b"")


@pytest.mark.parametrize("revoked", [GROUP, TOPIC])
def test_a_fast_path_of_commits_ends_when_the_right_is_revoked(
    access: TopicUser, alice: Wire, revoked: AclResourceType
) -> None:
    rights = {
        GROUP: access.allow(READ, GROUP, access.group),
        TOPIC: access.allow(READ, TOPIC, access.topic),
    }
    create_topic(access.connect(SUPER_USER), f"{access.topic}-2")
    assert [access.commit(alice, offset) for offset in range(4)] == [0] * 4
    assert access.broker.on_loop(lambda: _has_fast_path(access))
    revoke(access.broker, rights[revoked])
    expected = DENIED if revoked is TOPIC else ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert access.commit(alice, 5) == expected
    assert access.commit(alice, 6) == expected


@pytest.mark.parametrize("version", [PRODUCE_BY_NAME, PRODUCE_BY_ID])
def test_a_topic_that_a_connection_has_written_is_refused_when_the_right_is_revoked(
    access: TopicUser, alice: Wire, admin: Wire, version: int
) -> None:
    right = access.allow(WRITE, TOPIC, access.topic)
    name, topic_id = access.topic, topic_id_of(admin, access.topic)

    def write() -> int:
        return produce(alice, name, batch(b"x"), version=version, topic_id=topic_id).error_code

    assert [write() for _ in range(3)] == [ErrorCode.NONE] * 3
    revoke(access.broker, right)
    assert [write() for _ in range(2)] == [DENIED] * 2
    assert fetch(admin, fetch_request(access.topic)).high_watermark == 3


def test_a_topic_that_a_connection_has_written_takes_no_batch_of_a_foreign_transaction(
    access: TopicUser, alice: Wire, admin: Wire
) -> None:
    access.allow(WRITE, TOPIC, access.topic)
    assert produce(alice, access.topic, batch(b"x")).error_code == ErrorCode.NONE
    records = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    refused = produce(alice, access.topic, records)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert fetch(admin, fetch_request(access.topic)).high_watermark == 1


def _has_fast_path(access: TopicUser) -> bool:
    node = access.broker.node
    assert node is not None
    return any(each.fast_path is not None for each in node.server._connections)


# --- produce ----------------------------------------------------------------------------------


def test_a_batch_of_a_transaction_needs_an_authorized_transactional_id(
    access: TopicUser, alice: Wire, admin: Wire
) -> None:
    """CVE-2018-17196: WRITE on the topic alone is not enough."""
    access.allow(WRITE, TOPIC, access.topic)
    records = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    for transactional_id in ("payments", None):
        answer = produce(alice, access.topic, records, transactional_id=transactional_id)
        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert fetch(admin, fetch_request(access.topic)).high_watermark == 0


def test_a_denied_topic_does_not_stop_the_others(
    access: TopicUser, alice: Wire, admin: Wire
) -> None:
    other = f"{access.topic}-other"
    create_topic(admin, other)
    access.allow(WRITE, TOPIC, access.topic)
    data = [_topic_data(access.topic, b"mine"), _topic_data(other, b"theirs")]
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data)
    answer = alice.call(request, ProduceResponse, 12)
    codes = {each.name: each.partition_responses[0].error_code for each in answer.responses}
    assert codes == {access.topic: ErrorCode.NONE, other: DENIED}
    assert values_of(fetch(admin, fetch_request(access.topic)).records) == [b"mine"]
    assert fetch(admin, fetch_request(other)).high_watermark == 0


def test_a_denied_topic_closes_the_connection_with_acks_0(access: TopicUser, alice: Wire) -> None:
    data = [_topic_data(access.topic, b"x")]
    alice.send(ProduceRequest(acks=0, timeout_ms=5000, topic_data=data), 12)
    assert alice.ends()


# --- what only brokers may do -----------------------------------------------------------------


@pytest.mark.parametrize("version", [14, 16])
def test_an_ordinary_user_cannot_fetch_as_a_replica(
    access: TopicUser, admin: Wire, version: int
) -> None:
    """CVE-2018-1288: READ on the topic is not enough, and the follower's state does not change.
    CLUSTER_ACTION is not enough either, except between brokers."""
    produce(admin, access.topic, batch(b"x"))
    access.allow(READ, TOPIC, access.topic)
    request = fetch_request(topic_id=topic_id_of(admin, access.topic))
    if version == 14:
        request.replica_id = 0
    else:
        request.replica_state = FetchReplicaState(replica_id=0, replica_epoch=0)
    grant(access.broker, allow_on_cluster(access.name, AclOperation.CLUSTER_ACTION))
    elsewhere = access.connect(listener=OTHER_LISTENER)
    answer = elsewhere.call(request, FetchResponse, version)
    (data,) = answer.responses[0].partitions
    assert (data.error_code, bytes(data.records or b"")) == (DENIED, b"")


def test_a_client_id_is_not_an_identity(access: TopicUser, alice: Wire) -> None:
    """0.1.0 believed a request from `headrace-broker-1` to be from a broker."""
    request = CreateTopicsRequest(topics=[CreatableTopic(name="forged", num_partitions=1)])
    alice.send_bytes(request_frame(request, 7, client_id="headrace-broker-1"))
    _, answer = alice.receive(APIS[ApiKey.CREATE_TOPICS], 7)
    assert isinstance(answer, CreateTopicsResponse)
    assert [topic.error_code for topic in answer.topics] == [DENIED]


def _topic_data(name: str, value: bytes) -> TopicProduceData:
    return TopicProduceData(
        name=name, partition_data=[PartitionProduceData(index=0, records=batch(value))]
    )
