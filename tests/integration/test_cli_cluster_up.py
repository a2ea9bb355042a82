"""`headrace cluster up`: three broker processes and a ZooKeeper, from start to cleanup."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from headrace.cluster.java_properties import read_properties
from support.brokers.local_cluster import ClusterUp, children_of
from support.cli.command import Cli
from support.waiting import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("java") is None, reason="ZooKeeper needs Java"),
]

DEADLINE_S = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "cluster"
    yield folder
    wait_for(lambda: not children_of(folder), "nothing is left behind", deadline_s=DEADLINE_S)


def write(servers: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "acks": "all"})
    for number in range(count):
        producer.produce(topic, str(number).encode())
    assert producer.flush(DEADLINE_S) == 0


def test_a_cluster_serves_survives_a_killed_broker_and_stops_cleanly(
    folder: Path, tmp_path: Path
) -> None:
    with ClusterUp(folder) as cluster:
        cli = Cli(cluster.bootstrap_servers, tmp_path)
        cli.ok("topic", "create", "orders", "-p", "6")
        write(cluster.bootstrap_servers, "orders", 100)
        facts = json.loads(cli.ok("cluster", "status", "--format", "json"))
        assert (facts["live_brokers"], facts["under_replicated"]) == (3, 0)

        cluster.kill(2)
        died = cluster.wait_for_event(
            lambda event: event.get("broker") == 2 and event.get("state") == "dead",
            "the death is shown",
        )
        assert died["ended"] == "killed by SIGKILL"
        assert died["lines"]
        wait_for(
            lambda: cli("cluster", "under-replicated", "orders").stdout != "none\n",
            "the others have noticed",
            deadline_s=DEADLINE_S,
        )
        write(cluster.bootstrap_servers, "orders", 100)
        assert len(cli.ok("consume", "orders", "-e").splitlines()) == 200

        second = subprocess.run(
            [sys.executable, "-m", "headrace", "cluster", "up", "--data", str(folder)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert second.returncode == 1
        assert "runs in" in second.stderr

        assert cluster.stop() == 0
        assert cluster.events[-1]["event"] == "stopped"
        assert not (folder / "cluster.json").exists()
        for broker in (1, 3):
            assert (folder / f"broker-{broker}" / "data" / ".kafka_cleanshutdown").exists()

    with ClusterUp(folder) as cluster:
        cli = Cli(cluster.bootstrap_servers, tmp_path)
        assert cli.ok("cluster", "under-replicated", "--wait", "60") == "none\n"
        assert len(cli.ok("consume", "orders", "-e").splitlines()) == 200


def test_with_restart_a_killed_broker_is_restarted(folder: Path, tmp_path: Path) -> None:
    with ClusterUp(folder, "--restart") as cluster:
        before = cluster.pid(1)
        cluster.kill(1)
        wait_for(
            lambda: (
                next(e["pid"] for e in cluster.state["brokers"] if e["id"] == 1)
                not in (None, before)
            ),
            "another process",
            deadline_s=DEADLINE_S,
        )
        cli = Cli(cluster.bootstrap_servers, tmp_path)
        wait_for(
            lambda: (
                json.loads(cli("cluster", "status", "--format", "json").stdout)["live_brokers"] == 3
            ),
            "it is back",
            deadline_s=DEADLINE_S,
        )


def test_no_process_outlives_a_killed_command(folder: Path) -> None:
    with ClusterUp(folder, "--console") as cluster:
        started = cluster.wait_for_event(lambda event: event["event"] == "console", "the console")
        console = str(started["url"])
        wait_for(lambda: _answers(console), "the console serves", deadline_s=DEADLINE_S)
        pids = [cluster.pid(broker) for broker in (1, 2, 3)]
        cluster.process.send_signal(signal.SIGKILL)
        cluster.process.wait(DEADLINE_S)
        for pid in pids:
            wait_for(lambda: not _lives(pid), "it ends", deadline_s=DEADLINE_S)  # noqa: B023
        wait_for(lambda: not _answers(console), "the console ends", deadline_s=DEADLINE_S)


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=DEADLINE_S) as answer:
            return b"Headrace" in answer.read()
    except (URLError, ConnectionError):
        return False


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def start_broker(config: Path, *settings: str) -> subprocess.Popen[str]:
    """`headrace broker start`; returns when the broker serves."""
    given = [f"--set={setting}" for setting in settings]
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", "broker", "start", "--config", str(config), *given],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline()
    assert "serves" in line, line
    return process


def test_shutdown_stops_one_broker_or_all(folder: Path, tmp_path: Path) -> None:
    with ClusterUp(folder) as cluster:
        cli = Cli(cluster.bootstrap_servers, tmp_path)
        assert cli("cluster", "shutdown", "--data", str(folder), "--broker", "9").code == 4
        assert (
            cli("cluster", "shutdown", "--data", str(folder), "--broker", "3", "--execute").code
            == 0
        )
        cluster.wait_for_event(
            lambda event: event.get("broker") == 3 and event.get("state") == "stopped",
            "it is shown as stopped",
        )
        down = cli("cluster", "shutdown", "--data", str(folder), "--broker", "3", "--execute")
        assert (down.code, down.stderr) == (1, "headrace: broker 3 is not running\n")

        # `broker start` starts it again, and then the fourth broker of the guide.
        config = folder / "broker-3" / "server.properties"
        restarted = start_broker(config)
        stop = cli("cluster", "shutdown", "--data", str(folder), "--broker", "3", "--execute")
        assert (stop.code, stop.stderr) == (0, "headrace: stopped broker 3\n")
        assert restarted.wait(DEADLINE_S) == 0
        restarted = start_broker(config)
        data = folder / "broker-4" / "data"
        fourth = start_broker(
            config, "node.id=4", f"log.dirs={data}", "listeners=PLAINTEXT://127.0.0.1:0"
        )
        joined = cluster.wait_for_event(
            lambda event: event.get("broker") == 4 and event.get("state") != "fenced",
            "the broker that joined is shown",
        )
        assert joined["state"] == "up, started elsewhere"
        plan = cli("cluster", "shutdown", "--data", str(folder))
        started_by = [line.split()[0:1] + line.split()[2:] for line in plan.stdout.splitlines()[1:]]
        assert started_by == [
            *(["1", "cluster", "up"], ["2", "cluster", "up"]),
            *(["3", "broker", "start"], ["4", "broker", "start"]),
        ]
        assert cli("cluster", "shutdown", "--data", str(folder), "--execute").code == 0
        for process in (restarted, fourth):
            assert process.wait(DEADLINE_S) == 0  # it handed over while ZooKeeper ran
        assert cluster.process.wait(DEADLINE_S) == 0
    gone = cli("cluster", "shutdown", "--data", str(folder))
    assert gone.code == 4
    assert str(folder) in gone.stderr


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--set", "node.id=7"], 2, "node.id"),
        (["--set", "num.partitions=many"], 2, "num.partitions"),
        (["--port", "65535"], 2, "65535"),
        (["--ephemeral", "--data", "x"], 2, "--ephemeral"),
    ],
)
def test_an_invalid_argument_is_reported_in_one_sentence(
    tmp_path: Path, options: list[str], code: int, words: str
) -> None:
    ended = Cli("", tmp_path)("cluster", "up", *options)
    assert ended.code == code
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_port_in_use_is_reported_in_one_sentence_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = Cli("", tmp_path)(
            "cluster", "up", "--port", str(port), "--data", str(tmp_path / "c")
        )
    assert ended.code == 1
    assert str(port) in ended.stderr and "--port" in ended.stderr
    assert not (tmp_path / "c").exists()


def test_a_cluster_in_which_no_broker_starts_exits_with_the_reason(folder: Path) -> None:
    """Without this the command would run endlessly with no broker to serve requests."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    options = ["--port", "0", "--data", str(folder), "--zookeeper", f"127.0.0.1:{nobody}"]
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "headrace", "cluster", "up", "--brokers", "2", *options),
            "--set=zookeeper.connection.timeout.ms=500",
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(
        "headrace: no broker started; broker 1: no answer from ZooKeeper"
    )
    assert str(folder / "broker-1") in ended.stderr


def test_without_kazoo_the_error_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cli.cluster.local_cluster.find_spec", lambda name: None)
    ended = Cli("", tmp_path)("cluster", "up", "--data", str(tmp_path / "c"))
    assert ended.code == 1
    assert "headrace[cluster]" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_without_java_the_error_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = Cli("", tmp_path)("cluster", "up", "--data", str(tmp_path / "c"))
    assert ended.code == 1
    assert "Java 11" in ended.stderr and "--zookeeper" in ended.stderr
    assert not (tmp_path / "c").exists()


def test_a_secured_cluster_serves_only_its_users_and_keeps_them_over_a_restart(
    folder: Path, tmp_path: Path
) -> None:
    with ClusterUp(folder, "--secure") as cluster:
        profile = folder / "security" / "client.properties"
        starting = cluster.wait_for_event(lambda event: event["event"] == "starting", "the start")
        assert starting["client_settings"] == str(profile)
        cli = Cli("", tmp_path)
        named = ("--profile", str(profile))
        cli.ok("topic", "create", "orders", "-p", "3", *named)
        cli.ok("produce", "orders", "-v", "hello", *named)
        assert cli.ok("consume", "orders", "-e", *named) == "hello\n"
        facts = json.loads(cli.ok("cluster", "status", "--format", "json", *named))
        assert (facts["live_brokers"], facts["under_replicated"]) == (3, 0)
        plain = cli("topic", "list", "-b", cluster.bootstrap_servers, "--timeout", "2")
        assert plain.code == 5
    assert cluster.process.returncode == 0
    password = read_properties(profile.read_text())["sasl.password"]
    assert password not in json.dumps(cluster.events)
    files = [path for path in folder.rglob("*") if path.is_file()]
    holders = [path for path in files if password.encode() in path.read_bytes()]
    assert {path.parent for path in holders} == {folder / "security"}
    assert not [path for path in holders if path.stat().st_mode & 0o077]
    with ClusterUp(folder, "--secure"):
        assert cli.ok("consume", "orders", "-e", *named) == "hello\n"
    ended = cli("cluster", "up", "--data", str(folder), "--port", "0")
    assert ended.code == 1
    assert "--secure" in ended.stderr
