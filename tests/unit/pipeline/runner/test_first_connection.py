"""A wrong address ends a run within seconds, with one sentence, before Spark starts."""

import json
import socket
import time
from pathlib import Path

import pytest

from headrace.cli.exit_codes import ExitCode
from headrace.pipeline.application import application
from headrace.pipeline.runner import first_connection
from support.cli.command import Cli

SPEC = """
pipeline: orders_to_lake
source: {topics: [orders], value: {format: json}}
sink: {format: delta, table: table}
checkpoint: checkpoint
"""
SHORT_S = 0.5
ALLOWED_S = 10.0


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


def test_a_wrong_port_fails_within_seconds_and_names_the_address(
    tmp_path: Path, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_spark(*_: object, **__: object) -> None:
        raise AssertionError("Spark starts although no broker answers")

    assert first_connection.FIRST_CONNECTION_S < ALLOWED_S
    monkeypatch.setattr(first_connection, "FIRST_CONNECTION_S", SHORT_S)
    monkeypatch.setattr(application, "open_session", no_spark)
    spec = tmp_path / "orders.yaml"
    spec.write_text(SPEC)
    began = time.monotonic()
    ended = Cli(f"127.0.0.1:{closed_port}", tmp_path)("pipeline", "run", str(spec))
    assert time.monotonic() - began < ALLOWED_S
    assert ended.code == ExitCode.UNREACHABLE
    (said,) = ended.stderr.splitlines()
    assert said.startswith("headrace: orders_to_lake: ")
    assert f"cannot connect to 127.0.0.1:{closed_port}: Connection refused" in said
    assert said.endswith("Check bootstrap.servers (-b) and that the broker is running")
    (event,) = [json.loads(line) for line in ended.stdout.splitlines()]
    assert event["kind"] == "failed"
    history = Cli("", tmp_path)("pipeline", "history", str(spec), "--format", "json")
    assert [each["kind"] for each in history.facts] == ["failed"]
    assert not (tmp_path / "table").exists()


def test_the_specs_own_timeout_shortens_the_first_connection(
    tmp_path: Path, closed_port: int
) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(SPEC + "kafka: {default.api.timeout.ms: 300}\n")
    ended = Cli(f"127.0.0.1:{closed_port}", tmp_path)("pipeline", "run", str(spec))
    assert ended.code == ExitCode.UNREACHABLE
    assert "(tried for 0.3 s)" in ended.stderr
