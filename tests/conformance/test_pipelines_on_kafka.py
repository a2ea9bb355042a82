"""Pipelines on Apache Kafka: the same specs, the same commands, the same exactness."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.cli.command import Cli
from support.clients.java import KafkaNode
from support.pipelines.driver import Driver
from support.pipelines.mixed_topic import MixedTopic, Order
from support.pipelines.outputs import (
    Row,
    committed,
    delta_rows,
    iceberg_rows,
    json_values,
    letters,
    parquet_rows,
)

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
MODULES = (
    "test_topic_to_delta.py",
    "test_topic_to_iceberg.py",
    "test_topic_to_parquet.py",
    "test_sources_to_topic.py",
    "test_dead_letters.py",
    "test_pipeline_cli.py",
)
SQL = (
    "SELECT id, amount, _record.partition AS p, _record.offset AS o, "
    "cast(_record.headers[0].value AS string) AS trace FROM source"
)
FILES = 6
LINES = 50


@pytest.mark.timeout(3600)
def test_the_pipeline_tests_pass_on_kafka_unchanged(kafka: KafkaNode) -> None:
    tests = [str(ROOT / "tests" / "pipeline" / module) for module in MODULES]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", *tests],
        cwd=ROOT,
        env={**os.environ, "HEADRACE_TEST_BOOTSTRAP": kafka.bootstrap_servers},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-8000:]
    assert "passed" in ended.stdout


class Lake:
    """Every sink, and the file source, as flows of one application."""

    def __init__(self, home: Path, bootstrap: str, topic: MixedTopic) -> None:
        self.spec = home / "lake.yaml"
        self.name = f"lake-{topic.name}"
        self.letters = f"{topic.name}.dlq"
        self.out, self.inlet = f"{topic.name}.out", f"{topic.name}.in"
        self._home = home
        self._bootstrap = bootstrap
        source = {
            "topics": [topic.name],
            "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE, note STRING"},
            "max_records_per_batch": 300,
        }
        sinks: dict[str, dict[str, object]] = {
            "delta": {"format": "delta", "table": "delta"},
            "iceberg": {"format": "iceberg", "table": "shop.orders", "warehouse": "warehouse"},
            "parquet": {"format": "parquet", "table": "parquet"},
            "topic": {"format": "topic", "topic": self.out, "key": ["id"]},
        }
        flows: list[dict[str, object]] = [
            {
                "name": name,
                "source": source,
                "transform": [{"sql": SQL}],
                "sink": sink,
                "dead_letter": {"topic": self.letters},
            }
            for name, sink in sinks.items()
        ]
        files = {
            "name": "files",
            "source": {"files": "incoming", "format": "json", "max_files_per_batch": 1},
            "sink": {"format": "topic", "topic": self.inlet, "key": ["id"]},
        }
        spec = {
            "pipeline": self.name,
            "trigger": "100ms",
            "checkpoint": "checkpoint",
            "spark": {"spark.sql.shuffle.partitions": "2"},
            "flows": [*flows, files],
        }
        self.spec.write_text(json.dumps(spec))
        incoming = home / "incoming"
        incoming.mkdir()
        for number in range(FILES):
            ids = range(number * LINES, (number + 1) * LINES)
            text = "\n".join(json.dumps({"id": each}) for each in ids)
            (incoming / f"{number}.json").write_text(text)

    def rows(self) -> dict[str, list[Row]]:
        """The written rows of each flow."""
        return {
            "delta": delta_rows(self._home / "delta"),
            "iceberg": iceberg_rows(self._home / "warehouse", "shop.orders"),
            "parquet": parquet_rows(self._home / "parquet"),
            "topic": json_values(self._bootstrap, self.out),
        }


def landed(rows: Sequence[Row]) -> list[Order]:
    return sorted(Order(row["p"], row["o"], row["id"], row["trace"]) for row in rows)


def test_every_source_and_sink_is_exact_on_kafka_after_the_driver_is_killed(
    kafka: KafkaNode, name: str, tmp_path: Path
) -> None:
    bootstrap = kafka.bootstrap_servers
    topic = MixedTopic(bootstrap, name)
    topic.fill(100)
    lake = Lake(tmp_path, bootstrap, topic)
    options = ["--until-caught-up", "--master", "local[2]"]
    first = Driver(lake.spec, bootstrap, tmp_path / "first", options=options)
    try:
        first.await_events("batch", 6)
        first.kill()
    finally:
        first.close()
    second = Driver(lake.spec, bootstrap, tmp_path / "second", options=options)
    try:
        assert second.wait() == 0, second.tail()
    finally:
        second.close()

    orders = topic.orders()
    assert len(orders) == 1000
    for flow, rows in lake.rows().items():
        assert landed(rows) == orders, flow
    assert sorted(row["id"] for row in json_values(bootstrap, lake.inlet)) == list(
        range(FILES * LINES)
    )
    found = letters(bootstrap, lake.letters)
    flows = ("delta", "iceberg", "parquet", "topic")
    assert [letter[:3] for letter in found] == [
        (f"{lake.name}.{flow}", *place) for flow in flows for place in topic.broken()
    ]
    own = {next(iter(message.headers() or [])) for message in committed(bootstrap, lake.letters)}
    assert own == {("trace", b"bad")}  # before the headers that describe the error

    cli = Cli(bootstrap, tmp_path)
    for flow in flows:
        (status,) = [
            row
            for row in cli("pipeline", "status", str(lake.spec), "--format", "json").facts  # type: ignore[attr-defined]
            if row["flow"] == f"{lake.name}.{flow}"
        ]
        assert status["lag"] == 0
    _letters_are_replayed(cli, lake, topic, tmp_path)


def _letters_are_replayed(cli: Cli, lake: Lake, topic: MixedTopic, home: Path) -> None:
    """The delta flow's dead letters are repaired, sent again and written to the table."""
    fix = home / "fix.py"
    fix.write_text(
        "def repair(record):\n"
        '    record.value = b\'{"id": -1, "amount": 0.5, "note": ""}\'\n'
        "    return record\n"
    )
    where = ["--where", f"pipeline = {lake.name}.delta"]
    assert "NotJson" in cli.ok("dlq", "list", lake.letters, *where)
    assert "NotJson" in cli.ok("dlq", "show", lake.letters, *where, "--limit", "1")
    replay = ["dlq", "replay", lake.letters, *where, "--python", f"{fix}:repair"]
    before = topic.orders()
    cli.ok(*replay)  # says what it would do
    assert topic.orders() == before
    cli.ok(*replay, "--execute")
    cli.ok(*replay, "--execute")  # none is sent twice
    again = [order for order in topic.orders() if order not in before]
    assert len(again) == len(topic.broken())
    assert {order.id for order in again} == {-1}
