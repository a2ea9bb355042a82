"""Every metric in the dashboards and rules exists in a real scrape of brokers and a pipeline."""

import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client import generate_latest

from headrace.cli.generate.alerts import all_alerts
from headrace.cli.generate.dashboard import Panel
from headrace.cli.generate.dashboards import DASHBOARDS
from headrace.cli.generate.prometheus_rules import RECORDED
from headrace.pipeline.application.metrics import Metrics
from headrace.testing import Cluster
from support.prometheus.promql import names_in, names_of
from support.prometheus.promtool import needs_promtool, promtool

TIMEOUT_S = 30.0
OF_PROMETHEUS = {"up"}


def expressions() -> Iterator[tuple[str, str]]:
    """Where an expression is, and the expression."""
    for alert in all_alerts():
        yield alert.name, alert.expression
    yield from RECORDED.items()
    for dashboard in DASHBOARDS.values():
        for part in dashboard.parts:
            if isinstance(part, Panel):
                for query in part.queries:
                    yield f"{dashboard.name}: {part.title}", query.expression
        for variable in dashboard.variables:
            metric, _, _ = variable.query.removeprefix("label_values(").partition(",")
            yield f"{dashboard.name}: {variable.label}", metric


@pytest.fixture(scope="module")
def scrapes() -> list[str]:
    """The scrapes of two brokers with a group and a transaction, and of a pipeline."""
    settings = {"headrace.http.listener": "http://127.0.0.1:0"}
    with Cluster(2, settings=settings) as cluster:
        cluster.headrace.create_topic("orders")
        servers = cluster.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "transactional.id": "t"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("orders", b"value")
        producer.commit_transaction(TIMEOUT_S)
        consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        assert consumer.consume(1, TIMEOUT_S)
        consumer.close()
        found = []
        for broker in cluster.brokers.values():
            http = broker.node.http
            assert http is not None
            with urllib.request.urlopen(f"{http.address}/metrics", timeout=TIMEOUT_S) as answer:
                found.append(answer.read().decode())
    return [*found, generate_latest(Metrics().registry).decode()]


def test_every_metric_of_rules_and_dashboards_is_scraped(scrapes: list[str]) -> None:
    known = names_of(scrapes) | OF_PROMETHEUS | RECORDED.keys()
    unknown = {
        where: missing for where, text in expressions() if (missing := names_in(text) - known)
    }
    assert unknown == {}


@needs_promtool
def test_promtool_accepts_the_scrapes(scrapes: list[str]) -> None:
    """`check metrics` also reports names that it finds unusual; Kafka's names are such."""
    for scrape in scrapes:
        promtool(["check", "metrics"], stdin=scrape, codes=(0, 3))


def test_the_names_in_an_expression_are_found() -> None:
    text = 'sum by (a) (rate(x_total{b="up"}[5m])) / on (c) group_left (d) y:z > 1e3 and 5 * w'
    assert names_in(text) == {"x_total", "y:z", "w"}
