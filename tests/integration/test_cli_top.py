"""`headrace top` on real brokers, through Kafka's protocol, on a terminal and in a pipe."""

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from headrace.testing import Broker, Cluster
from support.brokers.processes import free_port
from support.cli.command import Cli
from support.cli.terminal import Terminal

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as cluster:
        cluster.headrace.create_topic("orders", partitions=2)
        cluster.headrace.create_topic("quiet")
        stopping = threading.Event()
        producing = threading.Thread(target=produce, args=(cluster.bootstrap_servers, stopping))
        producing.start()
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["orders"])
        assert consumer.consume(1, TIMEOUT_S)
        consumer.commit(asynchronous=False)
        yield cluster
        consumer.close()
        stopping.set()
        producing.join()


def produce(servers: str, stopping: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": servers})
    while not stopping.wait(0.01):
        producer.produce("orders", b"x" * 100)
        producer.poll(0)
    producer.flush(TIMEOUT_S)


def test_all_views_are_printed_once(cluster: Cluster, tmp_path: Path) -> None:
    cli = Cli(cluster.bootstrap_servers, tmp_path)
    facts = json.loads(cli.ok("top", "--once", "--interval", "0.5", "--format", "json"))
    topics = {each["topic"]: each for each in facts["topics"]}
    assert topics["orders"]["records_per_s"] > 10
    assert topics["orders"]["bytes_in_per_s"] > 1000
    assert topics["quiet"]["records_per_s"] == 0
    assert sum(each["records_per_s"] for each in facts["brokers"]) > 10
    (group,) = facts["groups"]
    assert (group["group"], group["state"]) == ("billing", "Stable")
    assert group["lag"] >= 0
    text = cli.ok("top", "groups", "--once", "--interval", "0.1")
    assert text.splitlines()[0].split()[:2] == ["GROUP", "TYPE"]
    assert text.splitlines()[1].startswith("billing")


def test_with_metrics_the_times_of_requests_are_shown(tmp_path: Path) -> None:
    """The port wants a login; without one, the command says so and uses Kafka's protocol."""
    token = tmp_path / "token"
    token.write_text("secret-token\n")
    settings = {
        "headrace.http.listener": f"http://127.0.0.1:{free_port()}",
        "headrace.http.authentication": "bearer",
        "headrace.http.bearer.token.file": str(token),
    }
    with Broker(settings=settings) as broker:
        cli = Cli(broker.bootstrap_servers, tmp_path)
        cli.ok("produce", "orders", "-v", "one")
        cli.ok("consume", "orders", "-g", "billing", "-e")
        words = ("top", "--once", "--interval", "0.2", "--format", "json")
        allowed = cli(*words, env={"HEADRACE_HTTP_BEARER_TOKEN": "secret-token"})
        refused = cli(*words)
        unasked = cli(*words, "--no-metrics")
    assert (allowed.stderr, unasked.stderr) == ("", "")
    assert refused.stderr.startswith("headrace: broker 1 refused its metrics: 401 Unauthorized; ")
    facts, without = json.loads(allowed.stdout), json.loads(unasked.stdout)
    assert json.loads(refused.stdout)["requests"] == []
    produce = next(each for each in facts["requests"] if each["request"] == "Produce")
    assert produce["p99_ms"] > 0
    assert facts["brokers"][0]["requests_per_s"] > 0
    (group,) = facts["groups"]
    assert (group["group"], group["lag"], group["lag_s"]) == ("billing", 0, 0)
    assert without["requests"] == []
    assert without["groups"][0]["lag_s"] is None


def test_on_a_terminal_keys_switch_views_and_q_ends(cluster: Cluster) -> None:
    words = ["top", "--interval", "0.2", "-b", cluster.bootstrap_servers]
    terminal = Terminal([sys.executable, "-m", "headrace", *words])
    try:
        terminal.wait_for("RECORDS/S*")
        terminal.wait_for("2 of 2 brokers up")
        terminal.type(b"3")
        terminal.wait_for("billing")
        terminal.type(b"q")
        assert terminal.ended() == 0
        assert "\x1b[?1049l" in terminal.raw  # the screen before is shown again
    finally:
        terminal.close()
