"""Hostile pushes of client metrics: each is refused or cut, and the broker stays quick.

The broker of each test serves other clients meanwhile: its event loop must not wait for a payload.
"""

import time
from collections.abc import Iterator

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from headrace.records.codec import Codec, compress
from headrace.telemetry.series_names import MAX_LABEL_VALUE_CHARS
from headrace.testing import Broker, VirtualClock
from support.wire.client_metrics import (
    counter,
    gauge,
    get_subscription,
    payload,
    push,
    scraped,
    subscribe_clients,
)
from support.wire.connection import Wire

MAX_BYTES = 1 << 20
PER_CLIENT, IN_TOTAL = 20, 50
PREFIX = "org.apache.kafka."
SENT, SENT_FAMILY = f"{PREFIX}sent.total", "org_apache_kafka_sent_total"
LIMIT_S = 5.0  # generous: the machine may be busy; without a limit these take minutes


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[Broker]:
    settings = {
        "headrace.client.metrics.max.series": IN_TOTAL,
        "headrace.client.metrics.max.series.per.client": PER_CLIENT,
    }
    with Broker(clock=VirtualClock(), settings=settings) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            subscribe_clients(wire, "all", interval_ms=100)
        yield broker


@pytest.fixture
def broker(shared_broker: Broker) -> Iterator[Broker]:
    """Without the series of earlier tests."""
    yield shared_broker
    shared_broker.clock.advance(hours=1)
    assert scraped(shared_broker, "headrace_client_metrics_series") == [({}, 0.0)]


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


def push_once(wire: Wire, data: bytes, codec: Codec = Codec.NONE) -> ErrorCode:
    started = time.monotonic()
    code = push(wire, get_subscription(wire), data, codec=codec)
    assert time.monotonic() - started < LIMIT_S
    return code


def dropped(broker: Broker, reason: str) -> float:
    found = scraped(broker, "headrace_client_metrics_dropped_total")
    return next((value for labels, value in found if labels["reason"] == reason), 0.0)


def series_count(broker: Broker) -> float:
    return scraped(broker, "headrace_client_metrics_series")[0].value


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_a_decompression_bomb_is_too_large(wire: Wire, codec: Codec) -> None:
    bomb = compress(codec, bytes(16 * MAX_BYTES))
    assert len(bomb) <= MAX_BYTES
    assert push_once(wire, bomb, codec) == ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_bytes_that_do_not_decompress_are_invalid(wire: Wire, codec: Codec) -> None:
    assert push_once(wire, b"\xff" * 100, codec) == ErrorCode.INVALID_RECORD


def nested(depth: int) -> bytes:
    """An attribute whose value is a list in a list, and so on."""
    data = b""
    for _ in range(depth):
        data = field(5, field(1, data))  # AnyValue.array_value, ArrayValue.values
    attribute = field(1, b"k") + field(2, data)
    return field(1, field(1, field(1, attribute)))


def field(number: int, data: bytes) -> bytes:
    """A field of the length-delimited kind."""
    size, length = len(data), bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + data


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 1000,
        b"\x0a\xff\xff\xff\xff\x0f",  # a length of 4 GiB
        b"\x0a" * 1000,
        nested(200),
        nested(20_000),
        field(1, field(2, field(2, field(1, b"\xff\xfe")))),  # a name that is not UTF-8
    ],
    ids=["noise", "length", "truncated", "nested", "deeply-nested", "not-utf-8"],
)
def test_a_payload_that_is_not_metrics_data_is_invalid(wire: Wire, data: bytes) -> None:
    assert push_once(wire, data) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "element",
    [
        b"\x0a\x00",  # resources
        field(1, b"\x12\x00" * 500),  # scopes
        field(1, field(2, b"\x12\x00" * 500)),  # metrics
        field(1, field(2, field(2, b"\x0a\x02oo" + field(5, b"\x0a\x00" * 500)))),  # points
    ],
    ids=["resources", "scopes", "metrics", "points"],
)
def test_a_huge_number_of_elements_is_cut(broker: Broker, wire: Wire, element: bytes) -> None:
    data = element * ((MAX_BYTES - 1000) // len(element))
    before = dropped(broker, "too_many_elements")
    assert push_once(wire, data) == ErrorCode.NONE
    assert dropped(broker, "too_many_elements") == before + 1


def test_a_client_has_a_limited_number_of_series(broker: Broker, wire: Wire) -> None:
    before = dropped(broker, "too_many_series")
    metrics = [counter(f"{PREFIX}m{n}", 1) for n in range(100)]
    assert push_once(wire, payload(*metrics)) == ErrorCode.NONE
    assert series_count(broker) == PER_CLIENT
    assert dropped(broker, "too_many_series") == before + 100 - PER_CLIENT


def test_all_clients_together_have_a_limited_number_of_series(broker: Broker) -> None:
    data = payload(*(counter(SENT, 1, attributes={"n": str(n)}) for n in range(PER_CLIENT)))
    wires = [Wire(broker.bootstrap_servers) for _ in range(20)]
    for wire in wires:
        assert push_once(wire, data) == ErrorCode.NONE
        wire.close()
    assert series_count(broker) == IN_TOTAL == len(scraped(broker, SENT_FAMILY))
    assert len({tuple(one.labels.items()) for one in scraped(broker, SENT_FAMILY)}) == IN_TOTAL


def test_clients_over_the_limit_are_exported_when_others_have_stopped(broker: Broker) -> None:
    data = payload(*(counter(SENT, 1, attributes={"n": str(n)}) for n in range(PER_CLIENT)))
    for _ in range(4):
        with Wire(broker.bootstrap_servers) as wire:
            push_once(wire, data)
    broker.clock.advance(minutes=2)
    with Wire(broker.bootstrap_servers) as wire:
        push_once(wire, data)
    assert series_count(broker) == PER_CLIENT


def test_names_and_labels_are_limited_and_made_valid(broker: Broker, wire: Wire) -> None:
    attributes = {"": "x", "1st": "a", "le": "5", "job": "j", "ok": "v" * 10_000, "y" * 500: "z"}
    attributes |= {f"l{n}": "v" for n in range(100)}
    data = payload(
        gauge(f'{PREFIX}odd"name\n{{x="1"}}', 1, attributes),
        gauge("kafka_server_brokertopicmetrics_messagesin_total", 9),
        gauge(f"{PREFIX}{'x' * 5000}", 1),
        gauge("", 1),
    )
    assert push_once(wire, data) == ErrorCode.NONE
    ((labels, _),) = scraped(broker, "org_apache_kafka_odd_name_x_1")
    own = {name: text for name, text in labels.items() if not name.startswith("client_")}
    assert own["_1st"] == "a"
    assert len(own) == 8
    assert all(len(text) <= MAX_LABEL_VALUE_CHARS for text in own.values())
    assert not {"", "le", "job"} & set(own)
    # A client cannot push a metric with the name of one of the broker's.
    assert scraped(broker, "kafka_server_brokertopicmetrics_messagesin_total") == []
    assert series_count(broker) == 2


def test_a_counter_never_decreases(broker: Broker, wire: Wire) -> None:
    subscription = get_subscription(wire)
    for value, total in ((3.0, 3.0), (-2.0, 3.0), (float("nan"), 3.0), (1.0, 4.0)):
        assert push(wire, subscription, payload(counter(SENT, value))) == ErrorCode.NONE
        assert scraped(broker, SENT_FAMILY)[0].value == total
        broker.clock.advance(seconds=1)


def test_the_first_type_of_a_name_is_kept(broker: Broker, wire: Wire) -> None:
    before = dropped(broker, "conflicting_type")
    name = f"{PREFIX}sent.total"
    not_monotonic = counter(f"{PREFIX}sent.total.x", 5)
    not_monotonic.sum.is_monotonic = False
    data = payload(counter(name, 1), not_monotonic, gauge(f"{PREFIX}sent.total.x.total", 7))
    assert push_once(wire, data) == ErrorCode.NONE
    assert scraped(broker, SENT_FAMILY)[0].value == 1.0
    assert scraped(broker, f"{SENT_FAMILY}_x")[0].value == 7.0
    data = payload(counter(f"{PREFIX}a.total", 1), counter(f"{PREFIX}a", 1))
    assert dropped(broker, "conflicting_type") == before


def test_histograms_are_dropped_and_counted(broker: Broker, wire: Wire) -> None:
    before = dropped(broker, "unsupported_type")
    histogram = Metric(name=f"{PREFIX}latency")
    histogram.histogram.data_points.add(count=1)
    data = MetricsData()
    data.resource_metrics.add().scope_metrics.add().metrics.append(histogram)
    assert push_once(wire, data.SerializeToString()) == ErrorCode.NONE
    assert dropped(broker, "unsupported_type") == before + 1


def test_other_clients_are_served_while_payloads_are_decoded(broker: Broker) -> None:
    """Pushes of many clients at once, each of the maximum size and of the slowest kind."""
    element = field(1, field(2, field(2, field(1, b"oo") + field(5, b"\x0a\x00" * 500))))
    data = element * ((MAX_BYTES - 1000) // len(element))
    pushing = [Wire(broker.bootstrap_servers, timeout_s=30) for _ in range(6)]
    subscriptions = [get_subscription(wire) for wire in pushing]
    for wire, subscription in zip(pushing, subscriptions, strict=True):
        request = PushTelemetryRequest(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            metrics=data,
        )
        wire.send(request, 0)
    slowest = 0.0
    with Wire(broker.bootstrap_servers) as other:
        for _ in range(20):
            started = time.monotonic()
            get_subscription(other)
            slowest = max(slowest, time.monotonic() - started)
    for wire in pushing:
        _, answer = wire.receive(APIS[ApiKey.PUSH_TELEMETRY], 0)
        assert isinstance(answer, PushTelemetryResponse)
        assert answer.error_code == ErrorCode.NONE
        wire.close()
    assert slowest < 1.0, slowest
