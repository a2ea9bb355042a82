"""The demo's orders: a backlog at once, the rest once the pipeline runs, all recorded."""

from collections.abc import Callable, Iterator

import pytest

from headrace.pipeline.demo.orders import LANDS, orders
from headrace.pipeline.demo.traffic import Traffic
from headrace.testing import Broker
from headrace.testing.helper import Headrace
from support.waiting import wait_for

COUNT = 600
BACKLOG = 250


@pytest.fixture(scope="module")
def helper() -> Iterator[Headrace]:
    with Broker() as broker:
        yield broker.headrace


@pytest.fixture
def start(helper: Headrace) -> Iterator[Callable[[str], Traffic]]:
    started = []

    def make(topic: str) -> Traffic:
        traffic = Traffic(
            helper.bootstrap_servers,
            topic,
            orders(COUNT, seed=3),
            orders_per_second=100_000,
            backlog=BACKLOG,
        )
        started.append(traffic)
        traffic.start()
        return traffic

    yield make
    for traffic in started:
        traffic.stop()


def test_orders_follow_the_backlog_and_every_invalid_order_is_known_by_its_offset(
    helper: Headrace, start: Callable[[str], Traffic]
) -> None:
    topic = helper.create_topic(partitions=3)
    traffic = start(topic)
    wait_for(lambda: traffic.delivered == BACKLOG, "the backlog")
    assert not traffic.is_over
    traffic.go_on()
    wait_for(lambda: traffic.is_over, "the rest")
    assert (traffic.delivered, traffic.failure) == (COUNT, None)

    sent = {order.value: order.error for order in orders(COUNT, seed=3)}
    found = helper.consume(topic, COUNT)
    broken = {
        (record.partition, record.offset): sent[record.value or b""]
        for record in found
        if sent[record.value or b""] != LANDS
    }
    assert traffic.broken == broken
    assert broken


def test_traffic_can_be_stopped_while_it_waits(
    helper: Headrace, start: Callable[[str], Traffic]
) -> None:
    traffic = start(helper.create_topic())
    wait_for(lambda: traffic.delivered == BACKLOG, "the backlog")
    traffic.stop()
    assert traffic.is_over
    assert traffic.failure is None
