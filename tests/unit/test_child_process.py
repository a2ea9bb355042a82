"""A child process ends after a signal, even if it is stopped or ignores the signal."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headrace.child_process import end_process

DEADLINE_S = 60
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); input()"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_it_ends_after_sigterm(child: subprocess.Popen[bytes]) -> None:
    end_process(child, DEADLINE_S)
    assert child.returncode == -signal.SIGTERM


def test_a_stopped_process_ends_too(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGSTOP)
    end_process(child, DEADLINE_S)
    assert child.returncode == -signal.SIGTERM


def test_a_process_that_ignores_the_signal_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DEAF], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        end_process(child, patience_s=0)
        assert child.returncode == -signal.SIGKILL


def test_a_process_that_has_ended_keeps_its_exit_code(child: subprocess.Popen[bytes]) -> None:
    child.communicate(timeout=DEADLINE_S)
    end_process(child, DEADLINE_S)
    assert child.returncode == 0
