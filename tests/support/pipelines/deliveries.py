"""The two steps of a delivery without Spark: tasks run one by one, and pass on their records."""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from headrace.pipeline.batch.batch_job import BatchResult, result_of
from headrace.pipeline.core.columns import DELETED, ERROR, RECORD
from headrace.pipeline.sinks.bad_record_split import ERROR_ARROW
from headrace.pipeline.sinks.topic_delivery import DeliverTask, Delivery, PlaceTask

RECORD_ARROW = pa.struct(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def shaped(rows: pa.RecordBatch, records: Sequence[object] | None = None) -> pa.RecordBatch:
    """Good rows with the internal columns added."""
    count = rows.num_rows
    own = [
        pa.array(records or [None] * count, RECORD_ARROW),
        pa.nulls(count, ERROR_ARROW),
        pa.array([False] * count),
    ]
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *own], names=[*rows.schema.names, RECORD, ERROR, DELETED]
    )


def place(delivery: Delivery, rows: pa.RecordBatch, task: int, staging: str = "") -> pa.Table:
    """The result of one task of the first step."""
    return pa.Table.from_batches(PlaceTask(delivery, staging).place(iter([rows]), task))


def deliver(delivery: Delivery, placed: Iterable[pa.Table]) -> BatchResult:
    """The second step: each task delivers some partitions."""
    together = pa.concat_tables(placed)
    lines: list[dict[str, object]] = []
    for task in range(delivery.tasks):
        mine = [each.as_py() % delivery.tasks == task for each in together.column("partition")]
        rows = together.filter(pa.array(mine)).sort_by("place")
        for report in DeliverTask(delivery)(iter(rows.to_batches(max_chunksize=100))):
            lines += report.to_pylist()
    return result_of(lines)


def delivered(delivery: Delivery, *tasks: pa.RecordBatch, staging: str = "") -> BatchResult:
    """Runs both steps."""
    placed = [place(delivery, shaped(rows), at, staging) for at, rows in enumerate(tasks)]
    return deliver(delivery, placed) if placed else result_of([])
