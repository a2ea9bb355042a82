"""A pipeline's lag as Kafka's own tool shows it, on Headrace and on Apache Kafka."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.pipeline.application.application import Application, RunSettings
from headrace.pipeline.application.spec_loader import parse_spec
from support.clients.java import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PARTITIONS = 2


def described(servers: str, group: str) -> list[list[str]]:
    """Topic, partition, committed offset, end and lag."""
    out = run(TOOL, "--bootstrap-server", servers, "--describe", "--group", group)
    return sorted(line.split()[1:6] for line in out.splitlines() if line.startswith(group))


def send(servers: str, topic: str, ids: range) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in ids:
        producer.produce(topic, json.dumps({"id": number}), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("broker_of", ["bootstrap", "kafka"])
def test_consumer_group_command_shows_a_pipelines_lag(
    broker_of: str,
    request: pytest.FixtureRequest,
    spark: "SparkSession",
    name: str,
    tmp_path: Path,
) -> None:
    found = request.getfixturevalue(broker_of)
    servers: str = found if isinstance(found, str) else found.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(60)
    send(servers, name, range(10))
    spec = {
        "pipeline": f"p-{name}",
        "source": {"topics": [name], "value": {"format": "json", "schema": "id BIGINT"}},
        "sink": {"format": "delta", "table": str(tmp_path / "table")},
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    settings = RunSettings(kafka={"bootstrap.servers": servers}, until_caught_up=True)
    assert Application(parse_spec(json.dumps(spec)), settings, [], spark=spark).run() == []
    assert described(servers, f"p-{name}") == [
        [name, "0", "5", "5", "0"],
        [name, "1", "5", "5", "0"],
    ]
    send(servers, name, range(3))
    assert described(servers, f"p-{name}") == [
        [name, "0", "5", "7", "2"],
        [name, "1", "5", "6", "1"],
    ]
