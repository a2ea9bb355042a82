"""Every metric in the dashboards and rules exists in a real scrape of brokers and a pipeline."""

import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer
from prometheus_client import generate_latest

from headrace.cli.generate.alerts import all_alerts
from headrace.cli.generate.dashboard import Panel
from headrace.cli.generate.dashboards import DASHBOARDS
from headrace.cli.generate.prometheus_rules import RECORDED
from headrace.pipeline.application.metrics import Metrics
from headrace.testing import Broker, Cluster
from support.cli.command import Cli
from support.prometheus.promql import names_in, names_of
from support.prometheus.promtool import needs_promtool, promtool
from support.waiting import wait_for

TIMEOUT_S = 30.0
POLL_S = 0.2
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


def scrape(broker: Broker) -> str:
    assert broker.node is not None
    http = broker.node.http
    assert http is not None
    with urllib.request.urlopen(f"{http.address}/metrics", timeout=TIMEOUT_S) as answer:
        return str(answer.read().decode())


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The scrapes of two brokers with groups of both kinds and transactions, and of a pipeline."""
    settings = {"headrace.http.listener": "http://127.0.0.1:0"}
    with Cluster(2, settings=settings) as cluster:
        cluster.headrace.create_topic("orders")
        servers = cluster.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "transactional.id": "t"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("orders", b"value")
        producer.commit_transaction(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("orders", b"not committed")
        producer.flush(TIMEOUT_S)
        cli = Cli(servers, tmp_path_factory.mktemp("home"))
        cli.ok("config", "set", "group", "workers", "share.auto.offset.reset=earliest")
        reader = ShareConsumer({"bootstrap.servers": servers, "group.id": "workers"})
        reader.subscribe(["orders"])
        wait_for(lambda: reader.poll(POLL_S), "the share group reads", deadline_s=TIMEOUT_S)
        reader.close()
        consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        assert consumer.consume(1, TIMEOUT_S)
        consumer.close()
        found = [scrape(broker) for broker in cluster.brokers.values()]
        cluster.kill(2)  # its replicas are out of sync then
        found.append(
            wait_for(
                lambda: "replica_lag" in (text := scrape(cluster.brokers[1])) and text,
                "broker 1 shows the lag of broker 2",
                deadline_s=TIMEOUT_S,
            )
        )
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
    for text in scrapes:
        promtool(["check", "metrics"], stdin=text, codes=(0, 3))


def test_the_names_in_an_expression_are_found() -> None:
    text = 'sum by (a) (rate(x_total{b="up"}[5m])) / on (c) group_left (d) y:z > 1e3 and 5 * w'
    assert names_in(text) == {"x_total", "y:z", "w"}
