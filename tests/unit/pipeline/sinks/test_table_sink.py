"""Iceberg tables and Parquet folders commit each batch once and store their offsets."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from headrace.client.results import TopicPartition
from headrace.pipeline.core.columns import DELETED
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.sinks.data_files import described
from headrace.pipeline.sinks.iceberg_sink import IcebergSink, open_catalog
from headrace.pipeline.sinks.parquet_sink import ParquetSink, parquet_files
from headrace.pipeline.sinks.table_sink import (
    BatchInfo,
    Mode,
    SinkError,
    TableSettings,
    TableSink,
    WrittenFile,
)

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.float64())])
PARTITION = TopicPartition("orders", 0)
PIPELINE = "orders_to_lake"


class Kind:
    """One format: how to open its sink, how to read its rows."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self._home = home

    def sink(self, **settings: object) -> TableSink:
        if self.name == "parquet":
            return ParquetSink(TableSettings(str(self._home / "t"), **settings))  # type: ignore[arg-type]
        named = TableSettings("lake.orders", **settings)  # type: ignore[arg-type]
        return IcebergSink(named, warehouse=str(self._home), catalog={})

    def rows(self) -> pa.Table:
        if self.name == "parquet":
            query = (
                f"select * from read_parquet({parquet_files(str(self._home / 't'))}, "
                "hive_partitioning=true, union_by_name=true) order by id"
            )
            return duckdb.sql(query).to_arrow_table()
        table = open_catalog(str(self._home), {}).load_table("lake.orders")
        return table.scan().to_arrow().sort_by("id")


@pytest.fixture(params=["parquet", "iceberg"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    return Kind(request.param, tmp_path)


def batch(number: int, start: int, end: int) -> BatchInfo:
    return BatchInfo(PIPELINE, number, (OffsetRange("orders", 0, start, end),))


def rows(*ids: int, day: str = "monday") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"id": list(ids), "day": [day] * len(ids), "amount": [float(each) for each in ids]},
        schema=SCHEMA,
    )


def write(sink: TableSink, of: BatchInfo, *batches: pa.RecordBatch) -> Sequence[WrittenFile]:
    return [described(row) for out in sink.write_task(of)(iter(batches)) for row in out.to_pylist()]


def test_a_batch_committed_twice_is_written_once(kind: Kind) -> None:
    sink = kind.sink()
    assert sink.last_commit(PIPELINE, [PARTITION]) is None
    sink.prepare(SCHEMA)
    first = batch(0, 0, 2)
    assert sink.commit(first, write(sink, first, rows(1, 2))).offsets == {PARTITION: 2}
    replayed = sink.commit(first, write(sink, first, rows(1, 2)))
    assert (replayed.batch_id, replayed.offsets) == (0, {PARTITION: 2})
    second = batch(1, 2, 3)
    sink.commit(second, write(sink, second, rows(3)))
    committed = kind.sink().last_commit(PIPELINE, [PARTITION])
    assert committed is not None
    assert (committed.batch_id, committed.offsets) == (1, {PARTITION: 3})
    assert kind.sink().last_commit("another", [PARTITION]) is None
    assert kind.rows().column("id").to_pylist() == [1, 2, 3]


def test_a_batch_without_rows_still_moves_the_offsets(kind: Kind) -> None:
    sink = kind.sink()
    sink.prepare(SCHEMA)
    empty = batch(0, 0, 7)
    assert sink.commit(empty, write(sink, empty)).offsets == {PARTITION: 7}


def test_rows_are_partitioned(kind: Kind) -> None:
    sink = kind.sink(partition_by=("day",))
    sink.prepare(SCHEMA)
    of = batch(0, 0, 3)
    written = write(sink, of, rows(1, 2), rows(3, day="tuesday"))
    assert {each.partition_values["day"] for each in written} == {"monday", "tuesday"}
    sink.commit(of, written)
    found = kind.rows()
    assert found.column("id").to_pylist() == [1, 2, 3]
    assert [str(day) for day in found.column("day").to_pylist()] == ["monday", "monday", "tuesday"]


def test_a_new_column_is_added_and_another_type_is_rejected(kind: Kind) -> None:
    sink = kind.sink()
    sink.prepare(SCHEMA)
    sink.commit(batch(0, 0, 1), write(sink, batch(0, 0, 1), rows(1)))
    wider = SCHEMA.append(pa.field("note", pa.string()))
    sink = kind.sink()
    sink.prepare(wider)
    new = pa.RecordBatch.from_pydict(
        {"id": [2], "day": ["x"], "amount": [1.0], "note": ["hello"]}, schema=wider
    )
    sink.commit(batch(1, 1, 2), write(sink, batch(1, 1, 2), new))
    assert kind.rows().column("note").to_pylist() == [None, "hello"]
    changed = pa.schema([("id", pa.string()), ("day", pa.string()), ("amount", pa.float64())])
    with pytest.raises(SinkError, match="column id is int64 in the table and string"):
        kind.sink().prepare(changed)
    with pytest.raises(SinkError, match="schema_evolution"):
        kind.sink(add_columns=False).prepare(wider.append(pa.field("more", pa.int64())))


def test_a_type_is_remembered_though_the_newest_rows_lack_the_column(kind: Kind) -> None:
    sink = kind.sink()
    sink.prepare(SCHEMA)
    sink.commit(batch(0, 0, 1), write(sink, batch(0, 0, 1), rows(1)))
    fewer = pa.schema([("id", pa.int64())])
    for number in (1, 2):
        sink = kind.sink()
        sink.prepare(fewer)
        of, new = batch(number, number, number + 1), pa.record_batch({"id": [number + 1]}, fewer)
        sink.commit(of, write(sink, of, new))
        with pytest.raises(SinkError, match="column amount is double in the table and string"):
            kind.sink().prepare(pa.schema([("id", pa.int64()), ("amount", pa.string())]))
        sink.compact()
    assert kind.rows().column("amount").to_pylist() == [1.0, None, None]


def test_columns_that_differ_only_in_case_are_rejected(kind: Kind) -> None:
    sink = kind.sink()
    sink.prepare(SCHEMA)
    sink.commit(batch(0, 0, 1), write(sink, batch(0, 0, 1), rows(1)))
    with pytest.raises(SinkError, match="column Id is id in the table"):
        kind.sink().prepare(pa.schema([("Id", pa.int64())]))


def test_a_table_keeps_its_partitioning(kind: Kind) -> None:
    sink = kind.sink(partition_by=("day",))
    sink.prepare(SCHEMA)
    sink.commit(batch(0, 0, 1), write(sink, batch(0, 0, 1), rows(1)))
    for other in ((), ("id",), ("day", "id")):
        with pytest.raises(SinkError, match=r"partitioned by .*day"):
            kind.sink(partition_by=other).prepare(SCHEMA)
    kind.sink(partition_by=("day",)).prepare(SCHEMA)


def test_a_partition_value_that_cannot_name_a_folder_is_explained(kind: Kind) -> None:
    sink = kind.sink(partition_by=("day",))
    sink.prepare(SCHEMA)
    with pytest.raises(SinkError, match="column day has a value that is too long"):
        write(sink, batch(0, 0, 1), rows(1, day="ü" * 60))


def test_an_empty_partition_text_keeps_a_folder_readable(tmp_path: Path) -> None:
    # Spark refuses to read a folder with day= in it.
    kind = Kind("parquet", tmp_path)
    sink = kind.sink(partition_by=("day",))
    sink.prepare(SCHEMA)
    written = write(sink, batch(0, 0, 2), rows(1, day=""), rows(2, day="x"))
    sink.commit(batch(0, 0, 2), written)
    folders = {each.path.partition("/")[0] for each in written}
    assert folders == {"day=__HIVE_DEFAULT_PARTITION__", "day=x"}
    assert kind.rows().column("day").to_pylist() == [None, "x"]


def test_days_beyond_the_year_9999_are_written(kind: Kind) -> None:
    schema = pa.schema([("id", pa.int64()), ("far", pa.date32())])
    far = pa.array([3_664_000], pa.int32()).cast(pa.date32())
    sink = kind.sink()
    sink.prepare(schema)
    new = pa.RecordBatch.from_arrays([pa.array([1]), far], schema=schema)
    (file,) = write(sink, batch(0, 0, 1), new)
    assert "far" not in json.loads(file.stats)["maxValues"]


def test_nested_columns_are_written_in_every_batch(kind: Kind) -> None:
    inner = pa.struct([("sku", pa.string()), ("count", pa.int32())])
    nested = pa.schema(
        [
            ("id", pa.int64()),
            ("tags", pa.list_(pa.string())),
            ("items", pa.list_(inner)),
            ("notes", pa.map_(pa.string(), pa.string())),
            ("raw", pa.binary()),
        ]
    )
    for number in range(2):
        sink = kind.sink()
        sink.prepare(nested)
        values = {
            "id": [number],
            "tags": [["a", None]],
            "items": [[{"sku": "x", "count": number}]],
            "notes": [[("k", "v")]],
            "raw": [b"\x00"],
        }
        new = pa.RecordBatch.from_pydict(values, schema=nested)
        of = batch(number, number, number + 1)
        sink.commit(of, write(sink, of, new))
    found = kind.rows().to_pylist()
    assert [row["items"] for row in found] == [[{"sku": "x", "count": n}] for n in range(2)]
    assert [row["tags"] for row in found] == [["a", None]] * 2
    assert [dict(row["notes"]) for row in found] == [{"k": "v"}] * 2


def test_two_runners_cannot_both_commit_a_batch(kind: Kind, tmp_path: Path) -> None:
    one, other = kind.sink(), kind.sink()
    one.prepare(SCHEMA)
    other.prepare(SCHEMA)
    of = batch(0, 0, 1)
    mine, theirs = write(one, of, rows(1)), write(other, of, rows(1))
    one.commit(of, mine)  # the later one has not removed its files
    with suppress(SinkError):
        other.commit(of, theirs)
    assert kind.rows().column("id").to_pylist() == [1]
    if kind.name == "parquet":
        assert len(list(tmp_path.glob("t/*.parquet"))) == 1


def test_an_iceberg_merge_updates_deletes_and_inserts_rows(tmp_path: Path) -> None:
    kind = Kind("iceberg", tmp_path)
    sink = kind.sink(mode=Mode.MERGE, key=("id",))
    schema = SCHEMA.append(pa.field(DELETED, pa.bool_()))
    sink.prepare(schema)
    changes: Callable[..., pa.RecordBatch] = lambda *pairs: pa.RecordBatch.from_pydict(  # noqa: E731
        {
            "id": [key for key, _ in pairs],
            "day": ["d"] * len(pairs),
            "amount": [amount for _, amount in pairs],
            DELETED: [amount is None for _, amount in pairs],
        },
        schema=schema,
    )
    for number, pairs in enumerate([((1, 1.0), (2, 2.0)), ((1, 10.0), (2, None), (3, 3.0))]):
        of = batch(number, number, number + 1)
        sink.commit(of, write(sink, of, changes(*pairs)))
    table = kind.rows()
    assert table.select(["id", "amount"]).to_pydict() == {"id": [1, 3], "amount": [10.0, 3.0]}
    assert not list(tmp_path.glob("lake/orders/_headrace/*/*"))  # nothing is left over


@pytest.mark.parametrize("key", [("k",), ("k", "id")])
def test_nan_keys_are_merged_in_iceberg(tmp_path: Path, key: tuple[str, ...]) -> None:
    kind = Kind("iceberg", tmp_path)
    sink = kind.sink(mode=Mode.MERGE, key=key)
    schema = pa.schema([("k", pa.float64()), ("id", pa.int64()), ("n", pa.int64())])
    sink.prepare(schema)
    staged = schema.append(pa.field(DELETED, pa.bool_()))
    for number, values in enumerate([[float("nan"), 1.5], [float("nan"), 1.5], [float("nan")]]):
        columns = {
            "k": values,
            "id": [1] * len(values),
            "n": [number] * len(values),
            DELETED: [number == 2] * len(values),
        }
        of = batch(number, number, number + 1)
        new = pa.RecordBatch.from_pydict(columns, schema=staged)
        sink.commit(of, write(sink, of, new))
    assert kind.rows().to_pylist() == [{"k": 1.5, "id": 1, "n": 1}]


def test_a_nested_column_cannot_be_an_iceberg_key(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.struct([("a", pa.int64())]))])
    sink = Kind("iceberg", tmp_path).sink(mode=Mode.MERGE, key=("id",))
    with pytest.raises(SinkError, match="rows cannot be merged by id"):
        sink.prepare(schema)


def test_an_iceberg_table_is_created_with_its_partitioning_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = Kind("iceberg", tmp_path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pyiceberg.table.update.spec.UpdateSpec.add_identity", killed)
        with pytest.raises(KeyboardInterrupt):
            kind.sink(partition_by=("day",)).prepare(SCHEMA)
    kind.sink(partition_by=("day",)).prepare(SCHEMA)
    with pytest.raises(SinkError, match="partitioned by identity of day, the spec says nothing"):
        kind.sink().prepare(SCHEMA)


def test_a_batch_removes_only_its_own_leftovers(tmp_path: Path) -> None:
    """A pipeline's name may look like another name with a batch number."""
    kind = Kind("parquet", tmp_path)
    sink = kind.sink()
    sink.prepare(SCHEMA)
    theirs = BatchInfo("orders-1", 0, batch(0, 0, 1).ranges)
    under_way = write(sink, theirs, rows(1))
    mine = BatchInfo("orders", 1, batch(0, 0, 1).ranges)
    sink.commit(mine, write(sink, mine, rows(2)))
    sink.commit(theirs, under_way)
    assert kind.rows().column("id").to_pylist() == [1, 2]


def test_files_of_a_lost_worker_are_removed_by_the_commit_or_the_next_batch(
    tmp_path: Path,
) -> None:
    """Tools that read every file of the folder see each row once."""
    kind = Kind("parquet", tmp_path)
    sink = kind.sink()
    sink.prepare(SCHEMA)
    first = batch(0, 0, 2)
    task = sink.write_task(first)
    lost, done = (
        [each for out in task(iter([rows(1, 2)])) for each in out.to_pylist()] for _ in "ab"
    )
    sink.commit(first, [described(row) for row in done])
    assert [file.name for file in (tmp_path / "t").glob("*.parquet")] == [done[0]["path"]]
    list(task(iter([rows(1, 2)])))  # considered dead, but only slow
    second = batch(1, 2, 3)
    sink.commit(second, write(sink, second, rows(3)))
    found = duckdb.sql(f"select id from '{tmp_path}/t/*.parquet' order by id").fetchall()
    assert found == [(1,), (2,), (3,)]
    assert lost[0]["path"] != done[0]["path"]


def test_a_parquet_folder_cannot_be_merged_into(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="format: delta or iceberg"):
        ParquetSink(TableSettings(str(tmp_path), mode=Mode.MERGE, key=("id",)))


def test_a_crash_before_the_manifest_leaves_no_duplicates_after_the_replay(
    tmp_path: Path,
) -> None:
    kind = Kind("parquet", tmp_path)
    sink = kind.sink()
    sink.prepare(SCHEMA)
    of = batch(0, 0, 2)
    write(sink, of, rows(1, 2))
    again = kind.sink()
    again.prepare(SCHEMA)
    again.commit(of, write(again, of, rows(1, 2)))
    everything = duckdb.sql(f"select id from '{tmp_path}/t/*.parquet' order by id").fetchall()
    assert everything == [(1,), (2,)]
