"""A Delta table commits each batch once and stores its offsets."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.client.results import TopicPartition
from headrace.pipeline.core.columns import DELETED
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.sinks.data_files import described
from headrace.pipeline.sinks.delta_sink import DeltaSink
from headrace.pipeline.sinks.table_sink import (
    BatchInfo,
    Mode,
    SinkError,
    TableSettings,
    WrittenFile,
)

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.float64())])
PARTITION = TopicPartition("orders", 0)


def batch(number: int, start: int, end: int) -> BatchInfo:
    return BatchInfo("orders_to_lake", number, (OffsetRange("orders", 0, start, end),))


def rows(*ids: int, day: str = "monday", schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    values = {"id": list(ids), "day": [day] * len(ids), "amount": [float(i) for i in ids]}
    return pa.RecordBatch.from_pydict(
        {name: values.get(name, [None] * len(ids)) for name in schema.names}, schema=schema
    )


def write(sink: DeltaSink, of: BatchInfo, *batches: pa.RecordBatch) -> Sequence[WrittenFile]:
    return [described(row) for out in sink.write_task(of)(iter(batches)) for row in out.to_pylist()]


def ids(table: Path) -> list[int]:
    return sorted(DeltaTable(str(table)).to_pyarrow_table().column("id").to_pylist())


def test_a_batch_committed_twice_is_written_once(tmp_path: Path) -> None:
    sink = DeltaSink(TableSettings(str(tmp_path / "t")))
    assert sink.last_commit("orders_to_lake", [PARTITION]) is None
    sink.prepare(SCHEMA)
    first = batch(0, 0, 2)
    written = write(sink, first, rows(1, 2))
    assert sink.commit(first, written).offsets == {PARTITION: 2}
    replayed = sink.commit(first, write(sink, first, rows(1, 2)))
    assert (replayed.batch_id, replayed.offsets) == (0, {PARTITION: 2})
    assert ids(tmp_path / "t") == [1, 2]
    sink.commit(batch(1, 2, 3), write(sink, batch(1, 2, 3), rows(3)))
    again = DeltaSink(TableSettings(str(tmp_path / "t")))
    committed = again.last_commit("orders_to_lake", [PARTITION])
    assert committed is not None
    assert (committed.batch_id, committed.offsets) == (1, {PARTITION: 3})
    assert again.last_commit("another", [PARTITION]) is None


def test_rows_are_partitioned_and_found_by_their_partition(tmp_path: Path) -> None:
    sink = DeltaSink(TableSettings(str(tmp_path / "t"), partition_by=("day",)))
    sink.prepare(SCHEMA)
    of = batch(0, 0, 3)
    written = write(sink, of, rows(1, 2), rows(3, day="a/b c"), rows(4, day=None))
    sink.commit(of, written)
    table = DeltaTable(str(tmp_path / "t"))
    found = table.to_pyarrow_table(filters=[("day", "=", "a/b c")])
    assert found.column("id").to_pylist() == [3]
    assert ids(tmp_path / "t") == [1, 2, 3, 4]


def test_a_new_column_is_null_in_old_rows(tmp_path: Path) -> None:
    settings = TableSettings(str(tmp_path / "t"))
    sink = DeltaSink(settings)
    sink.prepare(SCHEMA)
    sink.commit(batch(0, 0, 1), write(sink, batch(0, 0, 1), rows(1)))
    wider = SCHEMA.append(pa.field("note", pa.string()))
    sink = DeltaSink(settings)
    sink.prepare(wider)
    new = pa.RecordBatch.from_pydict(
        {"id": [2], "day": ["x"], "amount": [1.0], "note": ["hello"]}, schema=wider
    )
    sink.commit(batch(1, 1, 2), write(sink, batch(1, 1, 2), new))
    table = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().sort_by("id")
    assert table.column("note").to_pylist() == [None, "hello"]


def test_a_column_of_another_type_is_rejected_by_name(tmp_path: Path) -> None:
    settings = TableSettings(str(tmp_path / "t"))
    DeltaSink(settings).prepare(SCHEMA)
    changed = pa.schema([("id", pa.string()), ("day", pa.string()), ("amount", pa.float64())])
    with pytest.raises(SinkError, match="column id is int64 in the table and string"):
        DeltaSink(settings).prepare(changed)


def test_a_merge_updates_deletes_and_inserts_rows(tmp_path: Path) -> None:
    sink = DeltaSink(TableSettings(str(tmp_path / "t"), mode=Mode.MERGE, key=("id",)))
    schema = SCHEMA.append(pa.field(DELETED, pa.bool_()))
    sink.prepare(schema)

    def upserts(*pairs: tuple[int, float | None]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {
                "id": [key for key, _ in pairs],
                "day": ["d"] * len(pairs),
                "amount": [amount for _, amount in pairs],
                DELETED: [amount is None for _, amount in pairs],
            },
            schema=schema,
        )

    for number, changes in enumerate([((1, 1.0), (2, 2.0)), ((1, 10.0), (2, None), (3, 3.0))]):
        of = batch(number, number, number + 1)
        sink.commit(of, write(sink, of, upserts(*changes)))
    table = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().sort_by("id")
    assert table.select(["id", "amount"]).to_pydict() == {"id": [1, 3], "amount": [10.0, 3.0]}
    absent = batch(2, 2, 4)
    assert sink.commit(absent, write(sink, absent, upserts((7, None)))).offsets == {PARTITION: 4}
    empty = batch(3, 4, 5)
    assert sink.commit(empty, write(sink, empty)).offsets == {PARTITION: 5}


def test_two_runners_of_one_pipeline_cannot_both_commit_a_batch(tmp_path: Path) -> None:
    settings = TableSettings(str(tmp_path / "t"))
    one, other = DeltaSink(settings), DeltaSink(settings)
    one.prepare(SCHEMA)
    other.prepare(SCHEMA)
    of = batch(0, 0, 1)
    stale = other._open_existing()
    one.commit(of, write(one, of, rows(1)))
    other._open_existing = lambda: stale  # type: ignore[method-assign]
    with suppress(SinkError):
        other.commit(of, write(other, of, rows(1)))
    assert ids(tmp_path / "t") == [1]
