"""Pipelines through Spark Connect: the driver has no JVM, the server is a standalone cluster's.

The same specs as everywhere else; a worker of the cluster is killed on the way.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline.batch.stateful_plan import crosses_rows
from headrace.pipeline.spec.select import read_select
from support.pipelines.every_sink import EverySink
from support.pipelines.row_scopes import ACROSS_ROWS, ROW_BY_ROW
from support.pipelines.spark_cluster import ConnectServer, SparkCluster

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(1800)]

LIMIT_BYTES = 14_000
RECORD_BYTES = 30
"""About; the first batch, of 10,000 records, tells the pipeline."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark")) as started:
        yield started


@pytest.fixture(scope="module")
def url(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ConnectServer(tmp_path_factory.mktemp("connect"), cluster.url) as server:
        yield server.url


def test_every_sink_is_exact_even_if_a_worker_is_killed(
    url: str, cluster: SparkCluster, bootstrap: str, name: str, tmp_path: Path
) -> None:
    flows = EverySink(tmp_path / "spec", bootstrap, name)
    flows.feed(1600, files=2)
    flows.run(url, cluster.kill_worker)
    flows.check()


def test_batches_are_limited_by_bytes(url: str, bootstrap: str, name: str, tmp_path: Path) -> None:
    flows = EverySink(
        tmp_path / "spec",
        bootstrap,
        name,
        flows=["delta"],
        batch_records=1_000_000,
        source={"max_bytes_per_batch": LIMIT_BYTES},
    )
    flows.feed(11_500)
    run = flows.run(url)
    flows.check()
    first, *others = (each["offsets_read"] for each in run.events if each["kind"] == "batch")
    assert 9_990 < first <= 10_000  # each partition's share is a whole number
    assert max(others) <= 1.5 * LIMIT_BYTES / RECORD_BYTES


def test_plans_that_combine_rows_are_recognized(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    # PySpark sets it in this process, and later tests open classic sessions: restore it.
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    spark = SparkSession.builder.remote(url).create()
    try:
        spark.range(3).createOrReplaceTempView("other")
        rows = spark.createDataFrame([], "id BIGINT, i BIGINT, xs ARRAY<INT>, ts TIMESTAMP")
        rows.createOrReplaceTempView("mine")

        def reason(sql: str) -> str:
            return crosses_rows(spark.sql(read_select(sql).over("mine")), "mine")

        assert [sql for sql in ROW_BY_ROW if reason(sql)] == []
        assert [sql for sql, _ in ACROSS_ROWS if not reason(sql)] == []
    finally:
        spark.stop()
