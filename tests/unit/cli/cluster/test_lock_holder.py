"""The process that holds a lock is found, and only that process gets a signal."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.cluster.lock_holder import holder_of, signal_holder

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    (tmp_path / "lock").touch()
    return tmp_path / "lock"


@pytest.fixture
def holder(lock: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.communicate()


def test_the_kernel_names_the_process_that_holds_the_lock(
    lock: Path, holder: subprocess.Popen[str]
) -> None:
    assert holder_of(lock) == holder.pid
    assert signal_holder(lock, holder.pid, signal.SIGTERM)
    assert holder.wait(10) == -signal.SIGTERM
    assert holder_of(lock) is None


def test_a_process_without_the_lock_gets_no_signal(
    lock: Path, holder: subprocess.Popen[str]
) -> None:
    """After the holder has ended, its pid may belong to another process, as this one's here."""
    assert not signal_holder(lock, os.getpid(), signal.SIGKILL)
    holder.kill()
    holder.wait()
    assert not signal_holder(lock, holder.pid, signal.SIGTERM)


def test_a_missing_or_unlocked_file_has_no_holder(lock: Path, tmp_path: Path) -> None:
    assert holder_of(lock) is None
    assert holder_of(tmp_path / "missing") is None
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the other kind of lock names no process
        assert holder_of(lock) is None
