"""The drills of docs/guide/failure-drills.md on a real cluster under load: what an operator sees.

Each drill runs the `headrace` commands of its section, and heals the cluster as the page says.
Disks that fill up are in test_cluster_full_disks.py.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.exit_codes import ExitCode
from support.brokers.local_cluster import ClusterUp, children_of
from support.cli.command import Cli, Ended
from support.clients.steady_load import SteadyLoad
from support.waiting import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("java") is None, reason="ZooKeeper needs Java"),
]

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "failure-drills.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PARTITIONS = 6
IDS = (1, 2, 3)
DEADLINE_S = 60.0
SESSION_MS = 3000


class Drill:
    """A cluster, its load, and the commands of the guide."""

    def __init__(self, cluster: ClusterUp, home: Path, load: SteadyLoad) -> None:
        self.cluster = cluster
        self.load = load
        self.cli = Cli(cluster.bootstrap_servers, home)
        self.started: dict[int, subprocess.Popen[str]] = {}

    def pid(self, broker: int) -> int:
        restarted = self.started.get(broker)
        return self.cluster.pid(broker) if restarted is None else restarted.pid

    def log(self, broker: int) -> str:
        return (self.cluster.folder / f"broker-{broker}" / "broker.log").read_text()

    def status(self, code: ExitCode, words: str) -> Ended:
        """Waits for the verdict."""

        def found() -> Ended | None:
            ended = self.cli("cluster", "status", "--timeout", "10")
            return ended if ended.code == code and words in ended.stdout else None

        return wait_for(found, f"the verdict {code.name} with {words!r}", deadline_s=DEADLINE_S)

    def wait_for_acks(self) -> None:
        before = self.load.acked
        wait_for(lambda: self.load.acked > before + 50, "records go on", deadline_s=DEADLINE_S)

    def wait_for_line(self, brokers: list[int], line: str) -> None:
        wait_for(
            lambda: all(line in self.log(broker) for broker in brokers), line, deadline_s=DEADLINE_S
        )

    def heal(self, broker: int) -> None:
        """The lines under *Kill a broker*, for a broker that has ended."""
        for words in commands_under("Kill a broker")[2:]:
            if words[:2] != ["broker", "start"]:
                assert self.cli(*words).code == 0, words
                continue
            config = str(self.cluster.folder / f"broker-{broker}" / "server.properties")
            with (self.cluster.folder / f"broker-{broker}" / "broker.log").open("a") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "headrace", *words[:3], config],
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            self.started[broker] = process
            assert process.stdout is not None
            assert "serves" in process.stdout.readline()

    def close(self) -> None:
        for process in self.started.values():
            process.kill()
            process.communicate()


def commands_under(title: str) -> list[list[str]]:
    """The words after `headrace` of the lines in the section's blocks."""
    text = GUIDE.read_text()
    section = text[text.index(f"## {title}\n") + 3 :]
    section = section[: section.find("\n## ")]
    lines = "".join(BLOCK.findall(section)).splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("headrace ")]


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    home = tmp_path_factory.mktemp("drills")
    settings = {"zookeeper.session.timeout.ms": str(SESSION_MS)}
    with ClusterUp(home / "cluster", settings=settings) as cluster:
        Cli(cluster.bootstrap_servers, home).ok("topic", "create", "orders", "-p", str(PARTITIONS))
        with SteadyLoad(cluster.bootstrap_servers, "orders", PARTITIONS) as load:
            made = Drill(cluster, home, load)
            made.wait_for_acks()
            yield made
        try:
            load.check(cluster.bootstrap_servers)  # nothing lost, nothing doubled
        finally:
            made.close()


@pytest.fixture
def healthy(drill: Drill) -> Drill:
    drill.status(ExitCode.OK, "healthy")
    return drill


def others(broker: int) -> list[int]:
    return [each for each in IDS if each != broker]


def test_a_killed_broker(healthy: Drill) -> None:
    os.kill(healthy.pid(2), signal.SIGKILL)
    healthy.status(ExitCode.DEGRADED, "broker 2 is down")
    healthy.wait_for_acks()
    healthy.wait_for_line([1, 3], "a broker left broker=2")
    assert "its process died (fast failure detection)" in healthy.log(1)
    assert healthy.cli("cluster", "under-replicated").stdout != "none\n"
    healthy.heal(2)
    healthy.status(ExitCode.OK, "healthy")


def test_a_paused_broker(healthy: Drill) -> None:
    os.kill(healthy.pid(3), signal.SIGSTOP)
    try:
        healthy.status(ExitCode.DEGRADED, "broker 3 is down")
        healthy.wait_for_acks()
        healthy.wait_for_line([1, 2], "a broker left broker=3")
        assert "its ZooKeeper session ended" in healthy.log(1) + healthy.log(2)
    finally:
        os.kill(healthy.pid(3), signal.SIGCONT)
    healthy.status(ExitCode.OK, "healthy")


def test_a_lost_controller(healthy: Drill) -> None:
    def controller() -> int | None:
        ended = healthy.cli("cluster", "controller")
        return int(ended.stdout.split()[0]) if ended.code == 0 else None

    first = controller()
    assert first is not None
    os.kill(healthy.pid(first), signal.SIGKILL)
    wait_for(lambda: controller() in others(first), "another controller", deadline_s=DEADLINE_S)
    healthy.wait_for_acks()
    new = controller()
    assert new is not None
    (follower,) = {*IDS} - {first, new}
    healthy.wait_for_line([new], "elected controller")
    healthy.wait_for_line([follower], "the cluster has a new controller")
    healthy.heal(first)
    healthy.status(ExitCode.OK, "healthy")


def test_a_stopped_zookeeper(healthy: Drill) -> None:
    folder = healthy.cluster.folder / "zookeeper"
    (server,) = children_of(folder)
    os.kill(server, signal.SIGSTOP)
    try:
        healthy.status(ExitCode.DEGRADED, "no connection to ZooKeeper")
        healthy.wait_for_line(list(IDS), "the connection to ZooKeeper is lost: leaders serve on")
        created = healthy.cli("topic", "create", "during", "--timeout", "2")
        assert created.code != 0
        healthy.wait_for_acks()
    finally:
        os.kill(server, signal.SIGCONT)
    healthy.wait_for_line(list(IDS), "connected to ZooKeeper again")
    healthy.status(ExitCode.OK, "healthy")


def test_the_page_has_the_drills_that_are_tried_here() -> None:
    for title in ("Kill a broker", "Pause a broker", "Lose the controller", "Stop ZooKeeper"):
        assert commands_under(title)
