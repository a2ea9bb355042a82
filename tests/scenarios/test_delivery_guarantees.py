"""Consumers killed at the worst moment: at most once, at least once or exactly once."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.clients.librdkafka import DEADLINE_S, MakeSender, ReadAll
from support.wire.topics import MakeTopic

WORKER = Path(__file__).parent / "worker.py"
VALUES = [b"0", b"1", b"2", b"3", b"last"]

# The worker is killed between the two steps of its work on record 2.
EXPECTED = {
    "at-most-once": [b"0", b"1", b"3", b"last"],
    "at-least-once": [b"0", b"1", b"2", b"2", b"3", b"last"],
    "exactly-once": VALUES,
}


@pytest.mark.parametrize("guarantee", list(EXPECTED))
def test_a_consumer_that_is_killed_keeps_its_guarantee(
    bootstrap: str,
    group: str,
    make_topic: MakeTopic,
    sender: MakeSender,
    read_all: ReadAll,
    guarantee: str,
) -> None:
    # Invariant: commit first and nothing is done twice; work first and nothing is lost; both in
    # one transaction, and readers of committed records see each result once.
    source, target = make_topic(), make_topic()
    one = sender()
    one.send(source, *VALUES)
    one.finish()

    def work(crash_at: str) -> int:
        command = [sys.executable, str(WORKER), guarantee, bootstrap, group, source, target]
        return subprocess.run([*command, crash_at], timeout=DEADLINE_S, check=False).returncode

    assert work(crash_at="2") == -signal.SIGKILL
    assert work(crash_at="never") == 0
    assert read_all(target) == EXPECTED[guarantee]
