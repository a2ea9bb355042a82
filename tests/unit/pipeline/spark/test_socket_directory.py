"""Sockets between Java and Python: the next session removes those of a killed one."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.spark.socket_directory import (
    PREFIX,
    create_socket_directory,
    remove_unlocked_directories,
)

START_TIMEOUT_S = 60
HOLDER = """
import sys
from pathlib import Path
from headrace.pipeline.spark.socket_directory import create_socket_directory
home = create_socket_directory(Path(sys.argv[1]))
(home / ".a.sock").touch()
print(home, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def parent(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("headrace.pipeline.spark.socket_directory.MAX_DIRECTORY_BYTES", 1000)
    return tmp_path_factory.mktemp("s")


def holder(parent: Path) -> "subprocess.Popen[str]":
    limit = "import headrace.pipeline.spark.socket_directory as s; s.MAX_DIRECTORY_BYTES = 1000"
    return subprocess.Popen(
        [sys.executable, "-c", limit + HOLDER, str(parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_only_directories_of_dead_processes_are_removed(
    parent: Path,
) -> None:
    with holder(parent) as living, holder(parent) as killed:
        assert living.stdin is not None
        assert living.stdout is not None
        assert killed.stdout is not None
        kept, left = Path(living.stdout.readline().strip()), Path(killed.stdout.readline().strip())
        killed.send_signal(signal.SIGKILL)
        killed.wait(START_TIMEOUT_S)
        assert (left / ".a.sock").exists()
        remove_unlocked_directories(parent)
        assert not left.exists()
        assert (kept / ".a.sock").exists()
        living.stdin.close()
        living.wait(START_TIMEOUT_S)
    assert not kept.exists()  # a normal exit removes the directory


def test_a_similar_directory_without_a_lock_is_kept(parent: Path) -> None:
    other = parent / f"{PREFIX}of-somebody"
    other.mkdir()
    remove_unlocked_directories(parent)
    assert other.exists()


def test_a_socket_path_that_is_too_long_disables_the_directory(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60)
    deep.mkdir()
    assert create_socket_directory(deep) is None
    assert list(deep.iterdir()) == []


def test_an_unwritable_location_disables_the_directory(tmp_path: Path) -> None:
    assert create_socket_directory(tmp_path / "missing") is None
