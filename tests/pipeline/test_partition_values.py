"""A value that cannot be a partition value becomes a bad record and stops no batch."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from headrace.pipeline.dead_letters.headers import facts_of
from headrace.pipeline.sinks.iceberg_sink import open_catalog
from headrace.pipeline.sinks.parquet_sink import parquet_files
from headrace.testing.external import ExternalBroker
from support.pipelines.delta_pipeline import MakePipeline, Send
from support.wire.topics import MakeTopic

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow, pytest.mark.timeout(600)]

LONG = "x" * 252
NULL = "__HIVE_DEFAULT_PARTITION__"
GOOD = ("x" * 251, "ü" * 41, "a/b", "%", "")
"""Those of the first two are as long as they may be."""


@pytest.mark.parametrize("steps", [[], [{"sql": "SELECT id, day FROM source"}]], ids=["", "sql"])
@pytest.mark.parametrize("format_", ["delta", "iceberg", "parquet", "merge"])
def test_partition_values_that_cannot_name_a_folder_are_dead_lettered(
    make_topic: MakeTopic,
    send: Send,
    make_pipeline: MakePipeline,
    bootstrap: str,
    new_name: Callable[[], str],
    tmp_path: Path,
    format_: str,
    steps: list[dict[str, str]],
) -> None:
    topic, aside = make_topic(1), new_name()
    bad = [LONG, "ü" * 42, "/" * 84, *([NULL] if format_ != "iceberg" else [])]
    texts = [*GOOD, *bad, None]
    records = [json.dumps({"id": at, "day": text}).encode() for at, text in enumerate(texts)]
    send(topic, [(0, None, each) for each in records])
    sink: dict[str, object] = {"format": format_, "table": str(tmp_path / "table")}
    if format_ == "merge":
        sink = {"format": "delta", "table": sink["table"], "mode": "merge", "key": ["id"]}
    if format_ == "iceberg":
        sink |= {"table": "lake.orders", "warehouse": str(tmp_path / "warehouse")}
    pipeline = make_pipeline(
        topic,
        source={
            "topics": [topic],
            "value": {"format": "json", "schema": "id BIGINT, day STRING"},
        },
        transform=steps,
        sink={**sink, "partition_by": ["day"]},
        dead_letter={"topic": aside},
    )
    assert pipeline.run() == []
    (batch,) = pipeline.batches()
    assert (batch.rows, batch.bad) == (len(GOOD) + 1, {"UnfitPartition": len(bad)})
    broker = ExternalBroker(bootstrap)
    letters = broker.headrace.consume(aside, len(bad), read_committed=True)
    broker.close()
    first = len(GOOD)
    assert sorted(each.value or b"" for each in letters) == sorted(
        records[first : first + len(bad)]
    )
    said = {facts_of(each.headers).offset: facts_of(each.headers).message for each in letters}
    assert said[first] == (
        "day is too long for the name of a directory: 252 characters, at most 251 are allowed"
    )
    assert _days(format_, tmp_path) == {
        at: text or (None if format_ != "iceberg" else text)
        for at, text in enumerate(texts)
        if text not in bad
    }


def _days(format_: str, home: Path) -> dict[int, str | None]:
    match format_:
        case "iceberg":
            catalog = open_catalog(str(home / "warehouse"), {})
            table = catalog.load_table("lake.orders").scan().to_arrow()
        case "parquet":
            import duckdb

            files = parquet_files(str(home / "table"))
            table = duckdb.sql(
                f"SELECT id, day FROM read_parquet({files}, hive_partitioning=true)"
            ).to_arrow_table()
        case _:
            table = DeltaTable(str(home / "table")).to_pyarrow_table()
    return dict(zip(table.column("id").to_pylist(), table.column("day").to_pylist(), strict=True))
