"""Tables in the states that pipelines create: appended, with new columns, merged, compacted."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from headrace.pipeline.core.columns import DELETED
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.sinks.data_files import described
from headrace.pipeline.sinks.delta_sink import DeltaSink
from headrace.pipeline.sinks.iceberg_sink import IcebergSink
from headrace.pipeline.sinks.table_sink import BatchInfo, Mode, TableSettings, TableSink

ICEBERG_NAME = "lake.orders"
STAGES = ("append", "columns", "merge", "compact")

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("made", pa.timestamp("us", tz="UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)
WIDER = SCHEMA.append(pa.field("note", pa.string()))


class Order(NamedTuple):
    """A row of the table. The note is null in rows older than that column."""

    id: int
    day: str | None
    amount: Decimal
    note: str | None


class LakeTable:
    """A table in a folder, `delta` or `iceberg`, that passes through the stages."""

    def __init__(self, kind: str, home: Path) -> None:
        self.kind = kind
        self.home = home
        self.path = home / "orders"
        self._batches = 0

    def stages(self) -> Iterator[tuple[str, list[Order]]]:
        """Each stage when it is reached, and the rows of the table at that time."""
        orders = {each: order(each) for each in range(6)}
        self._write(self._sink(), SCHEMA, list(orders.values()))
        yield "append", list(orders.values())

        noted = [order(each, note=f"note {each}") for each in range(6, 9)]
        self._write(self._sink(), WIDER, noted)
        orders.update((each.id, each) for each in noted)
        yield "columns", list(orders.values())

        changed = [order(1, amount="99.50", note="dearer"), order(20, note="late")]
        gone = [order(3), order(7)]
        self._write(self._sink(merges=True), WIDER, changed, gone)
        orders.update((each.id, each) for each in changed)
        for each in gone:
            del orders[each.id]
        yield "merge", sorted(orders.values())

        self._sink().compact()
        yield "compact", sorted(orders.values())

    def _sink(self, *, merges: bool = False) -> TableSink:
        mode, key = (Mode.MERGE, ("id",)) if merges else (Mode.APPEND, ())
        name = str(self.path) if self.kind == "delta" else ICEBERG_NAME
        settings = TableSettings(name, mode=mode, key=key, partition_by=("day",))
        if self.kind == "delta":
            return DeltaSink(settings)
        return IcebergSink(settings, warehouse=str(self.home), catalog={})

    def _write(
        self, sink: TableSink, schema: pa.Schema, rows: Sequence[Order], gone: Sequence[Order] = ()
    ) -> None:
        schema = schema.append(pa.field(DELETED, pa.bool_())) if gone else schema
        sink.prepare(schema)
        wanted = OffsetRange("orders", 0, self._batches, self._batches + 1)
        batch = BatchInfo("orders_to_lake", self._batches, (wanted,))
        self._batches += 1
        data = arrow(rows, schema, gone)
        write = sink.write_task(batch)
        written = [described(row) for out in write(iter([data])) for row in out.to_pylist()]
        sink.commit(batch, written)


def order(number: int, *, amount: str = "1.25", note: str | None = None) -> Order:
    day = None if number == 5 else f"2026-01-0{1 + number % 2}"
    return Order(number, day, Decimal(amount), note)


def arrow(rows: Sequence[Order], schema: pa.Schema, gone: Sequence[Order] = ()) -> pa.RecordBatch:
    every = [*rows, *gone]
    columns = {
        "id": [each.id for each in every],
        "day": [each.day for each in every],
        "amount": [each.amount for each in every],
        "made": [datetime(2026, 1, 1, tzinfo=UTC)] * len(every),
        "tags": [["a", "b"]] * len(every),
        "note": [each.note for each in every],
        DELETED: [False] * len(rows) + [True] * len(gone),
    }
    return pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names}, schema=schema)
