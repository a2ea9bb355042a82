"""Access that is revoked, hidden or forged, request by request, on a broker with an authorizer."""

import uuid
from collections.abc import Iterator
from typing import Final

import pytest

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from headrace.protocol.messages.fetch import FetchReplicaState, FetchResponse
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from headrace.protocol.messages.produce import ProduceRequest, ProduceResponse
from headrace.security.acl import Acl, AclOperation, AclResourceType
from headrace.testing import Broker
from support.security.access import (
    AUTHORIZER,
    SUPER_USER,
    act_as,
    allow,
    allow_on_cluster,
    grant,
    revoke,
)
from support.waiting import wait_for
from support.wire.batches import (
    FETCH_BY_NAME,
    batch,
    fetch,
    fetch_request,
    produce,
    topic_id_of,
    values_of,
)
from support.wire.connection import Wire
from support.wire.topics import create_topic

TOPIC: Final = AclResourceType.TOPIC
GROUP: Final = AclResourceType.GROUP
READ: Final = AclOperation.READ
WRITE: Final = AclOperation.WRITE
DESCRIBE: Final = AclOperation.DESCRIBE
NO_ID: Final = bytes(16)
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
OTHER_LISTENER: Final = "CLIENTS"
SETTINGS: Final = {
    **AUTHORIZER,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.consumer.regex.refresh.interval.ms": "60000",
}


class Access:
    """The broker, and connections that act as a user of this test."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.name = uuid.uuid4().hex
        self.topic = f"topic-{self.name}"
        self.group = f"group-{self.name}"
        self._open: list[Wire] = []

    def connect(self, name: str | None = None, *, listener: str | None = None) -> Wire:
        wire = Wire(self.broker.bootstrap_servers)
        self._open.append(wire)
        return act_as(self.broker, wire, name or self.name, listener=listener)

    def allow(self, operation: AclOperation, type_: AclResourceType, resource: str) -> Acl:
        acl = allow(self.name, operation, type_, resource)
        grant(self.broker, acl)
        return acl

    def close(self) -> None:
        for wire in self._open:
            wire.close()


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            admin = act_as(broker, wire, SUPER_USER)
            for key_type in (0, 1):
                wait_for(lambda kind=key_type: _has_coordinator(admin, kind), "it is loaded")
        yield broker


def _has_coordinator(wire: Wire, key_type: int) -> bool:
    find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
    (found,) = wire.call(find, FindCoordinatorResponse).coordinators
    return found.error_code == ErrorCode.NONE


@pytest.fixture
def access(secured: Broker) -> Iterator[Access]:
    """A topic and a user without rights."""
    made = Access(secured)
    create_topic(made.connect(SUPER_USER), made.topic)
    yield made
    made.close()


@pytest.fixture
def wire(access: Access) -> Wire:
    """A connection of the user."""
    return access.connect()


@pytest.fixture
def admin(access: Access) -> Wire:
    return access.connect(SUPER_USER)


# --- revoked rights ---------------------------------------------------------------------------


def test_a_fetch_that_waits_gets_no_records_after_its_right_was_revoked(
    access: Access, wire: Wire, admin: Wire
) -> None:
    right = access.allow(READ, TOPIC, access.topic)
    request = fetch_request(access.topic, max_wait_ms=20_000)
    wire.send(request, FETCH_BY_NAME)
    node = access.broker.node
    assert node is not None
    wait_for(lambda: access.broker.on_loop(lambda: len(node.delayed_fetches)), "it waits")
    revoke(access.broker, right)
    assert produce(admin, access.topic, batch(b"secret")).error_code == ErrorCode.NONE
    _, answer = wire.receive(APIS[ApiKey.FETCH], FETCH_BY_NAME)
    assert isinstance(answer, FetchResponse)
    (data,) = answer.responses[0].partitions
    assert (data.error_code, bytes(data.records or b"")) == (DENIED, b"")
    assert data.high_watermark == -1


def test_every_request_of_a_fetch_session_is_authorized(
    access: Access, wire: Wire, admin: Wire
) -> None:
    right = access.allow(READ, TOPIC, access.topic)
    produce(admin, access.topic, batch(b"public"))
    first = wire.call(fetch_request(access.topic, session_epoch=0), FetchResponse, FETCH_BY_NAME)
    assert values_of(first.responses[0].partitions[0].records) == [b"public"]
    revoke(access.broker, right)
    again = fetch_request(access.topic, session_id=first.session_id, session_epoch=1)
    again.topics = []
    second = wire.call(again, FetchResponse, FETCH_BY_NAME)
    (data,) = second.responses[0].partitions
    assert (data.error_code, bytes(data.records or b"")) == (DENIED, b"")


def _commit(access: Access, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name=access.topic, partitions=[partition])
    return OffsetCommitRequest(group_id=access.group, topics=[topic])


def _committed(wire: Wire, request: OffsetCommitRequest) -> int:
    answer = wire.call(request, OffsetCommitResponse, 8)
    return answer.topics[0].partitions[0].error_code


@pytest.mark.parametrize("revoked", [GROUP, TOPIC])
def test_a_fast_path_of_commits_ends_when_the_right_is_revoked(
    access: Access, wire: Wire, revoked: AclResourceType
) -> None:
    rights = {
        GROUP: access.allow(READ, GROUP, access.group),
        TOPIC: access.allow(READ, TOPIC, access.topic),
    }
    create_topic(access.connect(SUPER_USER), f"{access.topic}-2")
    assert [_committed(wire, _commit(access, offset)) for offset in range(4)] == [0] * 4
    assert access.broker.on_loop(lambda: _has_fast_path(access))
    revoke(access.broker, rights[revoked])
    expected = DENIED if revoked is TOPIC else ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert _committed(wire, _commit(access, 5)) == expected
    assert _committed(wire, _commit(access, 6)) == expected


def _has_fast_path(access: Access) -> bool:
    node = access.broker.node
    assert node is not None
    return any(each.fast_path is not None for each in node.server._connections)


# --- produce ----------------------------------------------------------------------------------


def test_a_batch_of_a_transaction_needs_an_authorized_transactional_id(
    access: Access, wire: Wire, admin: Wire
) -> None:
    """CVE-2018-17196: WRITE on the topic alone is not enough."""
    access.allow(WRITE, TOPIC, access.topic)
    records = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    for transactional_id in ("payments", None):
        answer = produce(wire, access.topic, records, transactional_id=transactional_id)
        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert fetch(admin, fetch_request(access.topic)).high_watermark == 0


def test_a_denied_topic_does_not_stop_the_others(access: Access, wire: Wire, admin: Wire) -> None:
    other = f"{access.topic}-other"
    create_topic(admin, other)
    access.allow(WRITE, TOPIC, access.topic)
    data = [_topic_data(access.topic, b"mine"), _topic_data(other, b"theirs")]
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data)
    answer = wire.call(request, ProduceResponse, 12)
    codes = {each.name: each.partition_responses[0].error_code for each in answer.responses}
    assert codes == {access.topic: ErrorCode.NONE, other: DENIED}
    assert values_of(fetch(admin, fetch_request(access.topic)).records) == [b"mine"]
    assert fetch(admin, fetch_request(other)).high_watermark == 0


def test_a_denied_topic_closes_the_connection_with_acks_0(access: Access, wire: Wire) -> None:
    data = [_topic_data(access.topic, b"x")]
    wire.send(ProduceRequest(acks=0, timeout_ms=5000, topic_data=data), 12)
    assert wire.ends()


# --- what only brokers may do -----------------------------------------------------------------


@pytest.mark.parametrize("version", [14, 16])
def test_an_ordinary_user_cannot_fetch_as_a_replica(
    access: Access, admin: Wire, version: int
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


def test_a_client_id_is_not_an_identity(access: Access, wire: Wire) -> None:
    """0.1.0 believed a request from `headrace-broker-1` to be from a broker."""
    from support.wire.connection import request_frame

    request = CreateTopicsRequest(topics=[CreatableTopic(name="forged", num_partitions=1)])
    wire.send_bytes(request_frame(request, 7, client_id="headrace-broker-1"))
    _, answer = wire.receive(APIS[ApiKey.CREATE_TOPICS], 7)
    assert isinstance(answer, CreateTopicsResponse)
    assert [topic.error_code for topic in answer.topics] == [DENIED]


# --- hidden resources -------------------------------------------------------------------------


def _metadata(wire: Wire, *names: str, ids: tuple[bytes, ...] = ()) -> list[MetadataResponseTopic]:
    by_name = [MetadataRequestTopic(name=name) for name in names]
    by_id = [MetadataRequestTopic(name=None, topic_id=id_) for id_ in ids]
    request = MetadataRequest(topics=[*by_name, *by_id] or None)
    return wire.call(request, MetadataResponse).topics


def test_a_refusal_does_not_say_whether_the_topic_exists(access: Access, wire: Wire) -> None:
    known, unknown = _metadata(wire, access.topic, "no-such-topic")
    assert (known.error_code, unknown.error_code) == (DENIED, DENIED)
    assert (known.topic_id, unknown.topic_id) == (NO_ID, NO_ID)
    assert not known.partitions


def test_topics_without_describe_are_left_out_of_all_topics(
    access: Access, wire: Wire, admin: Wire
) -> None:
    assert _metadata(wire) == []
    access.allow(DESCRIBE, TOPIC, access.topic)
    assert [topic.name for topic in _metadata(wire)] == [access.topic]
    pages = wire.call(DescribeTopicPartitionsRequest(), DescribeTopicPartitionsResponse)
    assert [topic.name for topic in pages.topics] == [access.topic]
    assert len(_metadata(admin)) > 1


def test_a_topic_id_without_describe_has_no_name(access: Access, wire: Wire, admin: Wire) -> None:
    topic_id = topic_id_of(admin, access.topic)
    known, unknown = _metadata(wire, ids=(topic_id, bytes([9] * 16)))
    assert (known.error_code, known.name, known.topic_id) == (DENIED, None, topic_id)
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)])
    (refused,) = wire.call(request, DeleteTopicsResponse).responses
    assert (refused.error_code, refused.name) == (DENIED, None)
    access.allow(DESCRIBE, TOPIC, access.topic)
    (refused,) = wire.call(request, DeleteTopicsResponse).responses
    assert (refused.error_code, refused.name) == (DENIED, access.topic)


def test_auto_creation_needs_create(access: Access, wire: Wire) -> None:
    name = f"{access.topic}-new"
    access.allow(DESCRIBE, TOPIC, name)
    (refused,) = _metadata(wire, name)
    assert refused.error_code == DENIED
    access.allow(AclOperation.CREATE, TOPIC, name)
    (made,) = _metadata(wire, name)
    assert made.error_code == ErrorCode.NONE


def test_the_configs_of_a_new_topic_need_describe_configs(access: Access, wire: Wire) -> None:
    name = f"{access.topic}-new"
    access.allow(AclOperation.CREATE, TOPIC, name)
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)],
        validate_only=True,
    )
    (result,) = wire.call(request, CreateTopicsResponse).topics
    assert (result.error_code, result.topic_config_error_code) == (ErrorCode.NONE, DENIED)
    assert (result.configs, result.num_partitions) == ([], -1)
    access.allow(AclOperation.DESCRIBE_CONFIGS, TOPIC, name)
    (result,) = wire.call(request, CreateTopicsResponse).topics
    assert (result.topic_config_error_code, result.num_partitions) == (ErrorCode.NONE, 1)
    assert result.configs


def test_offsets_of_all_topics_leave_out_those_without_describe(
    access: Access, wire: Wire, admin: Wire
) -> None:
    assert _committed(admin, _commit(access, 1)) == ErrorCode.NONE
    access.allow(DESCRIBE, GROUP, access.group)
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=access.group, topics=None)]
    )
    assert _offset_topics(wire, request) == []
    access.allow(DESCRIBE, TOPIC, access.topic)
    assert _offset_topics(wire, request) == [access.topic]


def _offset_topics(wire: Wire, request: OffsetFetchRequest) -> list[str]:
    (group,) = wire.call(request, OffsetFetchResponse, 9).groups
    assert group.error_code == ErrorCode.NONE
    return [topic.name for topic in group.topics]


def test_groups_without_describe_are_not_listed(access: Access, wire: Wire, admin: Wire) -> None:
    assert _committed(admin, _commit(access, 1)) == ErrorCode.NONE
    assert wire.call(ListGroupsRequest(), ListGroupsResponse).groups == []
    access.allow(DESCRIBE, GROUP, access.group)
    (listed,) = wire.call(ListGroupsRequest(), ListGroupsResponse).groups
    assert listed.group_id == access.group


def test_transactions_without_describe_are_not_listed(
    access: Access, wire: Wire, admin: Wire
) -> None:
    from headrace.protocol.messages.init_producer_id import (
        InitProducerIdRequest,
        InitProducerIdResponse,
    )

    begin = InitProducerIdRequest(transactional_id=access.name, transaction_timeout_ms=1000)
    assert admin.call(begin, InitProducerIdResponse).error_code == ErrorCode.NONE
    request = ListTransactionsRequest()
    assert wire.call(request, ListTransactionsResponse).transaction_states == []
    access.allow(DESCRIBE, AclResourceType.TRANSACTIONAL_ID, access.name)
    (state,) = wire.call(request, ListTransactionsResponse).transaction_states
    assert state.transactional_id == access.name


def test_authorized_operations_are_those_of_the_user(access: Access, wire: Wire) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert wire.call(request, DescribeClusterResponse).cluster_authorized_operations == 0
    grant(access.broker, allow_on_cluster(access.name, DESCRIBE))
    bits = wire.call(request, DescribeClusterResponse).cluster_authorized_operations
    assert bits == 1 << DESCRIBE
    access.allow(READ, TOPIC, access.topic)
    topics = MetadataRequest(
        topics=[MetadataRequestTopic(name=access.topic)],
        include_topic_authorized_operations=True,
    )
    (described,) = wire.call(topics, MetadataResponse).topics
    assert described.topic_authorized_operations == 1 << READ | 1 << DESCRIBE


def test_a_pattern_matches_only_topics_that_the_member_may_describe(
    access: Access, wire: Wire, admin: Wire
) -> None:
    visible = f"{access.topic}-visible"
    create_topic(admin, visible)
    access.allow(READ, GROUP, access.group)
    access.allow(READ, TOPIC, visible)
    request = ConsumerGroupHeartbeatRequest(
        group_id=access.group,
        member_id=str(uuid.uuid4()),
        rebalance_timeout_ms=5000,
        subscribed_topic_regex=f"{access.topic}.*",
        topic_partitions=[],
    )
    first = wire.call(request, ConsumerGroupHeartbeatResponse)
    assert first.error_code == ErrorCode.NONE
    request.member_epoch = first.member_epoch

    def assigned() -> set[bytes]:
        answer = wire.call(request, ConsumerGroupHeartbeatResponse)
        request.member_epoch = answer.member_epoch
        found = answer.assignment
        return {each.topic_id for each in found.topic_partitions} if found else set()

    assert wait_for(assigned, "the pattern is resolved") == {topic_id_of(admin, visible)}


def _topic_data(name: str, value: bytes) -> object:
    from headrace.protocol.messages.produce import PartitionProduceData, TopicProduceData

    return TopicProduceData(
        name=name, partition_data=[PartitionProduceData(index=0, records=batch(value))]
    )
