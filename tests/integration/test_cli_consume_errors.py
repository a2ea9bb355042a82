"""`headrace consume` with cluster errors: it continues, or reports why it stops."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.runtime.environment import Environment
from headrace.testing import Broker
from support.cli.command import Cli
from support.storage.full_files import FullFiles
from support.waiting import wait_for

DEADLINE_S = 60.0
NO_AUTO_COMMIT = "auto.commit.interval.ms=60000"  # offsets are committed only at the end


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def cli(broker: Broker, tmp_path: Path) -> Cli:
    return Cli(broker.bootstrap_servers, tmp_path)


def test_a_failed_group_join_reports_the_brokers_error(tmp_path: Path) -> None:
    disk = FullFiles()
    with Broker(world=Environment(files=disk)) as broker:
        cli = Cli(broker.bootstrap_servers, tmp_path)
        cli.ok("produce", "t", "-v", "x")
        disk.is_full = True
        try:
            ended = cli("consume", "t", "-g", "g", "--timeout", "2")
        finally:
            disk.is_full = False
    assert ended.code == 1
    assert "group 'g' assigned no partitions within 2 s" in ended.stderr
    assert "last broker error: NOT_COORDINATOR (Not coordinator)" in ended.stderr


def test_a_failed_offset_commit_is_reported_within_the_timeout(
    tmp_path: Path,
) -> None:
    disk = FullFiles()
    with Broker(world=Environment(files=disk)) as broker:
        cli = Cli(broker.bootstrap_servers, tmp_path)
        cli.ok("produce", "t", stdin="1\n2\n")
        tail = Tail(broker, tmp_path, "t", "-g", "g", "--timeout", "3", "-X", NO_AUTO_COMMIT)
        try:
            tail.wait_for("1", "2")
            disk.is_full = True
            tail.process.send_signal(signal.SIGINT)
            assert tail.process.wait(DEADLINE_S) == 130
        finally:
            disk.is_full = False
            tail.process.kill()
            tail.process.wait()
    assert "the last offsets of group 'g' were not committed" in tail.said


class Tail:
    """`headrace consume` in a separate process with its output in files."""

    def __init__(self, broker: Broker, folder: Path, *words: str) -> None:
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "headrace",
                    "consume",
                    *words,
                    "-b",
                    broker.bootstrap_servers,
                ],
                stdout=out,
                stderr=err,
            )

    @property
    def lines(self) -> list[str]:
        return self._out.read_text().splitlines()

    @property
    def said(self) -> str:
        return self._err.read_text()

    def wait_for(self, *lines: str) -> None:
        wait_for(lambda: self.lines == list(lines), f"{lines}, not {self.lines}: {self.said}")


@pytest.mark.parametrize("group", [(), ("-g", "g")], ids=["alone", "in a group"])
def test_a_recreated_topic_is_read_from_its_beginning(
    broker: Broker, cli: Cli, tmp_path: Path, group: tuple[str, ...]
) -> None:
    """The first offsets of the new topic also existed in the old topic; a partition is new."""
    new = ["a", "b", "c", "d", "e"]
    cli.ok("topic", "create", "t")
    cli.ok("produce", "t", stdin="1\n2\n3\n")
    tail = Tail(broker, tmp_path, "t", *group)
    try:
        tail.wait_for("1", "2", "3")
        cli.ok("topic", "delete", "t", "--execute")
        wait_for(lambda: "'t' was deleted; waiting" in tail.said, f"it says so: {tail.said}")
        cli.ok("topic", "create", "t", "-p", "2" if group else "1")
        cli.ok("produce", "t", "-p", "0", stdin="".join(f"{line}\n" for line in new))
        if group:
            cli.ok("produce", "t", "-p", "1", "-v", "in the new partition")
            new.append("in the new partition")
        wait_for(lambda: "created again" in tail.said, f"it says so: {tail.said}")
        wait_for(lambda: set(new) <= set(tail.lines), f"all records: {tail.lines}")
        cli.ok("produce", "t", "-v", "last")
        wait_for(lambda: tail.lines[-1] == "last", "it goes on")
    finally:
        tail.process.kill()
        tail.process.wait()
