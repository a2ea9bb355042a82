"""`headrace demo`: a broker, orders and a pipeline that the demo checks; then it keeps running."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

ORDERS = 400
DEADLINE_S = 60
ADDRESS = re.compile(r"clients connect to +(\S+)")
CHECKED = re.compile(r"([\d,]+) \+ ([\d,]+) = ([\d,]+) orders: each exactly once")


class Demo:
    """The command as a process, and what it prints."""

    def __init__(self, *options: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "demo", "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def screen(self) -> str:
        """The output until the demo waits."""
        assert self.process.stdout is not None
        text = ""
        for each in self.process.stdout:
            text += each
            if "Ctrl-C stops it." in each:
                return text
        pytest.fail(f"it ended: {text}\n{self.process.communicate()[1]}")

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, errors


@pytest.fixture
def started() -> Iterator[list[Demo]]:
    demos: list[Demo] = []
    yield demos
    for demo in demos:
        if demo.process.poll() is None:
            demo.process.terminate()  # not kill: it has a broker to stop
        demo.process.communicate(timeout=DEADLINE_S)


def topics_of(servers: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": servers})
    return set(admin.list_topics(timeout=DEADLINE_S).topics)


@pytest.mark.slow
def test_every_order_is_written_or_dead_lettered_and_the_broker_keeps_running(
    started: list[Demo], tmp_path: Path
) -> None:
    demo = Demo("--data", str(tmp_path / "data"), "--orders", str(ORDERS))
    started.append(demo)
    screen = demo.screen()
    checked = CHECKED.search(screen)
    assert checked is not None
    rows, letters, produced = (int(each.replace(",", "")) for each in checked.groups())
    assert rows + letters == produced == ORDERS
    assert letters > 0
    assert "ExpectationFailed: positive_amount: amount > 0" in screen
    address = ADDRESS.search(screen)
    assert address is not None
    assert {"demo-orders", "demo-orders.dlq"} <= topics_of(address[1])
    assert (tmp_path / "data-demo" / "pipeline.yaml").exists()
    assert demo.stop()[0] == 0


def test_without_java_the_broker_starts_alone_and_says_why(started: list[Demo]) -> None:
    demo = Demo("--ephemeral", JAVA_HOME="/there/is/none")
    started.append(demo)
    address = ADDRESS.search(demo.screen())
    assert address is not None
    assert "demo-orders" not in topics_of(address[1])
    code, errors = demo.stop()
    assert code == 0
    assert errors.startswith("headrace: starting only the broker, without the demo: there is no")
    assert errors.count("\n") == 1
