"""`headrace up --secure`: its files over restarts, and the options that it excludes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.cluster.java_properties import read_properties
from support.cli.command import Cli

DEADLINE_S = 60
Lines = list[str]


@contextmanager
def up(*options: str) -> Iterator[Lines]:
    """What the broker printed when it was ready."""
    command = [sys.executable, "-m", "headrace", "up", "--secure", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed: Lines = []
    for line in process.stdout:
        printed.append(line)
        if line.startswith("Ctrl-C"):
            break
    else:
        raise AssertionError(process.communicate(timeout=DEADLINE_S)[1])
    try:
        yield printed
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0
        assert all(" INFO login " in line for line in errors.splitlines()), errors


def test_users_and_certificates_outlive_a_restart_and_a_lost_password_is_replaced(
    tmp_path: Path,
) -> None:
    security = tmp_path / "data" / "security"
    profile = security / "client.properties"
    cli = Cli("", tmp_path)
    named = ("--profile", str(profile))
    with up("--data", str(tmp_path / "data")):
        cli.ok("topic", "create", "orders", *named)
        ca, password = (security / "ca.pem").read_bytes(), read_properties(profile.read_text())
    with up("--data", str(tmp_path / "data")):
        cli.ok("topic", "list", *named)
        again = read_properties(profile.read_text())
        assert (security / "ca.pem").read_bytes() == ca
        assert again["sasl.password"] == password["sasl.password"]
    profile.unlink()
    with up("--data", str(tmp_path / "data")):
        assert "orders" in cli.ok("topic", "list", *named)
        assert read_properties(profile.read_text())["sasl.password"] != password["sasl.password"]


def test_an_ephemeral_broker_leaves_no_secrets_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with up("--ephemeral") as printed:
        (profile,) = tmp_path.glob("*/security/client.properties")
        assert any(str(profile) in line for line in printed)
        Cli("", tmp_path / "home").ok("topic", "create", "orders", "--profile", str(profile))
    assert not list(tmp_path.glob("headrace-*"))


def test_it_chooses_the_listener_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "headrace", "up", "--secure", "--data", str(tmp_path)),
            *("--set", "listeners=PLAINTEXT://:9092"),
        ],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 1
    assert "--secure chooses the listener" in done.stderr
    assert not list(tmp_path.iterdir())
