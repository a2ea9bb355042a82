"""Tables open in common query tools after writes, merges and maintenance.

The tests follow the guide: the table's own library selects the files and rows, and
DuckDB or Spark query them.
"""

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from deltalake import DeltaTable

from headrace.pipeline.sinks.iceberg_sink import open_catalog
from support.pipelines.lake_tables import ICEBERG_NAME, LakeTable, Order

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

NOTE_SINCE = ("columns", "merge", "compact")


def query(stage: str) -> str:
    note = "note" if stage in NOTE_SINCE else "CAST(NULL AS VARCHAR(9)) AS note"
    return f"SELECT id, day, amount, {note} FROM orders ORDER BY id"


def orders_of(rows: Iterable[Any]) -> list[Order]:
    return [Order(id_, day, Decimal(amount), note) for id_, day, amount, note in rows]


def in_duckdb(orders: Any, stage: str) -> list[Order]:
    with duckdb.connect() as connection:
        connection.register("orders", orders)
        return orders_of(connection.sql(query(stage)).fetchall())


def in_spark(spark: "SparkSession", orders: "pa.Table", stage: str) -> list[Order]:
    spark.createDataFrame(orders).createOrReplaceTempView("orders")
    return orders_of(map(tuple, spark.sql(query(stage)).collect()))


def iceberg(table: LakeTable) -> "Table":
    return open_catalog(str(table.home), {}).load_table(ICEBERG_NAME)


def test_delta_tables_open_in_duckdb_and_spark(tmp_path: Path, spark: "SparkSession") -> None:
    table = LakeTable("delta", tmp_path)
    for stage, wanted in table.stages():
        delta = DeltaTable(str(table.path))
        assert in_duckdb(delta.to_pyarrow_dataset(), stage) == wanted, stage
        assert in_spark(spark, delta.to_pyarrow_table(), stage) == wanted, stage


def test_iceberg_tables_open_in_pyiceberg_duckdb_and_spark(
    tmp_path: Path, spark: "SparkSession"
) -> None:
    table = LakeTable("iceberg", tmp_path)
    for stage, wanted in table.stages():
        found = iceberg(table).scan().to_arrow()
        assert sorted(found.column("id").to_pylist()) == [each.id for each in wanted], stage
        assert in_duckdb(found, stage) == wanted, stage
        assert in_spark(spark, found, stage) == wanted, stage


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_spark_reads_the_files_of_a_table_in_its_own_tasks(
    kind: str, tmp_path: Path, spark: "SparkSession"
) -> None:
    table = LakeTable(kind, tmp_path)
    for stage, wanted in table.stages():
        if kind == "delta":
            delta = DeltaTable(str(table.path))
            files, base = delta.file_uris(), str(table.path)
        else:
            found = iceberg(table)
            files = [each.file.file_path for each in found.scan().plan_files()]
            base = f"{found.location()}/data"
        reader = spark.read.option("basePath", base).option("mergeSchema", "true")
        reader.schema("id BIGINT, day STRING, amount DECIMAL(10,2), note STRING").parquet(
            *files
        ).createOrReplaceTempView("orders")
        rows = orders_of(map(tuple, spark.sql(query("columns")).collect()))
        assert rows == wanted, stage
