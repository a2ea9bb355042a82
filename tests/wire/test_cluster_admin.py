"""Cluster requests over the wire, answered by three brokers."""

from collections.abc import Iterator

import pytest

from headrace.broker.network.connection import Connection
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from headrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
    PartitionResponse,
)
from headrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsTopicRequest,
)
from headrace.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartitions,
)
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from headrace.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeAcknowledgementBatch,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from headrace.protocol.messages.share_fetch import (
    ShareFetchFetchPartition,
    ShareFetchFetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from headrace.testing import Cluster
from support.waiting import wait_for
from support.wire.batches import batch, produce, topic_id_of
from support.wire.client_metrics import (
    get_subscription,
    push,
    remove_subscription,
    subscribe_clients,
)
from support.wire.connection import Wire
from support.wire.quotas import set_quota


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster.bootstrap_servers) as wire:
        yield wire


def place(wire: Wire, topic: str, *replicas: int) -> None:
    """A topic of one partition on these brokers."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    new = CreatableTopic(
        name=topic, num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    (created,) = wire.call(CreateTopicsRequest(topics=[new]), CreateTopicsResponse).topics
    assert created.error_code == ErrorCode.NONE, created


def reassign(wire: Wire, *topics: ReassignableTopic) -> AlterPartitionReassignmentsResponse:
    request = AlterPartitionReassignmentsRequest(topics=list(topics))
    return wire.call(request, AlterPartitionReassignmentsResponse)


def partition_of(wire: Wire, topic: str) -> MetadataResponsePartition:
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    return wire.call(asked, MetadataResponse).topics[0].partitions[0]


def test_the_last_move_of_a_partition_in_one_request_applies(
    wire: Wire,
) -> None:
    place(wire, "twice", 3)
    wishes = [ReassignablePartition(partition_index=0, replicas=[id_]) for id_ in (1, 2)]
    answer = reassign(wire, ReassignableTopic(name="twice", partitions=wishes))
    assert [each.error_code for each in answer.responses[0].partitions] == [0, 0]
    wait_for(lambda: partition_of(wire, "twice").replica_nodes == [2], "the move is done")


def test_every_topic_of_a_reassignment_is_answered(wire: Wire) -> None:
    place(wire, "still", 1)
    stays = ReassignablePartition(partition_index=0, replicas=[1])
    answer = reassign(
        wire,
        ReassignableTopic(name="none", partitions=[]),
        ReassignableTopic(name="still", partitions=[stays]),
        ReassignableTopic(name="nowhere", partitions=[stays]),
        ReassignableTopic(name="still", partitions=[stays]),
    )
    assert [
        (topic.name, [each.error_code for each in topic.partitions]) for topic in answer.responses
    ] == [
        ("none", []),
        ("still", [ErrorCode.NONE]),
        ("nowhere", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ("still", [ErrorCode.NONE]),
    ]


def test_every_partition_of_an_election_has_a_result_in_request_order(wire: Wire) -> None:
    place(wire, "elected", 1)
    places = (("elected", [0]), ("nowhere", []), ("elected", [7, 0]))
    asked = [ElectLeadersTopicPartitions(topic=name, partitions=each) for name, each in places]
    answer = wire.call(ElectLeadersRequest(topic_partitions=asked), ElectLeadersResponse)
    assert [
        (topic.topic, [each.partition_id for each in topic.partition_result])
        for topic in answer.replica_election_results
    ] == list(places)


def test_an_unknown_election_type_is_rejected_for_each_partition(
    wire: Wire,
) -> None:
    asked = ElectLeadersTopicPartitions(topic="any", partitions=[0, 1])
    request = ElectLeadersRequest(election_type=2, topic_partitions=[asked])
    answer = wire.call(request, ElectLeadersResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    (topic,) = answer.replica_election_results
    assert [(each.partition_id, each.error_code) for each in topic.partition_result] == [
        (0, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.INVALID_REQUEST),
    ]
    assert topic.partition_result[0].error_message == "Unknown election type 2"


def test_a_follower_describes_its_known_producers(cluster: Cluster, wire: Wire) -> None:
    """kafka-transactions describe-producers --broker-id asks a replica that does not lead."""
    place(wire, "followed", 1, 2)
    sent = produce(
        wire, "followed", batch(b"a", producer_id=4711, producer_epoch=0, base_sequence=0)
    )
    assert sent.error_code == ErrorCode.NONE

    def described(broker: int) -> PartitionResponse:
        asked = DescribeProducersTopicRequest(name="followed", partition_indexes=[0])
        with Wire(cluster.brokers[broker].bootstrap_servers) as other:
            answer = other.call(DescribeProducersRequest(topics=[asked]), DescribeProducersResponse)
        return answer.topics[0].partitions[0]

    for broker in (1, 2):
        (producer,) = described(broker).active_producers
        assert producer.producer_id == 4711
    assert described(3).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def coordinator_of(wire: Wire, group: str) -> int:
    def found() -> int | None:
        request = FindCoordinatorRequest(coordinator_keys=[group])
        (told,) = wire.call(request, FindCoordinatorResponse).coordinators
        return told.node_id if told.error_code == ErrorCode.NONE else None

    return wait_for(found, "the group has a coordinator")


def test_transactional_offsets_sent_to_another_broker_return_not_coordinator(
    cluster: Cluster, wire: Wire
) -> None:
    """This check comes first: the transaction coordinator's error may be fatal to the producer."""
    place(wire, "moved", 1)
    wrong = coordinator_of(wire, "g") % 3 + 1
    commit = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = TxnOffsetCommitRequest(
        transactional_id="nobody",
        group_id="g",
        producer_id=4711,
        topics=[TxnOffsetCommitRequestTopic(name="moved", partitions=[commit])],
    )
    with Wire(cluster.brokers[wrong].bootstrap_servers) as other:
        answer = other.call(request, TxnOffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_a_share_fetch_from_a_follower_returns_the_leader(cluster: Cluster, wire: Wire) -> None:
    """The field is never absent: a default of 0 would mean broker 0 in epoch 0."""
    place(wire, "shared", 1)
    topic_id = topic_id_of(wire, "shared")
    member = "AAAAAAAAAAAAAAAAAAAAEQ"
    fetch = ShareFetchRequest(
        group_id="sg",
        member_id=member,
        max_records=1,
        topics=[
            ShareFetchFetchTopic(
                topic_id=topic_id, partitions=[ShareFetchFetchPartition(partition_index=0)]
            )
        ],
    )
    said = ShareAcknowledgeAcknowledgementBatch(acknowledge_types=[1])
    held = AcknowledgePartition(partition_index=0, acknowledgement_batches=[said])
    acknowledge = ShareAcknowledgeRequest(
        group_id="sg",
        member_id=member,
        share_session_epoch=1,
        topics=[AcknowledgeTopic(topic_id=topic_id, partitions=[held])],
    )
    with Wire(cluster.brokers[2].bootstrap_servers) as other:
        fetched = other.call(fetch, ShareFetchResponse)
        acknowledged = other.call(acknowledge, ShareAcknowledgeResponse)
    for answer in (fetched, acknowledged):
        data = answer.responses[0].partitions[0]
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 0)
        (node,) = answer.node_endpoints
        assert (node.node_id, node.port) == (1, cluster.brokers[1].port)


def test_a_partition_without_a_leader_is_described_without_an_error() -> None:
    with Cluster(2) as cluster, Wire(cluster.brokers[1].bootstrap_servers) as wire:
        place(wire, "alone", 2)
        cluster.kill(2)
        wait_for(lambda: partition_of(wire, "alone").leader_id == -1, "nobody leads")
        asked = DescribeTopicPartitionsTopicRequest(name="alone")
        request = DescribeTopicPartitionsRequest(topics=[asked])
        answer = wire.call(request, DescribeTopicPartitionsResponse)
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.NONE, -1)
        assert partition.offline_replicas == [2]


CLIENTS = [("client-id", None)]


@pytest.fixture
def quotas(cluster: Cluster) -> Iterator[Wire]:
    """A connection to a broker that is not the controller; at the end no quota is left."""
    other = next(id_ for id_ in cluster.brokers if id_ != cluster.controller)
    with Wire(cluster.brokers[other].bootstrap_servers) as wire:
        yield wire
    with Wire(cluster.bootstrap_servers) as wire:
        removed = dict.fromkeys(
            ("consumer_byte_rate", "controller_mutation_rate", "request_percentage")
        )
        set_quota(wire, CLIENTS, **removed)


def test_every_broker_has_a_quota_when_its_change_is_answered(
    cluster: Cluster, quotas: Wire
) -> None:
    set_quota(quotas, CLIENTS, consumer_byte_rate=1_000_000.0)
    for broker in cluster.brokers.values():
        assert broker.node is not None
        assert broker.node.quotas.is_active
        with Wire(broker.bootstrap_servers) as wire:
            request = DescribeClientQuotasRequest(components=[])
            (entry,) = wire.call(request, DescribeClientQuotasResponse).entries or ()
            assert [(each.key, each.value) for each in entry.values] == [
                ("consumer_byte_rate", 1_000_000.0)
            ]


def test_the_controller_limits_the_changes_of_a_forwarded_clients_topics(quotas: Wire) -> None:
    set_quota(quotas, CLIENTS, controller_mutation_rate=1.0)  # with a burst of 11

    def create(name: str, partitions: int) -> CreateTopicsResponse:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        return quotas.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)

    assert create("within", 12).topics[0].error_code == ErrorCode.NONE
    refused = create("over", 1)
    assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert 0 < refused.throttle_time_ms <= 1000


def test_brokers_are_not_throttled(
    cluster: Cluster, quotas: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    muted: list[str] = []
    mute = Connection.mute

    def note(connection: Connection, duration_s: float) -> None:
        muted.append(connection.peer)
        mute(connection, duration_s)

    monkeypatch.setattr(Connection, "mute", note)
    place(quotas, "replicated", 1, 2, 3)
    set_quota(quotas, CLIENTS, consumer_byte_rate=1.0, request_percentage=0.000_001)
    clients = {peer_of(quotas)}
    for _ in range(3):
        with Wire(cluster.brokers[1].bootstrap_servers) as client:
            clients.add(peer_of(client))
            assert produce(client, "replicated", batch(b"v" * 1000)).error_code == ErrorCode.NONE
    assert len(muted) >= 3
    assert set(muted) <= clients


def peer_of(wire: Wire) -> str:
    """The address of this client, as the broker sees it."""
    host, port = wire.socket.getsockname()
    return f"{host}:{port}"


def test_a_subscription_to_client_metrics_applies_on_every_broker(cluster: Cluster) -> None:
    """Its id is the same everywhere, so a client may push to another broker than it asked."""
    instance_id = b"i" * 16
    with Wire(cluster.brokers[2].bootstrap_servers) as wire:
        subscribe_clients(wire, "all", metrics="x.", interval_ms=100)
    found = []
    for broker in cluster.brokers.values():
        with Wire(broker.bootstrap_servers) as wire:

            def has_subscription(wire: Wire = wire) -> bool:
                return get_subscription(wire).requested_metrics == ["x."]

            wait_for(has_subscription, "the broker knows the subscription")
            found.append(get_subscription(wire, instance_id))
    assert len({each.subscription_id for each in found}) == 1
    with Wire(cluster.brokers[3].bootstrap_servers) as wire:
        assert push(wire, found[0]) == ErrorCode.NONE
        remove_subscription(wire, "all")
