"""The commands of docs/guide/clusters.md, run under load, lose and duplicate nothing."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.brokers.local_cluster import ClusterUp
from support.brokers.processes import free_port
from support.cli.command import Cli
from support.clients.steady_load import SteadyLoad
from support.waiting import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("java") is None, reason="ZooKeeper needs Java"),
]

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "clusters.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PARTITIONS = 6
DEADLINE_S = 120.0
WAIT_S = 60.0

Run = Callable[[list[str]], str]


def commands_under(title: str) -> list[list[str]]:
    """The words after `headrace` of each line in the section's blocks."""
    text = GUIDE.read_text()
    section = text[text.index(f"## {title}\n") + 3 :]
    section = section[: section.find("\n## ")]
    lines = "".join(BLOCK.findall(section)).splitlines()
    return [shlex.split(line)[1:] for line in lines]


class Follower:
    """Runs the guide's lines against the cluster of the test."""

    def __init__(self, cluster: ClusterUp, home: Path) -> None:
        self._cluster = cluster
        self._cli = Cli(cluster.bootstrap_servers, home)
        self._home = home
        self.started: list[subprocess.Popen[str]] = []

    def run(self, words: list[str], *, broker: int = 1, fourth_port: int = 9095) -> str:
        told = [self._here(word, broker, fourth_port) for word in words]
        if told[:2] == ["broker", "start"]:
            return self._start(told)
        if told[:2] == ["produce", "orders"]:  # its stdin is a file of the reader's
            return self._cli.ok("produce", "orders", stdin="a\nb\nc\n")
        ended = self._cli(*told)
        assert ended.code == 0, ended
        return ended.stdout

    def _here(self, word: str, broker: int, fourth_port: int) -> str:
        word = word.replace("./cluster", str(self._cluster.folder))
        word = word.replace("back.json", str(self._home / "back.json"))
        word = word.replace("127.0.0.1:9095", f"127.0.0.1:{fourth_port}")
        if "broker-4" not in word and fourth_port == 9095:
            word = word.replace("broker-1", f"broker-{broker}")
            return str(broker) if word == "1" else word
        return word

    def _start(self, words: list[str]) -> str:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "serves" in line, line
        return line

    def stop(self) -> None:
        for process in self.started:
            process.terminate()
        for process in self.started:
            process.communicate(timeout=DEADLINE_S)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterUp]:
    with ClusterUp(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
def follower(cluster: ClusterUp, tmp_path: Path) -> Iterator[Follower]:
    follower = Follower(cluster, tmp_path)
    yield follower
    follower.stop()


def test_the_first_steps_work_as_printed(follower: Follower, cluster: ClusterUp) -> None:
    up, *rest = commands_under("Start a cluster on this machine")
    assert up[:2] == ["cluster", "up"]
    outputs = [follower.run(words) for words in rest]
    assert "orders" in outputs[-1]


def test_a_rolling_restart_neither_loses_nor_duplicates_records(
    follower: Follower, cluster: ClusterUp, tmp_path: Path
) -> None:
    cli = Cli(cluster.bootstrap_servers, tmp_path)
    cli.ok("topic", "create", "orders", "-p", str(PARTITIONS))
    lines = commands_under("Rolling restart")
    steps, after = lines[:4], lines[4:]
    assert steps[1][:2] == ["cluster", "shutdown"]
    last = int(cli.ok("cluster", "controller").split()[0])
    order = sorted((1, 2, 3), key=lambda broker: broker == last)
    with SteadyLoad(cluster.bootstrap_servers, "orders", PARTITIONS) as load:
        for broker in order:
            wait_for_more(load)
            for words in steps:
                follower.run(words, broker=broker)
        for words in after:
            follower.run(words)
        wait_for_more(load)
    load.check(cluster.bootstrap_servers)
    facts = json.loads(cli.ok("cluster", "leaders", "orders", "--format", "json"))
    assert all(each["leader"] == each["preferred"] for each in facts["partitions"])


def test_a_joining_broker_receives_partitions_under_load(
    follower: Follower, cluster: ClusterUp, tmp_path: Path
) -> None:
    cli = Cli(cluster.bootstrap_servers, tmp_path)
    cli.ok("topic", "create", "orders", "-p", str(PARTITIONS))
    lines = commands_under("Add or remove a broker")
    port = free_port()
    with SteadyLoad(cluster.bootstrap_servers, "orders", PARTITIONS) as load:
        wait_for_more(load)
        for words in lines:
            follower.run(words, fourth_port=port)
        wait_for_more(load)
    load.check(cluster.bootstrap_servers)
    facts = json.loads(cli.ok("cluster", "brokers", "--format", "json"))
    assert [each["id"] for each in facts] == [1, 2, 3, 4]
    described = json.loads(cli.ok("topic", "describe", "orders", "--format", "json"))[0]
    held = [broker for each in described["partitions"] for broker in each["replicas"]]
    assert held.count(4) in (4, 5)
    assert any(each["leader"] == 4 for each in described["partitions"])
    assert cli.ok("cluster", "under-replicated", "--wait", "60") == "none\n"


def wait_for_more(load: SteadyLoad) -> None:
    before = load.acked
    wait_for(lambda: load.acked > before + 500, "records are acknowledged", deadline_s=WAIT_S)
