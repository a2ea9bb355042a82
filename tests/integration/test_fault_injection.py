"""Injected faults affect only the chosen requests and look like Kafka's own errors."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headrace.protocol.messages.fetch import FetchRequest, FetchResponse
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from headrace.testing import Broker, Headrace
from headrace.testing.defaults import TEST_SETTINGS
from support.waiting import wait_for
from support.wire.batches import batch, fetch, fetch_request, produce
from support.wire.connection import CLIENT_ID, Wire
from support.wire.groups import join, sync, wait_for_coordinator
from support.wire.transactional_producer import TransactionalProducer

DEADLINE_S = 60.0
DELAY_S = 0.2


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=TEST_SETTINGS) as broker:
        yield broker


@pytest.fixture
def headrace(broker: Broker) -> Iterator[Headrace]:
    broker.headrace.begin()
    yield broker.headrace
    broker.headrace.clean()


@pytest.fixture
def connect(broker: Broker) -> Iterator[Callable[[], Wire]]:
    with ExitStack() as opened:
        yield lambda: opened.enter_context(Wire(broker.bootstrap_servers))


@pytest.fixture
def wire(connect: Callable[[], Wire]) -> Wire:
    return connect()


@pytest.fixture
def topic(headrace: Headrace) -> str:
    return headrace.create_topic()


# --- requests -----------------------------------------------------------------------------------


def test_the_next_requests_fail_and_are_not_carried_out(
    headrace: Headrace, wire: Wire, topic: str
) -> None:
    fault = headrace.trouble.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2)
    codes = [produce(wire, topic, batch(b"x")).error_code for _ in range(3)]
    assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS, 0]
    assert (fault.hits, fault.left) == (2, 0)
    fault.wait()
    assert len(headrace.consume(topic)) == 1


def test_faults_apply_to_a_connection_on_the_commit_fast_path(
    headrace: Headrace, wire: Wire, topic: str
) -> None:
    """Its commits take a fast path, which faults must disable."""
    group = uuid.uuid4().hex
    wait_for_coordinator(wire, group)

    def commit(offset: int) -> int:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        return wire.call(request, OffsetCommitResponse, 8).topics[0].partitions[0].error_code

    assert [commit(0), commit(1)] == [0, 0]
    fault = headrace.trouble.fail("OffsetCommit", "REBALANCE_IN_PROGRESS", times=2)
    assert [commit(2), commit(3), commit(4)] == [27, 27, 0]
    assert (fault.hits, fault.left) == (2, 0)


def test_other_requests_and_other_clients_are_not_affected(
    headrace: Headrace, wire: Wire, topic: str
) -> None:
    fault = headrace.trouble.fail("Produce", ErrorCode.KAFKA_STORAGE_ERROR, client_id="another")
    assert produce(wire, topic, batch(b"x")).error_code == 0
    assert fault.hits == 0
    mine = headrace.trouble.fail("Produce", 56, client_id=CLIENT_ID)
    headrace.produce(topic, "the helper's own")
    assert wire.call(ListGroupsRequest(), ListGroupsResponse).error_code == 0
    assert produce(wire, topic, batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert mine.hits == 1


def test_faults_apply_in_the_order_they_were_requested(
    headrace: Headrace, wire: Wire, topic: str
) -> None:
    headrace.trouble.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    headrace.trouble.fail("Produce", "REQUEST_TIMED_OUT")
    codes = [produce(wire, topic, batch(b"x")).error_code for _ in range(3)]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, 0]


def test_a_failed_produce_with_acks_0_closes_the_connection(
    headrace: Headrace, wire: Wire, topic: str
) -> None:
    headrace.trouble.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    data = PartitionProduceData(index=0, records=batch(b"x"))
    request = ProduceRequest(
        acks=0, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    wire.send(request, 12)
    assert wire.ends()
    assert headrace.consume(topic) == []


def test_metadata_with_failing_topics_still_lists_brokers(
    headrace: Headrace, wire: Wire, topic: str
) -> None:
    headrace.trouble.fail("Metadata", "LEADER_NOT_AVAILABLE", client_id=CLIENT_ID)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    failed = wire.call(request, MetadataResponse)
    assert len(failed.brokers) == 1
    assert [(one.name, one.error_code, one.partitions) for one in failed.topics] == [
        (topic, ErrorCode.LEADER_NOT_AVAILABLE, [])
    ]
    again = wire.call(request, MetadataResponse)
    assert [(one.error_code, len(one.partitions)) for one in again.topics] == [(0, 1)]


def test_a_fetch_session_fails_with_all_its_partitions_and_restarts(
    headrace: Headrace, wire: Wire, topic: str
) -> None:
    first = wire.call(fetch_request(topic, session_epoch=0), FetchResponse, 12)
    assert first.session_id
    headrace.trouble.fail("Fetch", "NOT_LEADER_OR_FOLLOWER")
    incremental = FetchRequest(session_id=first.session_id, session_epoch=1)
    failed = wire.call(incremental, FetchResponse, 12)
    assert (failed.error_code, failed.session_id) == (0, 0)
    (answered,) = failed.responses
    assert answered.topic == topic
    assert [one.error_code for one in answered.partitions] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert fetch(wire, fetch_request(topic)).error_code == 0


def test_a_delayed_request_is_carried_out_later(headrace: Headrace, wire: Wire, topic: str) -> None:
    fault = headrace.trouble.delay("Produce", DELAY_S)
    began = time.monotonic()
    assert produce(wire, topic, batch(b"x")).error_code == 0
    assert time.monotonic() - began >= DELAY_S * 0.9
    assert fault.hits == 1
    assert len(headrace.consume(topic)) == 1


def test_a_dropped_request_is_not_carried_out(headrace: Headrace, wire: Wire, topic: str) -> None:
    headrace.trouble.drop("Produce")
    data = PartitionProduceData(index=0, records=batch(b"x"))
    wire.send(
        ProduceRequest(acks=-1, topic_data=[TopicProduceData(name=topic, partition_data=[data])]),
        12,
    )
    assert wire.ends()
    assert headrace.consume(topic) == []


def test_a_dropped_response_hides_the_outcome_from_the_client(
    headrace: Headrace, wire: Wire, topic: str
) -> None:
    headrace.trouble.drop("Produce", carried_out=True)
    data = PartitionProduceData(index=0, records=batch(b"x"))
    wire.send(
        ProduceRequest(acks=-1, topic_data=[TopicProduceData(name=topic, partition_data=[data])]),
        12,
    )
    assert wire.ends()
    assert len(headrace.consume(topic)) == 1


def test_all_connections_can_be_dropped(headrace: Headrace, connect: Callable[[], Wire]) -> None:
    wires = [connect(), connect()]
    for wire in wires:
        wire.call(ListGroupsRequest(), ListGroupsResponse)
    headrace.trouble.drop_connections()
    assert all(wire.ends() for wire in wires)
    headrace.topics()  # the helper connects again


def test_cleared_faults_do_not_apply_and_add_no_overhead(
    broker: Broker, headrace: Headrace, wire: Wire, topic: str
) -> None:
    assert broker.node is not None
    usual = broker.node.server.dispatch
    fault = headrace.trouble.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=5)
    assert broker.node.server.dispatch != usual
    assert produce(wire, topic, batch(b"x")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    headrace.trouble.clear()
    assert produce(wire, topic, batch(b"x")).error_code == 0
    assert fault.left == 4
    assert broker.node.server.dispatch == usual
    with pytest.raises(TimeoutError, match="4 more requests of Produce"):
        fault.wait(0.01)


def test_faults_persist_across_a_broker_restart() -> None:
    with Broker(settings=TEST_SETTINGS) as broker:
        broker.trouble.fail("ListGroups", "COORDINATOR_NOT_AVAILABLE", times=2)
        broker.restart()
        for expected in (ErrorCode.COORDINATOR_NOT_AVAILABLE,) * 2 + (ErrorCode.NONE,):
            with Wire(broker.bootstrap_servers) as wire:
                answer = wire.call(ListGroupsRequest(), ListGroupsResponse)
            assert answer.error_code == expected


def test_invalid_faults_are_rejected(headrace: Headrace) -> None:
    trouble = headrace.trouble
    with pytest.raises(ValueError, match="Produce"):
        trouble.fail("Prodcue", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(ValueError, match="NOT_LEADER_OR_FOLLOWER"):
        trouble.fail("Produce", "NOT_A_LEADER")
    with pytest.raises(ValueError, match="not an error"):
        trouble.fail("Produce", 0)
    with pytest.raises(ValueError, match="at least 1"):
        trouble.drop("Produce", times=0)


def test_a_real_producer_retries(headrace: Headrace, topic: str) -> None:
    fault = headrace.trouble.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2)
    producer = Producer({"bootstrap.servers": headrace.bootstrap_servers})
    producer.produce(topic, value="stubborn")
    assert producer.flush(DEADLINE_S) == 0
    assert fault.hits == 2
    assert [record.value for record in headrace.consume(topic)] == [b"stubborn"]


# --- groups and producers -----------------------------------------------------------------------


def heartbeat(wire: Wire, group: str, member_id: str, generation: int) -> ErrorCode:
    request = HeartbeatRequest(group_id=group, member_id=member_id, generation_id=generation)
    return ErrorCode(wire.call(request, HeartbeatResponse).error_code)


def test_a_forced_rebalance_makes_classic_members_rejoin(
    headrace: Headrace, wire: Wire, topic: str
) -> None:
    wait_for_coordinator(wire, "called")
    member_id, generation = join(wire, "called", topic)
    sync(wire, "called", member_id, generation)
    assert heartbeat(wire, "called", member_id, generation) is ErrorCode.NONE
    headrace.force_rebalance("called")
    code = heartbeat(wire, "called", member_id, generation)
    assert code is ErrorCode.REBALANCE_IN_PROGRESS
    described = headrace.describe_group("called")
    assert described is not None
    assert [member.member_id for member in described.members] == [member_id]


def test_an_expired_session_ends_the_membership_of_a_classic_member(
    headrace: Headrace, wire: Wire, topic: str
) -> None:
    wait_for_coordinator(wire, "expired")
    member_id, generation = join(wire, "expired", topic)
    sync(wire, "expired", member_id, generation)
    headrace.expire_session("expired", member_id)
    assert headrace.groups()["expired"] == "Empty"
    assert heartbeat(wire, "expired", member_id, generation) is ErrorCode.UNKNOWN_MEMBER_ID


def beat_consumer(wire: Wire, group: str, member_id: str, epoch: int, topic: str) -> ErrorCode:
    answer = wire.call(
        ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if epoch == 0 else -1,
            subscribed_topic_names=[topic] if epoch == 0 else None,
            topic_partitions=[] if epoch == 0 else None,
        ),
        ConsumerGroupHeartbeatResponse,
    )
    return ErrorCode(answer.error_code)


def beat_share(wire: Wire, group: str, member_id: str, epoch: int, topic: str) -> ErrorCode:
    answer = wire.call(
        ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=[topic] if epoch == 0 else None,
        ),
        ShareGroupHeartbeatResponse,
    )
    return ErrorCode(answer.error_code)


@pytest.mark.parametrize("beat", [beat_consumer, beat_share])
@pytest.mark.parametrize("how", ["expire_session", "force_rebalance"])
def test_members_of_the_newer_protocols_are_removed(
    headrace: Headrace,
    wire: Wire,
    topic: str,
    beat: Callable[[Wire, str, str, int, str], ErrorCode],
    how: str,
) -> None:
    group, member_id = f"out-{uuid.uuid4().hex}", str(uuid.uuid4())
    wait_for_coordinator(wire, group)
    assert beat(wire, group, member_id, 0, topic) is ErrorCode.NONE
    described = headrace.describe_group(group)
    assert described is not None
    assert [member.member_id for member in described.members] == [member_id]
    getattr(headrace, how)(group)
    assert beat(wire, group, member_id, 1, topic) is ErrorCode.UNKNOWN_MEMBER_ID


def test_removing_a_member_requires_an_existing_member(headrace: Headrace) -> None:
    with pytest.raises(ValueError, match="does not have this member"):
        headrace.expire_session("nobody")
    with pytest.raises(ValueError, match="no member"):
        headrace.force_rebalance("nobody")


def test_a_fenced_producer_is_rejected_and_its_transaction_aborted(
    headrace: Headrace, wire: Wire, topic: str
) -> None:
    producer = TransactionalProducer(wire).init()
    assert producer.send(topic, b"never") is ErrorCode.NONE
    headrace.fence_producer(producer.transactional_id)
    assert producer.send(topic, b"late") in (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
    state = headrace.transaction(producer.transactional_id)
    assert state is not None
    assert state.producer_epoch > producer.producer.epoch
    assert headrace.consume(topic, read_committed=True) == []
    assert headrace.transaction("nobody's") is None


def test_real_consumers_continue_after_a_forced_rebalance(headrace: Headrace) -> None:
    from confluent_kafka import Consumer

    topic = headrace.create_topic(partitions=2)
    revoked: list[int] = []
    consumer = Consumer(
        {
            "bootstrap.servers": headrace.bootstrap_servers,
            "group.id": "real",
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 30_000,
        }
    )
    consumer.subscribe([topic], on_revoke=lambda _, partitions: revoked.append(len(partitions)))

    def owns_all() -> bool:
        consumer.poll(0.1)
        return len(consumer.assignment()) == 2

    wait_for(owns_all, "an assignment", deadline_s=DEADLINE_S)
    headrace.force_rebalance("real")

    def was_called() -> bool:
        consumer.poll(0.1)
        return bool(revoked)

    wait_for(was_called, "the consumer's partitions are revoked", deadline_s=DEADLINE_S)
    wait_for(owns_all, "an assignment again", deadline_s=DEADLINE_S)
    consumer.close()
