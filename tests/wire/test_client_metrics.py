"""Client metrics over the wire (KIP-714): subscriptions, times of requests, errors, series.

The clock stands still, so that each interval is exact.
"""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from headrace.broker.telemetry.client_metrics_receiver import Requester
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headrace.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from headrace.protocol.messages.push_telemetry import PushTelemetryRequest
from headrace.protocol.types import encode_uuid
from headrace.records.codec import Codec
from headrace.telemetry.client_instances import MAX_INSTANCES
from headrace.telemetry.client_series import LAST_VALUES_MS
from headrace.testing import Broker, VirtualClock
from support.waiting import wait_for
from support.wire.client_metrics import (
    CLIENT_METRICS,
    CUMULATIVE,
    alter_subscription,
    counter,
    gauge,
    get_subscription,
    payload,
    push,
    remove_subscription,
    scraped,
    subscribe_clients,
)
from support.wire.connection import CLIENT_ID, Wire

NAME = "all-clients"
SENT = "org.apache.kafka.producer.record.send.total"
SENT_FAMILY = "org_apache_kafka_producer_record_send_total"
LATENCY = "org.apache.kafka.producer.request.latency.avg"
LATENCY_FAMILY = "org_apache_kafka_producer_request_latency_avg"
INTERVAL_S = 1.0
GET_KEY, PUSH_KEY = 71, 72


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[Broker]:
    with Broker(clock=VirtualClock(), settings={"telemetry.max.bytes": 100_000}) as broker:
        yield broker


@pytest.fixture
def broker(shared_broker: Broker) -> Iterator[Broker]:
    """Without subscriptions and without the series of earlier tests."""
    yield shared_broker
    with Wire(shared_broker.bootstrap_servers) as wire:
        for name in subscription_names(wire):
            remove_subscription(wire, name)
    shared_broker.clock.advance(hours=4)


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


@pytest.fixture
def subscribed(wire: Wire) -> Wire:
    """All clients push all metrics every second."""
    subscribe_clients(wire, NAME)
    return wire


def subscription_names(wire: Wire) -> list[str]:
    request = ListConfigResourcesRequest(resource_types=[CLIENT_METRICS])
    answer = wire.call(request, ListConfigResourcesResponse)
    return [resource.resource_name for resource in answer.config_resources]


def advance(broker: Broker, seconds: float = INTERVAL_S) -> None:
    broker.clock.advance(seconds=seconds)


# --- resources ------------------------------------------------------------------------------------


def test_a_subscription_is_listed_described_and_removed(wire: Wire) -> None:
    subscribe_clients(wire, NAME, metrics="a.,b.", interval_ms=500, match="client_id=x.*")
    assert subscription_names(wire) == [NAME]
    resource = DescribeConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=NAME, configuration_keys=None
    )
    answer = wire.call(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
    assert {entry.name: entry.value for entry in answer.results[0].configs} == {
        "interval.ms": "500",
        "match": "client_id=x.*",
        "metrics": "a.,b.",
    }
    remove_subscription(wire, NAME)
    assert subscription_names(wire) == []


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [
        ("interval.ms", "99", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "3600001", ErrorCode.INVALID_REQUEST),
        ("match", "client_id", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=a=b", ErrorCode.INVALID_CONFIG),
        ("match", "client_name=a", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=(a", ErrorCode.INVALID_CONFIG),
        ("match", r"client_id=(a)\1", ErrorCode.INVALID_CONFIG),  # backtracks
        ("retention.ms", "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_subscription_is_refused(
    wire: Wire, setting: str, value: str, code: ErrorCode
) -> None:
    assert alter_subscription(wire, NAME, {setting: value}) == code
    assert subscription_names(wire) == []


def test_a_subscription_survives_a_restart(shared_broker: Broker) -> None:
    with Wire(shared_broker.bootstrap_servers) as wire:
        subscribe_clients(wire, NAME)
    shared_broker.restart()
    with Wire(shared_broker.bootstrap_servers) as wire:
        assert get_subscription(wire).requested_metrics == ["*"]
        remove_subscription(wire, NAME)


# --- GetTelemetrySubscriptions --------------------------------------------------------------------


def test_the_requests_are_advertised(wire: Wire) -> None:
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    offered = {api.api_key for api in wire.call(request, ApiVersionsResponse).api_keys}
    assert {GET_KEY, PUSH_KEY} <= offered


def test_a_client_without_a_matching_subscription_should_push_nothing(wire: Wire) -> None:
    subscribe_clients(wire, NAME, match="client_id=another")
    answer = get_subscription(wire)
    assert answer.error_code == ErrorCode.NONE
    assert answer.requested_metrics == []
    assert answer.push_interval_ms == 300_000
    assert answer.client_instance_id not in (bytes(16), bytes(15) + b"\x01")
    assert answer.accepted_compression_types == [Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]
    assert answer.telemetry_max_bytes == 100_000
    assert answer.delta_temporality


def test_a_client_keeps_the_instance_id_that_it_sends(wire: Wire) -> None:
    assert get_subscription(wire, b"i" * 16).client_instance_id == b"i" * 16


def test_matching_subscriptions_are_united_at_the_shortest_interval(wire: Wire) -> None:
    subscribe_clients(wire, "a", metrics="p.,q.", interval_ms=5000)
    subscribe_clients(wire, "b", metrics="q.,r.", interval_ms=2000, match=f"client_id={CLIENT_ID}")
    subscribe_clients(wire, "c", metrics="s.", interval_ms=100, match="client_id=another")
    answer = get_subscription(wire)
    assert answer.requested_metrics == ["p.", "q.", "r."]
    assert answer.push_interval_ms == 2000


def test_all_metrics_replace_all_prefixes(wire: Wire) -> None:
    subscribe_clients(wire, "a", metrics="p.")
    subscribe_clients(wire, "b", metrics="*,q.")
    assert get_subscription(wire).requested_metrics == ["*"]


@pytest.mark.parametrize(
    ("match", "does"),
    [
        ("client_id=tes.*", True),
        ("client_id=tes", False),  # a pattern matches the whole value
        ("client_id = tests", True),
        ("client_software_name=my-app", True),
        ("client_software_version=1\\.2\\..*", True),
        ("client_software_version=2.*", False),
        ("client_source_address=127\\.0\\.0\\.1", True),
        ("client_source_port=[0-9]+", True),
        ("client_source_port=1", False),
        ("client_instance_id=aWlpaWlpaWlpaWlpaWlpaQ", True),
        ("client_id=tests,client_software_name=other", False),  # all patterns must match
        ("client_id=no,client_id=tests", True),  # the last of an attribute counts
    ],
)
def test_clients_are_matched_by_what_the_broker_knows_of_them(
    wire: Wire, match: str, does: bool
) -> None:
    subscribe_clients(wire, NAME, match=match)
    request = ApiVersionsRequest(client_software_name="my-app", client_software_version="1.2.3")
    wire.call(request, ApiVersionsResponse)
    assert get_subscription(wire, b"i" * 16).requested_metrics == (["*"] if does else [])


def test_a_client_asks_once_per_interval(broker: Broker, subscribed: Wire) -> None:
    first = get_subscription(subscribed)
    again = get_subscription(subscribed, first.client_instance_id)
    assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    advance(broker)
    again = get_subscription(subscribed, first.client_instance_id)
    assert again.error_code == ErrorCode.NONE
    assert again.subscription_id == first.subscription_id


def test_a_change_of_the_subscription_changes_its_id_at_once(
    broker: Broker, subscribed: Wire
) -> None:
    first = get_subscription(subscribed)
    ids = [first.subscription_id]
    for metrics, interval_ms in (("p.", 1000), ("p.,q.", 1000), ("p.,q.", 900), ("*", 1000)):
        subscribe_clients(subscribed, NAME, metrics=metrics, interval_ms=interval_ms)
        answer = get_subscription(subscribed, first.client_instance_id)
        assert answer.error_code == ErrorCode.NONE
        ids.append(answer.subscription_id)
    assert all(before != after for before, after in pairwise(ids))
    assert ids[0] == ids[-1]


def test_two_clients_have_different_subscription_ids(subscribed: Wire) -> None:
    ids = {get_subscription(subscribed, bytes([n]) * 16).subscription_id for n in range(2, 12)}
    assert len(ids) == 10


# --- PushTelemetry: errors ------------------------------------------------------------------------


@pytest.mark.parametrize("instance_id", [bytes(16), bytes(15) + b"\x01"])
def test_a_push_needs_an_instance_id(subscribed: Wire, instance_id: bytes) -> None:
    subscription = get_subscription(subscribed)
    subscription.client_instance_id = instance_id
    assert push(subscribed, subscription) == ErrorCode.INVALID_REQUEST


def test_only_the_first_push_may_come_before_the_interval(broker: Broker, subscribed: Wire) -> None:
    subscription = get_subscription(subscribed)
    advance(broker, 0.5)
    assert push(subscribed, subscription) == ErrorCode.NONE
    advance(broker, 0.9)
    assert push(subscribed, subscription) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    advance(broker, 0.1)
    assert push(subscribed, subscription) == ErrorCode.NONE


def test_an_old_subscription_id_is_refused_and_the_client_may_ask_at_once(
    broker: Broker, subscribed: Wire
) -> None:
    subscription = get_subscription(subscribed)
    wrong = subscription.subscription_id ^ 1
    assert (
        push(subscribed, subscription, subscription_id=wrong) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    )
    again = get_subscription(subscribed, subscription.client_instance_id)
    assert again.error_code == ErrorCode.NONE


def test_a_push_after_a_change_of_the_subscription_is_refused(
    broker: Broker, subscribed: Wire
) -> None:
    subscription = get_subscription(subscribed)
    subscribe_clients(subscribed, NAME, metrics="org.apache.kafka.producer.")
    assert push(subscribed, subscription) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID


@pytest.mark.parametrize("codec", [-1, 5, 127])
def test_an_unknown_codec_is_refused_and_the_client_may_ask_at_once(
    subscribed: Wire, codec: int
) -> None:
    subscription = get_subscription(subscribed)
    code = push(subscribed, subscription, b"x", codec=codec)
    assert code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    again = get_subscription(subscribed, subscription.client_instance_id)
    assert again.error_code == ErrorCode.NONE


def test_a_push_over_the_maximum_size_is_refused(subscribed: Wire) -> None:
    subscription = get_subscription(subscribed)
    assert push(subscribed, subscription, bytes(100_001)) == ErrorCode.TELEMETRY_TOO_LARGE


def test_nothing_may_follow_a_terminating_push(broker: Broker, subscribed: Wire) -> None:
    subscription = get_subscription(subscribed)
    assert push(subscribed, subscription) == ErrorCode.NONE
    assert push(subscribed, subscription, terminating=True) == ErrorCode.NONE  # at any time
    advance(broker)
    assert push(subscribed, subscription) == ErrorCode.INVALID_REQUEST


def test_another_broker_accepts_a_push_with_the_right_subscription_id(
    broker: Broker, subscribed: Wire
) -> None:
    subscription = get_subscription(subscribed)
    with Wire(broker.bootstrap_servers) as other:
        subscribed.close()  # the broker forgets the instance
        wait_for(lambda: not scraped_count(broker), "the instance is forgotten")
        assert push(other, subscription) == ErrorCode.NONE


def scraped_count(broker: Broker) -> float:
    ((_, count),) = scraped(broker, "kafka_server_client_metrics_instance_count")
    return count


# --- series ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
def test_pushed_metrics_are_exported_with_the_labels_of_their_client(
    broker: Broker, subscribed: Wire, codec: Codec
) -> None:
    request = ApiVersionsRequest(client_software_name="my-app", client_software_version="1.2.3")
    subscribed.call(request, ApiVersionsResponse)
    subscription = get_subscription(subscribed)
    latency = gauge(LATENCY, 1.5, {"node-id": "1", "client_id": "forged"})
    resource = {"group_id": "readers", "other": "x"}
    data = payload(counter(SENT, 3), latency, codec=codec, resource=resource)
    assert push(subscribed, subscription, data, codec=codec) == ErrorCode.NONE
    client = {
        "client_id": CLIENT_ID,
        "client_instance_id": encode_uuid(subscription.client_instance_id),
        "client_software_name": "my-app",
        "client_software_version": "1.2.3",
    }
    assert scraped(broker, SENT_FAMILY) == [(client, 3.0)]
    assert scraped(broker, LATENCY_FAMILY) == [({**client, "node_id": "1"}, 1.5)]
    ((shown, _),) = scraped(broker, "headrace_client_metrics_client_info")
    assert shown == {**client, "client_source_address": "127.0.0.1", "group_id": "readers"}


def test_deltas_are_added_and_cumulative_values_and_gauges_replaced(
    broker: Broker, subscribed: Wire
) -> None:
    subscription = get_subscription(subscribed)
    for value in (3.0, 4.0):
        data = payload(
            counter(SENT, value),
            counter("org.apache.kafka.total", value, temporality=CUMULATIVE),
            gauge(LATENCY, value),
        )
        assert push(subscribed, subscription, data) == ErrorCode.NONE
        advance(broker)
    assert scraped(broker, SENT_FAMILY)[0].value == 7.0
    assert scraped(broker, "org_apache_kafka_total")[0].value == 4.0
    assert scraped(broker, LATENCY_FAMILY)[0].value == 4.0


def test_metrics_that_were_not_requested_are_dropped(broker: Broker, wire: Wire) -> None:
    subscribe_clients(wire, NAME, metrics="org.apache.kafka.producer.record.")
    subscription = get_subscription(wire)
    assert push(wire, subscription, payload(counter(SENT, 1), gauge(LATENCY, 1))) == ErrorCode.NONE
    assert len(scraped(broker, SENT_FAMILY)) == 1
    assert scraped(broker, LATENCY_FAMILY) == []


def test_a_client_without_a_subscription_creates_no_series(broker: Broker, wire: Wire) -> None:
    subscription = get_subscription(wire)
    assert push(wire, subscription, payload(counter(SENT, 1))) == ErrorCode.NONE
    assert scraped(broker, SENT_FAMILY) == []


def test_series_expire_three_intervals_after_the_last_push(broker: Broker, wire: Wire) -> None:
    subscribe_clients(wire, NAME, interval_ms=100_000)
    subscription = get_subscription(wire)
    assert push(wire, subscription, payload(counter(SENT, 1))) == ErrorCode.NONE
    advance(broker, 299.0)
    assert len(scraped(broker, SENT_FAMILY)) == 1
    advance(broker, 1.0)
    assert scraped(broker, SENT_FAMILY) == []
    assert scraped(broker, "headrace_client_metrics_series") == [({}, 0.0)]


def test_the_last_values_of_a_closed_client_can_still_be_scraped(
    broker: Broker, subscribed: Wire
) -> None:
    subscription = get_subscription(subscribed)
    data = payload(counter(SENT, 1))
    assert push(subscribed, subscription, data, terminating=True) == ErrorCode.NONE
    subscribed.close()
    advance(broker, LAST_VALUES_MS / 1000 - 1)
    assert len(scraped(broker, SENT_FAMILY)) == 1
    advance(broker, 1.0)
    assert scraped(broker, SENT_FAMILY) == []


def test_a_client_that_closes_at_once_after_its_last_push_is_counted(
    broker: Broker, subscribed: Wire
) -> None:
    subscription = get_subscription(subscribed)
    request = PushTelemetryRequest(
        client_instance_id=subscription.client_instance_id,
        subscription_id=subscription.subscription_id,
        terminating=True,
        metrics=payload(counter(SENT, 1)),
    )
    subscribed.send(request, 0)
    subscribed.close()
    wait_for(lambda: len(scraped(broker, SENT_FAMILY)) == 1, "the last push is counted")


def test_at_most_16384_instances_are_kept(broker: Broker, subscribed: Wire) -> None:
    def ask_often() -> int:
        assert broker.node is not None
        receiver = broker.node.client_metrics
        assert receiver is not None

        class Quiet:
            peer = "127.0.0.1:1"
            client_software = ("a", "b")

            def on_close(self, key: object, lost: object) -> None:
                pass

        requester = Requester(Quiet(), "c", "127.0.0.1")
        for number in range(2, MAX_INSTANCES + 100):
            receiver.subscribe(requester, number.to_bytes(16, "big"))
        return len(receiver.instances)

    assert broker.on_loop(ask_often) == MAX_INSTANCES


# --- off ------------------------------------------------------------------------------------------


def test_without_the_receiver_the_requests_are_neither_offered_nor_served() -> None:
    with (
        Broker(settings={"headrace.client.metrics.enable": False}) as broker,
        Wire(broker.bootstrap_servers) as wire,
    ):
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        offered = {api.api_key for api in wire.call(request, ApiVersionsResponse).api_keys}
        assert not {GET_KEY, PUSH_KEY} & offered
        answer = get_subscription(wire)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert push(wire, answer) == ErrorCode.UNSUPPORTED_VERSION
