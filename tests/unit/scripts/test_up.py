"""`script/up` is the demo, or the broker alone; what else it is told goes to the command."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A tree in which `headrace` prints what it is told, and nothing is installed."""
    shutil.copytree(ROOT / "script" / "lib", tmp_path / "script" / "lib")
    shutil.copy(ROOT / "script" / "up", tmp_path / "script" / "up")
    stubs = {
        "script/bootstrap": "exit 0",
        ".venv/bin/headrace": 'printf "%s|" "$@"',
        "bin/java": "exit 0",
    }
    for name, body in stubs.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "demo|--console|"),
        (["--no-console"], "demo|"),
        (["--port", "0", "--orders", "5"], "demo|--console|--port|0|--orders|5|"),
        (["--broker-only"], "up|--console|"),
        (["--broker-only", "--data", "a b"], "up|--console|--data|a b|"),
        (["--ephemeral", "--broker-only"], "up|--console|--ephemeral|"),
    ],
)
def test_the_words_reach_the_command(checkout: Path, words: list[str], told: str) -> None:
    done = subprocess.run(
        [checkout / "script" / "up", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")
