"""Pipelines resume from checkpoints and tables that version 0.1.0 left in the middle of a batch.

tests/data/0.1.0/README.md says what the archive holds: 20 orders in the table, 10 orders in a batch
that ended around the table's commit, 6 orders that no batch has read.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset
import pytest
from confluent_kafka import Producer

from headrace.client.results import TopicPartition
from headrace.pipeline.application.history import RunHistory
from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.testing import Broker
from support.pipelines.delta_pipeline import Pipeline
from support.storage.old_data import unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

SQL = "SELECT id, amount, _record.partition AS p, _record.offset AS o FROM source"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "log.retention.ms": "-1",
    "offsets.retention.minutes": "2147483647",
}


def spec_of(home: Path, kind: str, name: str) -> str:
    """The spec that 0.1.0 ran, with its directories moved."""
    value = {"format": "json", "schema": "id BIGINT, amount DOUBLE"}
    return json.dumps(
        {
            "pipeline": name,
            "source": {"topics": ["orders"], "value": value},
            "transform": [{"sql": SQL}],
            "sink": {"format": kind, "table": str(home / "tables" / name)},
            "on_error": "skip",
            "trigger": "100ms",
            "checkpoint": str(home / "checkpoints" / name),
        }
    )


def ids_in(pipeline: Pipeline, kind: str) -> list[int]:
    if kind == "delta":
        return sorted(row["id"] for row in pipeline.rows())
    table = pyarrow.dataset.dataset(pipeline.table, format="parquet", ignore_prefixes=["_", "."])
    return sorted(table.to_table().column("id").to_pylist())


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_every_record_is_written_once(
    kind: str, moment: str, tmp_path: Path, spark: "SparkSession"
) -> None:
    """No record is lost or duplicated, wherever 0.1.0 stopped around the commit."""
    home = unpack("0.1.0", "pipeline", tmp_path)
    name = f"{kind}_{moment}"
    with Broker(data=home / "broker", settings=SETTINGS) as broker:
        bootstrap = broker.bootstrap_servers
        pipeline = Pipeline(
            parse_spec(spec_of(home, kind, name)), home / "tables" / name, bootstrap, spark
        )
        if kind == "delta":  # a folder of Parquet files shows the file that is not committed, too
            landed = 20 if moment == "before" else 30
            assert ids_in(pipeline, kind) == list(range(landed))
        assert pipeline.run() == []
        assert ids_in(pipeline, kind) == list(range(36))

        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce("orders", b'{"id": 36, "amount": 18.0}', b"k", 0)
        assert producer.flush(60) == 0
        assert pipeline.run() == []
        assert ids_in(pipeline, kind) == list(range(37))
        ends = {TopicPartition("orders", 0): 20, TopicPartition("orders", 1): 18}
        assert pipeline.log.committed(pipeline.flow.id) == ends
        pipeline.close()
    events = RunHistory(Checkpoint(pipeline.flow.checkpoint).history).events()
    assert [row["kind"] for row in events][:4] == ["started", "batch", "caught_up", "stopped"]
