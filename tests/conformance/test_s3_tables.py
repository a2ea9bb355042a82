"""Tables in a bucket of a real S3 server: as exact as on disk, on one machine and on a cluster."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyarrow import fs
from pyiceberg.catalog import load_catalog

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.sinks.data_files import described
from headrace.pipeline.sinks.delta_sink import DeltaSink
from headrace.pipeline.sinks.file_stores import open_store
from headrace.pipeline.sinks.iceberg_sink import IcebergSink
from headrace.pipeline.sinks.parquet_sink import ParquetSink, parquet_files
from headrace.pipeline.sinks.table_sink import BatchInfo, SinkError, TableSettings, TableSink
from support.cli.command import Cli
from support.pipelines.every_sink import RUN_DEADLINE_S, TABLES, EverySink, Store
from support.pipelines.s3_server import SECRET_KEY, SECRET_VARIABLE, S3Server
from support.pipelines.spark_cluster import SMALL, SparkCluster

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(1800)]

SCHEMA = pa.schema([("writer", pa.int64()), ("batch", pa.int64())])
COMMITS = 15


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, SECRET_KEY)


@pytest.fixture
def flows(server: S3Server, bootstrap: str, name: str, tmp_path: Path) -> EverySink:
    home = tmp_path / "spec"
    store = server.store(name, home / "checkpoint" / "iceberg" / "catalog.db")
    return EverySink(home, bootstrap, name, flows=TABLES, store=store, spark=SMALL)


def test_tables_are_exact_after_a_killed_driver_and_after_maintenance(
    flows: EverySink, bootstrap: str, tmp_path: Path
) -> None:
    flows.feed(1600)
    with flows.running("local[2]") as killed:
        killed.await_events("batch", 5, RUN_DEADLINE_S)
        killed.kill()
    again = flows.run("local[2]")
    flows.check()

    cli = Cli(bootstrap, tmp_path)
    printed = cli.ok("pipeline", "compact", str(flows.spec), "--vacuum")
    flows.check()
    status = cli.ok("pipeline", "status", str(flows.spec), "--format", "json")
    assert [each["lag"] for each in json.loads(status)] == [0] * len(TABLES)
    printed += status + cli.ok("pipeline", "history", str(flows.spec))
    assert SECRET_KEY not in printed + killed.tail() + again.tail()
    assert not [file for file in flows.home.rglob("*") if file.is_file() and _holds_secret(file)]

    flows.feed(200)
    flows.run("local[2]")
    flows.check()


def _holds_secret(file: Path) -> bool:
    return SECRET_KEY.encode() in file.read_bytes()


def test_tables_are_exact_on_a_cluster_that_loses_a_worker(
    flows: EverySink, tmp_path_factory: pytest.TempPathFactory
) -> None:
    flows.feed(1600)
    with SparkCluster(tmp_path_factory.mktemp("spark")) as cluster:
        flows.run(cluster.url, cluster.kill_worker)
    flows.check()


def test_two_writers_to_a_delta_table_do_not_overwrite_each_other(
    server: S3Server, name: str
) -> None:
    """Two pipelines commit to one table concurrently; its log has every commit of both."""
    store = server.store(name, Path("unused"))
    table = f"{store.base}/shared"
    settings = TableSettings(table, storage_options=dict(store.delta))
    DeltaSink(settings).prepare(SCHEMA)

    def write(writer: int) -> None:
        sink = DeltaSink(settings)
        sink.prepare(SCHEMA)
        for number in range(COMMITS):
            batch = BatchInfo(f"p{writer}", number, (OffsetRange("t", writer, number, number + 1),))
            _commit(sink, batch, writer, number)

    with ThreadPoolExecutor(2) as both:
        list(both.map(write, range(2)))
    rows = DeltaTable(table, storage_options=dict(store.delta)).to_pyarrow_table().to_pylist()
    found = sorted((row["writer"], row["batch"]) for row in rows)
    assert found == [(writer, number) for writer in range(2) for number in range(COMMITS)]


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_small_files_in_a_bucket_are_joined_and_old_ones_removed(
    kind: str, server: S3Server, name: str, tmp_path: Path
) -> None:
    store = server.store(name, tmp_path / "catalog.db")
    sink = _sink(kind, store, partition_by=("writer",))
    sink.prepare(SCHEMA)
    for number in range(5):
        batch = BatchInfo("p", number, (OffsetRange("t", 0, number, number + 1),))
        _commit(sink, batch, number % 2, number)
        again = sink.commit(batch, [])
        assert again.batch_id == number  # a replay adds nothing
    before = _data_files(server, name)
    done = sink.compact()
    assert (done.files_added, done.files_removed) == (2, 5)
    assert sink.vacuum(0).files_removed >= 0
    held = _sink(kind, store).last_commit("p", [TopicPartition("t", 0)])
    assert held is not None
    assert (held.batch_id, dict(held.offsets)) == (4, {TopicPartition("t", 0): 5})
    assert _rows(kind, store) == [(number % 2, number) for number in range(5)]
    assert len(before - _data_files(server, name)) == 5


def _sink(kind: str, store: Store, partition_by: tuple[str, ...] = ("writer",)) -> TableSink:
    options = dict(store.delta)
    match kind:
        case "delta":
            return DeltaSink(
                TableSettings(f"{store.base}/t", partition_by=partition_by, storage_options=options)
            )
        case "parquet":
            return ParquetSink(
                TableSettings(f"{store.base}/t", partition_by=partition_by, storage_options=options)
            )
    settings = TableSettings("shop.t", partition_by=partition_by, storage_options=options)
    catalog = {**store.iceberg, "warehouse": f"{store.base}/warehouse"}
    return IcebergSink(settings, warehouse=f"{store.base}/warehouse", catalog=catalog)


def _commit(sink: TableSink, batch: BatchInfo, writer: int, number: int) -> None:
    rows = pa.RecordBatch.from_pylist([{"writer": writer, "batch": number}], schema=SCHEMA)
    (report,) = sink.write_task(batch)(iter([rows]))
    sink.commit(batch, [described(row) for row in report.to_pylist()])


def _data_files(server: S3Server, bucket: str) -> set[str]:
    found = server.files().get_file_info(fs.FileSelector(bucket, recursive=True))
    return {each.path for each in found if each.path.endswith(".parquet")}


def _rows(kind: str, store: Store) -> list[tuple[int, int]]:
    match kind:
        case "delta":
            table = DeltaTable(f"{store.base}/t", storage_options=dict(store.delta))
            found = table.to_pyarrow_table()
        case "iceberg":
            catalog = load_catalog("headrace", **dict(store.iceberg))
            found = catalog.load_table("shop.t").scan().to_arrow()
        case _:
            files, base = open_store(f"{store.base}/t", store.delta)
            paths = parquet_files(f"{store.base}/t", dict(store.delta))
            found = ds.dataset(
                paths, filesystem=files, partitioning="hive", partition_base_dir=base
            ).to_table()
    return sorted(
        ((row["writer"], row["batch"]) for row in found.to_pylist()), key=lambda at: at[1]
    )


def test_a_missing_bucket_or_a_wrong_key_is_reported(server: S3Server, name: str) -> None:
    store = server.store(name, Path("unused"))
    missing = TableSettings("s3://no-such-bucket/t", storage_options=dict(store.delta))
    with pytest.raises(SinkError, match="no-such-bucket"):
        DeltaSink(missing).prepare(SCHEMA)
    wrong = {**store.delta, "AWS_SECRET_ACCESS_KEY": "a-wrong-one"}
    with pytest.raises(SinkError) as told:
        DeltaSink(TableSettings(f"{store.base}/t", storage_options=wrong)).prepare(SCHEMA)
    assert "a-wrong-one" not in str(told.value)
