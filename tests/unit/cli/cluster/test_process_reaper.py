"""Processes end when the command that started them is killed, in their order."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.cluster.process_reaper import ProcessIdentity, identify, lives, stop_all
from support.waiting import wait_for

CHILD = """
import signal, sys, time

def end(*_):
    with open(sys.argv[1], "a") as order:
        order.write(sys.argv[2] + chr(10))
    sys.exit()

signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(600)
"""

COMMAND = """
import subprocess, sys, time
from headrace.cli.cluster.process_reaper import ProcessReaper

reaper = ProcessReaper()
reaper.remove(sys.argv[1])
for name, tell in (("first", reaper.first), ("last", reaper.last)):
    child = subprocess.Popen(
        [sys.executable, "-c", sys.argv[3], sys.argv[2], name], stdout=subprocess.PIPE
    )
    child.stdout.readline()
    tell(child.pid)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_children_end_in_order_and_the_directory_goes_when_the_command_is_killed(
    tmp_path: Path,
) -> None:
    folder, order = tmp_path / "ephemeral", tmp_path / "order"
    (folder / "data").mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(folder), str(order), CHILD],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line == "ready\n":
                break
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    wait_for(lambda: not folder.exists(), "the directory is gone", deadline_s=60)
    assert order.read_text().split() == ["first", "last"]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="start times come from /proc")
def test_a_process_that_got_the_pid_of_a_dead_one_receives_no_signal(
    child: subprocess.Popen[bytes],
) -> None:
    dead = ProcessIdentity(child.pid, start_time="1")
    assert not lives(dead)
    stop_all([dead], patience_s=0)
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(60) == 0, "it ended by itself, at the end of its input"


def test_a_watched_process_is_stopped(child: subprocess.Popen[bytes]) -> None:
    process = identify(child.pid)
    assert lives(process)
    stop_all([process], patience_s=0)
    assert child.wait(60) in {-signal.SIGTERM, -signal.SIGKILL}
    assert not lives(process)
