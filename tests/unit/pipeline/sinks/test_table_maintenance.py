"""Small files are joined and old ones removed; no row is lost or duplicated."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.client.results import TopicPartition
from headrace.pipeline.core.columns import DELETED
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.sinks import iceberg_maintenance, manifests
from headrace.pipeline.sinks.compaction_plan import packed
from headrace.pipeline.sinks.data_files import described
from headrace.pipeline.sinks.delta_sink import DeltaSink
from headrace.pipeline.sinks.iceberg_sink import IcebergSink, open_catalog
from headrace.pipeline.sinks.orphan_files import OrphanFiles, origin_of
from headrace.pipeline.sinks.parquet_sink import ParquetSink, parquet_files
from headrace.pipeline.sinks.table_sink import (
    BatchInfo,
    Mode,
    TableSettings,
    TableSink,
    WrittenFile,
)

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
PARTITION = TopicPartition("orders", 0)
PIPELINE = "orders-to-lake"
DAY_S = 86400
BATCHES = 4
DAYS = ("monday", "a day/with = signs", None)


class Lake:
    """A table of one format in a folder of its own."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self.home = home

    def sink(self, **settings: object) -> TableSink:
        match self.name:
            case "parquet":
                return ParquetSink(TableSettings(str(self.home / "t"), **settings))  # type: ignore[arg-type]
            case "delta":
                return DeltaSink(TableSettings(str(self.home / "t"), **settings))  # type: ignore[arg-type]
            case _:
                named = TableSettings("lake.orders", **settings)  # type: ignore[arg-type]
                return IcebergSink(named, warehouse=str(self.home), catalog={})

    def ids(self) -> list[int]:
        return sorted(self._ids())

    def _ids(self) -> Iterator[int]:
        match self.name:
            case "parquet":
                found = duckdb.sql(f"select id from read_parquet({self.files()})")
                yield from (row[0] for row in found.fetchall())
            case "delta":
                table = DeltaTable(str(self.home / "t")).to_pyarrow_table()
                yield from table.column("id").to_pylist()
            case _:
                table = open_catalog(str(self.home), {}).load_table("lake.orders")
                yield from table.scan().to_arrow().column("id").to_pylist()

    def files(self) -> list[str]:
        """Those that the table consists of."""
        match self.name:
            case "parquet":
                return parquet_files(str(self.home / "t"))
            case "delta":
                return DeltaTable(str(self.home / "t")).file_uris()
            case _:
                table = open_catalog(str(self.home), {}).load_table("lake.orders")
                return [task.file.file_path for task in table.scan().plan_files()]

    def data(self) -> list[Path]:
        """All that lie there."""
        return sorted(self.home.rglob("*.parquet"))


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake(request.param, tmp_path)


def batch(number: int) -> BatchInfo:
    return BatchInfo(PIPELINE, number, (OffsetRange("orders", 0, number, number + 1),))


def written(sink: TableSink, of: BatchInfo, rows: pa.RecordBatch) -> Sequence[WrittenFile]:
    return [described(row) for out in sink.write_task(of)(iter([rows])) for row in out.to_pylist()]


def row(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"id": [number], "day": [DAYS[number % len(DAYS)]]}, schema=SCHEMA
    )


def land(sink: TableSink, *numbers: int) -> None:
    for number in numbers:
        sink.commit(batch(number), written(sink, batch(number), row(number)))


def filled(lake: Lake, **settings: object) -> TableSink:
    sink = lake.sink(**settings)
    sink.prepare(SCHEMA)
    land(sink, *range(BATCHES))
    return sink


def aged(paths: Sequence[Path], days: float) -> None:
    for path in paths:
        os.utime(path, (time.time() - days * DAY_S,) * 2)


def held(lake: Lake) -> tuple[int, int]:
    """Batch and offset, as a new run reads them."""
    committed = lake.sink().last_commit(PIPELINE, [PARTITION])
    assert committed is not None
    return committed.batch_id, committed.offsets[PARTITION]


def test_small_files_are_joined_and_the_table_keeps_its_offsets(lake: Lake) -> None:
    sink = filled(lake)
    done = sink.compact()
    assert (done.files_removed, done.files_added) == (BATCHES, 1)
    assert (lake.ids(), len(lake.files())) == (list(range(BATCHES)), 1)
    assert held(lake) == (BATCHES - 1, BATCHES)
    sink.vacuum(0)
    assert (lake.ids(), len(lake.data())) == (list(range(BATCHES)), 1)
    assert held(lake) == (BATCHES - 1, BATCHES)
    land(sink, BATCHES)
    assert lake.ids() == list(range(BATCHES + 1))
    assert sink.compact().files_removed == 2


def test_files_are_joined_within_their_partition(lake: Lake) -> None:
    sink = filled(lake, partition_by=("day",))
    land(sink, 4, 5, 6)
    done = sink.compact()
    assert (done.files_removed, done.files_added) == (7, 3)
    sink.vacuum(0)
    assert (lake.ids(), len(lake.data())) == (list(range(7)), 3)


def test_a_table_whose_files_are_large_is_left_alone(lake: Lake) -> None:
    sink = filled(lake, target_file_bytes=1)
    before = lake.files()
    assert sink.compact().files_removed == 0
    assert lake.files() == before


def test_a_batch_committed_during_compaction_is_kept(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = filled(lake)
    other = lake.sink()
    other.prepare(SCHEMA)
    meanwhile = written(other, batch(BATCHES), row(BATCHES))
    between(lake, monkeypatch, lambda: other.commit(batch(BATCHES), meanwhile))
    assert sink.compact().files_removed >= BATCHES
    sink.vacuum(0)
    assert lake.ids() == list(range(BATCHES + 1))
    assert held(lake) == (BATCHES, BATCHES + 1)


def between(lake: Lake, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Acts once, after files are joined and before they are replaced."""
    if lake.name == "delta":
        act()  # deltalake joins and commits in one call, which sees to this itself
        return
    acted: list[object] = []
    where, name = (
        (iceberg_maintenance, "_swap_files")
        if lake.name == "iceberg"
        else (manifests.Manifests, "write")
    )
    usual = getattr(where, name)

    def first(*args: object) -> object:
        if not acted:
            acted.append(None)
            act()
        return usual(*args)

    monkeypatch.setattr(where, name, first)


def test_a_batch_committed_by_two_runs_is_written_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The libraries' retries must not add a batch that is already committed."""
    sink = filled(lake)
    other = lake.sink()
    other.prepare(SCHEMA)
    mine = written(sink, batch(BATCHES), row(BATCHES))
    theirs = written(other, batch(BATCHES), row(BATCHES))
    if lake.name == "parquet":  # distinguishes leftovers of a crash from its own
        mine = written(sink, batch(BATCHES), row(BATCHES))
    if lake.name == "iceberg":
        original = IcebergSink._commit_files
        monkeypatch.setattr(
            IcebergSink, "_commit_files", lambda self, *args: late(self, original, *args)
        )

    def late(self: IcebergSink, usual: Callable[..., None], *args: object) -> None:
        if self is sink:
            usual(other, other_table(), *args[1:3], theirs)
        usual(self, *args)

    def other_table() -> object:
        return iceberg_maintenance.without_retries(other._open_existing())  # type: ignore[attr-defined]

    sink.commit(batch(BATCHES), mine)
    other.commit(batch(BATCHES), theirs)
    assert lake.ids() == list(range(BATCHES + 1))


def test_a_batch_under_way_keeps_its_files_through_a_vacuum(lake: Lake) -> None:
    sink = filled(lake)
    begun = written(sink, batch(BATCHES), row(BATCHES))
    aged(lake.data(), 0.5)  # far older than the retention, and still in progress
    lake.sink().compact()
    lake.sink().vacuum(0)
    sink.commit(batch(BATCHES), begun)
    assert lake.ids() == list(range(BATCHES + 1))


def test_files_left_by_a_crash_are_removed_after_the_commit_or_a_day(lake: Lake) -> None:
    sink = filled(lake)
    before = lake.data()
    written(lake_sink(lake), batch(BATCHES - 1), row(9))  # an attempt at a committed batch
    assert len(lake.data()) == len(before) + 1
    assert sink.vacuum(1).files_removed == 0  # younger than an hour
    assert sink.vacuum(0).files_removed == 1
    assert lake.data() == before
    written(lake_sink(lake), batch(BATCHES + 5), row(9))  # a batch that was never committed
    assert sink.vacuum(0).files_removed == 0
    aged(lake.data(), 2)
    assert sink.vacuum(0).files_removed == 1
    assert lake.ids() == list(range(BATCHES))


def lake_sink(lake: Lake) -> TableSink:
    sink = lake.sink()
    sink.prepare(SCHEMA)
    return sink


def test_the_offsets_in_a_delta_table_outlive_its_history(tmp_path: Path) -> None:
    lake = Lake("delta", tmp_path)
    sink = filled(lake)
    sink.compact()
    table = DeltaTable(str(tmp_path / "t"))
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    table = DeltaTable(str(tmp_path / "t"))
    table.create_checkpoint()
    aged(sorted((tmp_path / "t" / "_delta_log").glob("*.json")), 60)
    DeltaTable(str(tmp_path / "t")).cleanup_metadata()
    assert not (tmp_path / "t" / "_delta_log" / f"{0:020}.json").exists()
    sink.vacuum(0)
    assert held(lake) == (BATCHES - 1, BATCHES)
    assert lake.ids() == list(range(BATCHES))


def test_expired_iceberg_snapshots_are_removed_with_their_files(tmp_path: Path) -> None:
    lake = Lake("iceberg", tmp_path)
    sink = filled(lake)
    catalog = open_catalog(str(tmp_path), {})
    assert len(catalog.load_table("lake.orders").snapshots()) == BATCHES
    sink.compact()
    metadata = list(tmp_path.rglob("snap-*.avro"))
    aged([*metadata, *tmp_path.rglob("*-m*.avro")], 2)
    sink.vacuum(0)
    table = catalog.load_table("lake.orders")
    assert len(table.snapshots()) == 1
    assert len(list(tmp_path.rglob("snap-*.avro"))) == 1
    assert held(lake) == (BATCHES - 1, BATCHES)
    found = duckdb.sql(f"select count(*) from read_parquet('{lake.files()[0]}')")
    assert found.fetchall() == [(BATCHES,)]


@pytest.mark.parametrize("name", ["iceberg", "delta"])
def test_a_merge_that_conflicts_with_a_compaction_is_retried(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(name, tmp_path)
    schema = SCHEMA.append(pa.field(DELETED, pa.bool_()))
    sink = lake.sink(mode=Mode.MERGE, key=("id",))
    sink.prepare(schema)

    def merge(number: int, *changes: tuple[int, bool]) -> None:
        rows = pa.RecordBatch.from_pydict(
            {
                "id": [key for key, _ in changes],
                "day": [str(number)] * len(changes),
                DELETED: [deleted for _, deleted in changes],
            },
            schema=schema,
        )
        sink.commit(batch(number), written(sink, batch(number), rows))

    merge(0, (1, False), (2, False))
    merge(1, (3, False))
    kind: type = type(sink)
    usual = kind._merge  # type: ignore[attr-defined]
    joined: list[int] = []

    def late(self: TableSink, *args: object) -> None:
        if name == "iceberg":
            usual(self, *args)  # commits when it returns
        if not joined:
            joined.append(lake.sink().compact().files_removed)
        if name == "delta":
            usual(self, *args)

    monkeypatch.setattr(kind, "_merge", late)
    merge(2, (2, True), (4, False))
    assert joined == [2]
    assert lake.ids() == [1, 3, 4]


def test_a_complete_manifest_is_written_periodically(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "WHOLE_EVERY", 3)
    lake = Lake("parquet", tmp_path)
    sink = lake_sink(lake)
    other = BatchInfo("another", 7, (OffsetRange("orders", 1, 0, 9),))
    sink.commit(other, written(sink, other, row(100)))
    land(sink, *range(20))
    assert len(list((tmp_path / "t" / manifests.FOLDER).iterdir())) <= 10
    assert lake.ids() == [*range(20), 100]
    assert held(lake) == (19, 20)
    kept = lake.sink().last_commit("another", [])
    assert kept is not None
    assert (kept.batch_id, kept.offsets) == (7, {TopicPartition("orders", 1): 9})


def test_replaced_files_are_removed_even_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake("parquet", tmp_path)
    sink = filled(lake)
    with monkeypatch.context() as patched:
        patched.setattr(ParquetSink, "_delete_files", lambda self, paths: None)
        sink.compact()
    assert len(lake.data()) == BATCHES + 1
    lake.sink().compact()
    assert len(lake.data()) == 1
    assert lake.ids() == list(range(BATCHES))


def test_groups_of_small_files_are_near_the_target_size() -> None:
    sizes = [("a", 10), ("b", 60), ("c", 30), ("d", 45), ("e", 49), ("f", 200), ("g", 3)]
    assert packed(sizes, 100) == [["a", "c", "d"], ["e", "g"]]
    assert packed([("a", 1)], 100) == []


def test_a_file_name_contains_its_batch() -> None:
    assert origin_of("day=1/orders-to-lake-12-0abc.parquet") == ("orders-to-lake", 12)
    assert origin_of("joined-0abc.parquet") is None
    assert origin_of("00000-0-1f2e.parquet") == ("00000", 0)  # of no pipeline that is known
    leftovers = OrphanFiles(0, 10 * DAY_S, {"p": 3}.get)
    assert leftovers.may_be_deleted("p-3-a.parquet", 10 * DAY_S - 1)
    assert not leftovers.may_be_deleted("p-4-a.parquet", 10 * DAY_S - 1)
    assert not leftovers.may_be_deleted("00000-0-1f2e.parquet", 10 * DAY_S - 1)
    assert leftovers.may_be_deleted("p-4-a.parquet", 8 * DAY_S)
