"""`headrace produce` with failed writes: it reports the records, the reason and the successes."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.runtime.environment import Environment
from headrace.cli.records import produce
from headrace.testing import Broker
from support.cli.command import Cli
from support.storage.full_files import FullFiles
from support.waiting import wait_for

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def cli(broker: Broker, tmp_path: Path) -> Cli:
    return Cli(broker.bootstrap_servers, tmp_path)


def test_an_oversized_record_is_reported_with_its_size_and_the_topics_limit(cli: Cli) -> None:
    cli.ok("topic", "create", "big")
    ended = cli("produce", "big", stdin="x" * 3_000_000)
    assert ended.code == 1
    said = "1 record not written: 3,000,000 bytes exceeds max.message.bytes (1,048,588) of topic"
    assert f"headrace: {said} 'big'\n" in ended.stderr


def test_the_topics_size_limit_overrides_the_clients(cli: Cli) -> None:
    cli.ok("topic", "create", "bigger", "-c", "max.message.bytes=5000000")
    cli.ok("produce", "bigger", stdin="x" * 3_000_000)
    cli.ok("topic", "create", "small", "-c", "max.message.bytes=2000")
    assert "wrote 500 records" in cli.ok("produce", "small", stdin="a line of text\n" * 500)
    exact = cli("produce", "small", stdin="x" * 2000)
    assert "bytes exceeds max.message.bytes (2,000) of topic 'small'" in exact.stderr
    compressed = ("--compression", "gzip")
    assert "wrote 1 record" in cli.ok("produce", "small", *compressed, stdin="x" * 10_000)


def test_the_brokers_last_error_is_shown_after_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "MIN_DELIVERY_S", 2.0)
    disk = FullFiles()
    with Broker(world=Environment(files=disk)) as broker:
        cli = Cli(broker.bootstrap_servers, tmp_path)
        cli.ok("topic", "create", "t")
        disk.is_full = True
        try:
            ended = cli("produce", "t", "--timeout", "2", stdin="1\n2\n")
        finally:
            disk.is_full = False
    assert ended.code == 1
    assert (
        "2 records not written: timed out; last broker error: KAFKA_STORAGE_ERROR" in ended.stderr
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_reports_the_records_written(
    broker: Broker, cli: Cli, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    topic = f"interrupted-{number.name}"
    cli.ok("topic", "create", topic)
    with subprocess.Popen(
        [sys.executable, "-m", "headrace", "produce", topic, "-b", broker.bootstrap_servers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        try:
            process.stdin.write(b"1\n2\n")
            process.stdin.flush()
            wait_for(lambda: cli.ok("consume", topic, "-e") == "1\n2\n", "they are written")
            process.send_signal(number)
            assert process.wait(DEADLINE_S) == code
            assert process.stdout is not None
            said = process.stdout.read().decode()
        finally:
            process.kill()
    assert said == f"wrote 2 records to {topic}: partition 0 at 0-1\n"
