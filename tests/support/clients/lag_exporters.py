"""Other people's exporters of consumer lag, as processes on this machine."""

import json
import os
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 10.0
END_S = 10.0

Lags = dict[tuple[str, str, int], int]
"""The lag by group, topic and partition."""


def program(variable: str) -> str:
    """The program that an environment variable names; skips the test without it."""
    found = os.environ.get(variable)
    if not found:
        pytest.skip(f"{variable} names no program")
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], home: Path, **environment: str) -> Iterator[None]:
    with (home / "out.txt").open("wb") as out:
        process = subprocess.Popen(
            command, cwd=home, env=os.environ | environment, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def read(url: str) -> str:
    """The body; empty while the program does not answer yet."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as got:
            body: str = got.read().decode()
            return body
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return ""


def lags_in(text: str, name: str, labels: tuple[str, str, str]) -> Lags:
    """The series `name` of a scrape; `labels` are those of group, topic and partition."""
    lags: Lags = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name:
                group, topic, partition = (sample.labels[label] for label in labels)
                lags[group, topic, int(partition)] = int(sample.value)
    return lags


class KafkaExporter:
    """github.com/danielqsj/kafka_exporter"""

    def __init__(self, servers: list[str], home: Path) -> None:
        self.port = free_port()
        named = [f"--kafka.server={server}" for server in servers]
        listen = f"--web.listen-address=127.0.0.1:{self.port}"
        command = [program("HEADRACE_KAFKA_EXPORTER"), listen, "--refresh.metadata=1s", *named]
        self.run = running(command, home)

    def lags(self, groups: Collection[str]) -> Lags:
        text = read(f"http://127.0.0.1:{self.port}/metrics")
        labels = ("consumergroup", "topic", "partition")
        return lags_in(text, "kafka_consumergroup_lag", labels)


class KMinion:
    """github.com/redpanda-data/kminion"""

    def __init__(self, servers: list[str], home: Path) -> None:
        self.port = free_port()
        config = home / "kminion.json"
        config.write_text(
            json.dumps(
                {
                    "kafka": {"brokers": servers},
                    "minion": {"logDirs": {"enabled": False}},
                    "exporter": {"host": "127.0.0.1", "port": self.port},
                }
            )
        )
        self.run = running([program("HEADRACE_KMINION")], home, CONFIG_FILEPATH=str(config))

    def lags(self, groups: Collection[str]) -> Lags:
        text = read(f"http://127.0.0.1:{self.port}/metrics")
        name = "kminion_kafka_consumer_group_topic_partition_lag"
        return lags_in(text, name, ("group_id", "topic_name", "partition_id"))


class Burrow:
    """github.com/linkedin/Burrow"""

    def __init__(self, servers: list[str], home: Path) -> None:
        self.port = free_port()
        listed = json.dumps(servers)
        (home / "burrow.toml").write_text(f"""\
[zookeeper]
servers = ["127.0.0.1:{free_port()}"]
root-path = "/burrow"
[client-profile.test]
client-id = "burrow"
kafka-version = "2.8.0"
[cluster.local]
class-name = "kafka"
servers = {listed}
client-profile = "test"
topic-refresh = 1
offset-refresh = 1
[consumer.local]
class-name = "kafka"
cluster = "local"
servers = {listed}
client-profile = "test"
start-latest = false
[httpserver.default]
address = "127.0.0.1:{self.port}"
[storage.default]
class-name = "inmemory"
intervals = 2
min-distance = 1
""")
        self.run = running([program("HEADRACE_BURROW"), "--config-dir", str(home)], home)

    def lags(self, groups: Collection[str]) -> Lags:
        lags: Lags = {}
        for group in groups:
            url = f"http://127.0.0.1:{self.port}/v3/kafka/local/consumer/{group}/lag"
            status: dict[str, Any] = json.loads(read(url) or "{}").get("status", {})
            for each in status.get("partitions") or ():
                lags[group, each["topic"], each["partition"]] = each["current_lag"]
        return lags


Exporter = KafkaExporter | KMinion | Burrow
