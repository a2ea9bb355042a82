"""Client quotas over the wire: they are set and listed, and clients over them are throttled.

The measurements are on a clock that stands still, so each throttle time is known exactly.
"""

import time
from collections.abc import Iterator

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
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
from headrace.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from headrace.protocol.messages.fetch import FetchResponse
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.testing import Broker, VirtualClock
from support.waiting import wait_for
from support.wire.batches import batch, fetch_request, produce
from support.wire.connection import Wire, request_frame
from support.wire.quotas import ANY_USER, alter_quotas, alteration, set_quota
from support.wire.topics import create_topic

ALICE = [("user", "alice")]
ALICE_APP = [("user", "alice"), ("client-id", "app")]
ADDRESS = [("ip", "10.0.0.1")]
TESTS = [("client-id", "tests")]  # the client id of `Wire`
TOPIC = "measured"
PRODUCE_BY_NAME = 9
FETCH_BY_NAME = 12
WINDOWS_S = 10  # a first value is measured as over ten windows


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[Broker]:
    with Broker(clock=VirtualClock()) as broker:
        yield broker


@pytest.fixture
def broker(shared_broker: Broker) -> Iterator[Broker]:
    """Without quotas, and without the measurements of earlier tests."""
    yield shared_broker
    shared_broker.clock.advance(minutes=1)
    with Wire(shared_broker.bootstrap_servers) as wire:
        for entry in describe(wire).entries or ():
            entity = [(part.entity_type, part.entity_name) for part in entry.entity]
            set_quota(wire, entity, **{limit.key: None for limit in entry.values})


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        gone = DeleteTopicState(name=TOPIC)
        wire.call(DeleteTopicsRequest(topics=[gone]), DeleteTopicsResponse)
        create_topic(wire, TOPIC)
        yield wire


def describe(
    wire: Wire, *components: ComponentData, strict: bool = False, version: int | None = None
) -> DescribeClientQuotasResponse:
    request = DescribeClientQuotasRequest(components=list(components), strict=strict)
    return wire.call(request, DescribeClientQuotasResponse, version)


def listed(answer: DescribeClientQuotasResponse) -> dict[tuple[str | None, ...], dict[str, float]]:
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return {
        tuple(part.entity_name for part in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries or ()
    }


def produce_request(size: int, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(b"v" * size))
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
    )


def frame_bytes(request: ProduceRequest) -> int:
    """The size that `producer_byte_rate` counts."""
    return len(request_frame(request, PRODUCE_BY_NAME)) - 4


# --- setting and listing --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_listed_and_removed_in_every_version(wire: Wire, version: int) -> None:
    altered = alter_quotas(
        wire,
        alteration(ALICE, producer_byte_rate=1000.0, request_percentage=12.5),
        alteration(ALICE_APP, consumer_byte_rate=2000.0),
        alteration(ADDRESS, connection_creation_rate=5.0),
        alteration([*ALICE, ("ip", None)], connection_creation_rate=5.0),
        version=version,
    )
    assert [each.error_code for each in altered.entries] == [0, 0, 0, ErrorCode.INVALID_REQUEST]
    assert [part.entity_name for part in altered.entries[1].entity] == ["alice", "app"]
    assert listed(describe(wire, version=version)) == {
        ("alice",): {"producer_byte_rate": 1000.0, "request_percentage": 12.5},
        ("app", "alice"): {"consumer_byte_rate": 2000.0},
        ("10.0.0.1",): {"connection_creation_rate": 5.0},
    }
    set_quota(wire, ALICE, producer_byte_rate=None, request_percentage=None)
    alice = ComponentData(entity_type="user", match_type=0, match="alice")
    assert listed(describe(wire, alice, version=version)) == {
        ("app", "alice"): {"consumer_byte_rate": 2000.0}
    }
    assert listed(describe(wire, alice, strict=True, version=version)) == {}


def test_a_validated_change_is_not_made(wire: Wire) -> None:
    entry = alteration(ALICE, producer_byte_rate=1000.0)
    assert alter_quotas(wire, entry, validate_only=True).entries[0].error_code == 0
    wrong = alteration(ALICE, producer_byte_rate=-1.0)
    assert alter_quotas(wire, wrong, validate_only=True).entries[0].error_code == 42
    assert listed(describe(wire)) == {}


@pytest.mark.parametrize("version", [0, 1])
def test_an_invalid_filter_is_refused_as_a_whole(wire: Wire, version: int) -> None:
    user = ComponentData(entity_type="user", match_type=0, match="alice")
    answer = describe(wire, user, user, version=version)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.entries is None
    unknown = ComponentData(entity_type="planet", match_type=0, match="mars")
    assert describe(wire, unknown, version=version).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_quotas_outlive_a_restart(broker: Broker, wire: Wire) -> None:
    set_quota(wire, ANY_USER, producer_byte_rate=1000.0)
    broker.restart()
    with Wire(broker.bootstrap_servers) as again:
        assert listed(describe(again)) == {(None,): {"producer_byte_rate": 1000.0}}
        request = produce_request(11_000)
        answer = again.call(request, ProduceResponse, PRODUCE_BY_NAME)
        assert answer.throttle_time_ms == expected_ms(frame_bytes(request), 1000)


# --- enforcement ----------------------------------------------------------------------------------


def expected_ms(size: int, limit: float) -> int:
    """Kafka's formula for a first value: (rate - limit) / limit x 10 s."""
    return round((size / WINDOWS_S - limit) / limit * WINDOWS_S * 1000)


@pytest.mark.parametrize("version", [3, 5, 9, 13])
@pytest.mark.parametrize("acks", [1, -1])
def test_a_producer_over_its_quota_gets_its_throttle_time_and_waits(
    broker: Broker, wire: Wire, version: int, acks: int
) -> None:
    request = produce_request(20_000, acks)
    if version >= 13:
        request.topic_data[0].topic_id = broker.on_loop(
            lambda: broker.node.metadata.image.topics[TOPIC].topic_id  # type: ignore[union-attr]
        )
    size = len(request_frame(request, version)) - 4
    limit = size / (WINDOWS_S + 0.1)  # 100 ms over the quota
    set_quota(wire, TESTS, producer_byte_rate=float(round(limit)))
    assert wire.call(ApiVersionsRequest(), ApiVersionsResponse).throttle_time_ms == 0
    began_s = time.monotonic()
    answer = wire.call(request, ProduceResponse, version)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert answer.throttle_time_ms == expected_ms(size, round(limit))
    answered_s = time.monotonic()
    wire.call(ApiVersionsRequest(), ApiVersionsResponse)
    assert time.monotonic() - began_s >= answer.throttle_time_ms / 1000 - 0.01
    assert answer.throttle_time_ms / 1000 > answered_s - began_s  # the response did not wait


def test_a_producer_without_acknowledgements_is_muted(wire: Wire) -> None:
    request = produce_request(20_000, acks=0)
    limit = round(frame_bytes(request) / (WINDOWS_S + 0.1))
    set_quota(wire, TESTS, producer_byte_rate=float(limit))
    began_s = time.monotonic()
    wire.send(request, PRODUCE_BY_NAME)
    wire.call(ApiVersionsRequest(), ApiVersionsResponse)
    assert time.monotonic() - began_s >= 0.09


def test_a_consumer_over_its_quota_gets_no_records_and_keeps_its_position(
    broker: Broker, wire: Wire
) -> None:
    for _ in range(2):
        produce(wire, TOPIC, batch(b"v" * 5_000), version=PRODUCE_BY_NAME)
    size = len(batch(b"v" * 5_000))
    limit = round(2 * size / (WINDOWS_S + 0.05))  # two batches are 50 ms over the quota
    set_quota(wire, TESTS, consumer_byte_rate=float(limit))

    def fetch(offset: int) -> FetchResponse:
        request = fetch_request(TOPIC, offset, max_bytes=size)
        return wire.call(request, FetchResponse, FETCH_BY_NAME)

    first = fetch(0)
    assert first.throttle_time_ms == 0
    assert len(first.responses[0].partitions[0].records or b"") == size
    throttled = fetch(1)
    assert (throttled.error_code, throttled.responses) == (ErrorCode.NONE, [])
    assert throttled.throttle_time_ms == expected_ms(2 * size, limit)
    again = fetch(1)
    assert again.throttle_time_ms == throttled.throttle_time_ms  # nothing was recorded
    broker.clock.advance(12)
    served = fetch(1)
    assert served.throttle_time_ms == 0
    assert len(served.responses[0].partitions[0].records or b"") == size


def test_a_fetch_never_asks_for_more_than_its_quota_allows(wire: Wire) -> None:
    for _ in range(4):
        produce(wire, TOPIC, batch(b"v" * 5_000), version=PRODUCE_BY_NAME)
    size = len(batch(b"v" * 5_000))
    set_quota(wire, TESTS, consumer_byte_rate=float(-(-2 * size // WINDOWS_S)))
    answer = wire.call(fetch_request(TOPIC, 0), FetchResponse, FETCH_BY_NAME)
    assert answer.throttle_time_ms == 0
    data = answer.responses[0].partitions[0].records or b""
    assert 2 * size <= len(data) < 3 * size


def test_a_batch_that_is_larger_than_the_quota_is_delivered(broker: Broker, wire: Wire) -> None:
    produce(wire, TOPIC, batch(b"v" * 50_000), version=PRODUCE_BY_NAME)
    size = len(batch(b"v" * 50_000))
    set_quota(wire, TESTS, consumer_byte_rate=float(round(size / (WINDOWS_S + 0.02))))
    answer = wire.call(fetch_request(TOPIC, 0), FetchResponse, FETCH_BY_NAME)
    assert answer.throttle_time_ms == 20
    assert len(answer.responses[0].partitions[0].records or b"") == size


def test_a_throttled_fetch_leaves_its_session_as_it_was(broker: Broker, wire: Wire) -> None:
    size = len(batch(b"v" * 5_000))
    for _ in range(2):
        produce(wire, TOPIC, batch(b"v" * 5_000), version=PRODUCE_BY_NAME)
    set_quota(wire, TESTS, consumer_byte_rate=float(round(2 * size / (WINDOWS_S + 0.05))))

    def fetch(offset: int, session_id: int, epoch: int) -> FetchResponse:
        request = fetch_request(
            TOPIC, offset, max_bytes=size, session_id=session_id, session_epoch=epoch
        )
        return wire.call(request, FetchResponse, FETCH_BY_NAME)

    opened = fetch(0, 0, 0)
    assert opened.session_id > 0
    throttled = fetch(1, opened.session_id, 1)
    assert (throttled.session_id, throttled.responses) == (opened.session_id, [])
    assert throttled.throttle_time_ms > 0
    broker.clock.advance(12)
    continued = fetch(1, opened.session_id, 2)
    assert len(continued.responses[0].partitions[0].records or b"") == size
    refused = fetch(0, 0, 0)  # a new session
    assert (refused.session_id, refused.responses) == (0, [])
    assert refused.throttle_time_ms > 0


def test_a_client_over_its_request_time_is_throttled_for_at_most_one_window() -> None:
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:  # on the machine's clock
        set_quota(wire, TESTS, request_percentage=50.0)
        assert wire.call(ApiVersionsRequest(), ApiVersionsResponse).throttle_time_ms == 0
        set_quota(wire, TESTS, request_percentage=0.000_001)
        assert wire.call(ApiVersionsRequest(), ApiVersionsResponse).throttle_time_ms == 1000


def test_a_user_without_a_quota_is_not_throttled_while_others_are(wire: Wire) -> None:
    set_quota(wire, [("user", "somebody")], producer_byte_rate=1.0, request_percentage=0.001)
    answer = wire.call(produce_request(20_000), ProduceResponse, PRODUCE_BY_NAME)
    assert answer.throttle_time_ms == 0


def test_fast_paths_are_off_while_request_time_is_limited(broker: Broker, wire: Wire) -> None:
    node = broker.node
    assert node is not None
    assert node.server.allows_fast_paths
    set_quota(wire, TESTS, request_percentage=50.0)
    assert not node.server.allows_fast_paths
    set_quota(wire, TESTS, request_percentage=None)
    assert node.server.allows_fast_paths
    assert not node.quotas.is_active


# --- changes of topics ----------------------------------------------------------------------------


def create(wire: Wire, version: int, **partitions: int) -> CreateTopicsResponse:
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in partitions.items()
    ]
    return wire.call(CreateTopicsRequest(topics=topics), CreateTopicsResponse, version)


def test_a_new_client_over_its_mutation_quota_is_refused(broker: Broker, wire: Wire) -> None:
    set_quota(wire, TESTS, controller_mutation_rate=10.0)  # with a burst of 110
    answer = create(wire, 7, large=111, small=1)
    assert [topic.error_code for topic in answer.topics] == [
        ErrorCode.NONE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ]
    assert answer.throttle_time_ms == 100
    growth = CreatePartitionsTopic(name=TOPIC, count=2, assignments=None)
    grown = wire.call(CreatePartitionsRequest(topics=[growth]), CreatePartitionsResponse, 3)
    assert grown.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    gone = DeleteTopicState(name=TOPIC)
    deleted = wire.call(DeleteTopicsRequest(topics=[gone]), DeleteTopicsResponse, 6)
    assert deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    broker.clock.advance(1)
    assert create(wire, 7, small=1).topics[0].error_code == ErrorCode.NONE


def test_an_old_client_over_its_mutation_quota_is_muted(wire: Wire) -> None:
    set_quota(wire, TESTS, controller_mutation_rate=1.0)  # with a burst of 11
    began_s = time.monotonic()
    answer = create(wire, 5, ten=10, another=1)
    assert [topic.error_code for topic in answer.topics] == [0, 0]
    assert answer.throttle_time_ms == 0
    set_quota(wire, TESTS, controller_mutation_rate=10.0)
    answer = create(wire, 5, last=1)
    assert answer.topics[0].error_code == ErrorCode.NONE
    assert answer.throttle_time_ms == 100
    wire.call(ApiVersionsRequest(), ApiVersionsResponse)
    assert time.monotonic() - began_s >= 0.09


# --- connections ----------------------------------------------------------------------------------


def test_connections_over_the_rate_of_an_address_are_closed_late(
    broker: Broker, wire: Wire
) -> None:
    set_quota(wire, [("ip", "127.0.0.1")], connection_creation_rate=1.0)
    accepted = [Wire(broker.bootstrap_servers) for _ in range(10)]
    for each in accepted:
        each.call(ApiVersionsRequest(), ApiVersionsResponse)
    with Wire(broker.bootstrap_servers) as refused:
        began_s = time.monotonic()
        refused.send(ApiVersionsRequest(), 0)
        assert refused.ends()
        assert 0.5 < time.monotonic() - began_s < 5
    for each in accepted:
        each.call(ApiVersionsRequest(), ApiVersionsResponse)  # open connections are not affected
        each.close()
    set_quota(wire, [("ip", "127.0.0.1")], connection_creation_rate=None)
    with Wire(broker.bootstrap_servers) as again:
        again.call(ApiVersionsRequest(), ApiVersionsResponse)


def test_a_throttled_client_that_closes_its_connection_is_forgotten_at_once(
    broker: Broker, wire: Wire
) -> None:
    node = broker.node
    assert node is not None
    with wire:
        set_quota(wire, TESTS, producer_byte_rate=1.0)
        answer = wire.call(produce_request(20_000), ProduceResponse, PRODUCE_BY_NAME)
        assert answer.throttle_time_ms > 1_000_000
    wait_for(lambda: not node.server._connections, "the connection is closed")


def test_an_empty_request_changes_nothing(wire: Wire) -> None:
    assert alter_quotas(wire).entries == []
    assert alter_quotas(wire, alteration(ALICE)).entries[0].error_code == ErrorCode.NONE
    assert listed(describe(wire)) == {}
