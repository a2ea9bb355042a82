"""`headrace broker start` under a service manager: output, exit codes, notifications."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.brokers.processes import answers

DEADLINE_S = 30

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started = []

    def run(
        properties: str, *options: str, env: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        config = tmp_path / "server.properties"
        config.write_text(properties)
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "broker", "start", f"--config={config}", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=env,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=DEADLINE_S)


def one_node(tmp_path: Path) -> str:
    return f"node.id=5\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path / 'data'}\n"


def test_the_broker_logs_readiness_in_one_line_and_stops_on_a_signal(
    start: Start, tmp_path: Path
) -> None:
    process = start(one_node(tmp_path))
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "broker 5 serves 127.0.0.1:" in line
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_systemd_is_notified_of_start_and_stop_and_may_reload(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(path))
        systemd.settimeout(DEADLINE_S)
        process = start(one_node(tmp_path), env={"NOTIFY_SOCKET": str(path)})
        assert systemd.recv(100) == b"READY=1"
        process.send_signal(signal.SIGHUP)  # systemctl reload
        assert process.stdout is not None
        assert answers(process.stdout.readline().split()[-1])
        process.terminate()
        assert systemd.recv(100) == b"STOPPING=1"
        process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("node.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\n", "log.dirs"),
        ("log.dirs=d\nzookeeper.connect=z:1\nbroker.id.generation.enable=false\n", "broker.id"),
        ("log.dirs=d\nbroker.id=1\nzookeeper.connect=z:one\n", "zookeeper.connect"),
        ("log.dirs=d\nbroker.id=1\nzookeeper.connect=z:70000\n", "zookeeper.connect"),
        ("log.dirs=d\nbroker.id=1\nzookeeper.connect=z:1/a//b\n", "chroot"),
        (
            "log.dirs=d\nbroker.id=1\nzookeeper.connect=z:1\nheadrace.zookeeper.auth=digest\n",
            "headrace.zookeeper.auth",
        ),
        ("log.dirs=d\nnum.partitions=none\n", "num.partitions"),
        ("log.dirs=d\nlog.dirz=e\n", "log.dirz"),
    ],
)
def test_an_error_in_the_properties_file_is_exit_code_2(
    start: Start, properties: str, words: str
) -> None:
    process = start(properties)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert errors.startswith("headrace: ") and errors.count("\n") == 1
    assert words in errors


def test_a_transient_error_is_exit_code_1(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start(one_node(tmp_path), f"--set=listeners=PLAINTEXT://127.0.0.1:{port}")
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert errors.count("\n") == 1
    assert str(port) in errors


def test_an_unreachable_zookeeper_is_exit_code_1(start: Start, tmp_path: Path) -> None:
    process = start(
        one_node(tmp_path),
        "--set=zookeeper.connect=127.0.0.1:1",
        "--set=zookeeper.connection.timeout.ms=1000",
    )
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert "127.0.0.1:1" in errors


def test_a_missing_file_argument_is_a_usage_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "broker", "start"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 2
    assert "--config" in done.stderr


def test_the_listener_of_a_kraft_controller_is_not_bound(start: Start, tmp_path: Path) -> None:
    """As in Apache Kafka's server.properties, where CONTROLLER is for other controllers only."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = start(
        "process.roles=broker,controller\nnode.id=5\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    assert process.stdout is not None
    assert "broker 5 serves 127.0.0.1:" in process.stdout.readline()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=DEADLINE_S)
    assert "ignoring process.roles: every node is a broker here" in said
    assert "so CONTROLLER is not bound" in said
