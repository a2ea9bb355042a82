"""A pipeline on a secured broker: records, dead letters, replay and progress, without a leak."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from headrace.client.results import TopicPartition
from headrace.pipeline.application.application import Application, RunSettings
from headrace.pipeline.application.spec_loader import parse_spec
from headrace.testing import Broker, allow
from support.cli.command import Cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

PASSWORD = "a password that is nowhere else"
ACLS = [
    allow("etl", "read", topic="orders"),
    allow("etl", "all", topic="orders.dlq"),
    allow("etl", "all", group="*"),
    allow("etl", "all", transactional_id="*"),
]


@pytest.fixture
def broker() -> "Broker":
    return Broker(security="sasl_ssl", users={"etl": PASSWORD}, acls=ACLS)


def test_a_pipeline_with_only_the_rights_it_needs(
    broker: Broker, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    with broker:
        broker.headrace.create_topic("orders")
        broker.headrace.produce("orders", '{"id": 1}', "{broken", '{"id": 2}')
        settings = broker.client_config("etl")
        monkeypatch.setenv("KAFKA_PASSWORD", settings.pop("sasl.password"))
        spec = {
            "pipeline": "secured",
            "kafka": {**settings, "sasl.password": "${KAFKA_PASSWORD}"},
            "source": {
                "topics": ["orders"],
                "value": {"format": "json", "schema": "id BIGINT"},
            },
            "sink": {"format": "delta", "table": str(table)},
            "dead_letter": {"topic": "orders.dlq"},
            "checkpoint": str(checkpoint),
        }
        parsed, run = parse_spec(json.dumps(spec)), RunSettings(until_caught_up=True)
        assert Application(parsed, run, [], spark=spark).run() == []
        assert sorted(DeltaTable(str(table)).to_pyarrow_table()["id"].to_pylist()) == [1, 2]
        letters = broker.headrace.consume("orders.dlq", 1, read_committed=True)
        assert letters[0].value == b"{broken"
        assert broker.headrace.lag(parsed.resolved()[0].id) == {TopicPartition("orders", 0): 0}
        profile = tmp_path / "client.properties"
        profile.touch(0o600)
        lines = [f"{name}={value}\n" for name, value in broker.client_config("etl").items()]
        profile.write_text("".join(lines))
        shown = Cli("", tmp_path).ok("dlq", "list", "orders.dlq", "--profile", str(profile))
        assert "NotJson" in shown
        _check_plan(broker, spark)
    written = [path for path in checkpoint.rglob("*") if path.is_file()]
    assert not [path for path in written if PASSWORD.encode() in path.read_bytes()]


def _check_plan(broker: Broker, spark: "SparkSession") -> None:
    """Neither the password nor a key is in what Spark shows of a query."""
    options = {f"kafka.{name}": value for name, value in broker.client_config("etl").items()}
    rows = spark.read.format("headrace").options(**options, subscribe="orders").load()
    with redirect_stdout(io.StringIO()) as plan:
        rows.explain(extended=True)
    assert rows.count() == 3
    assert PASSWORD not in plan.getvalue()
