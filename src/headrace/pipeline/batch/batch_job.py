"""One batch as one Spark job: read exact ranges, parse, transform, write. The driver commits later.

The job is one pass over the data, without a shuffle unless the flow merges. It uses DataFrames
only, so it works with classic Spark and with Spark Connect.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from headrace.pipeline.batch.transform import shape
from headrace.pipeline.core.columns import DELETED, ERROR, OWN, RECORD
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.core.packed_columns import packed_error, packed_record
from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.prepared_format import Schemas
from headrace.pipeline.formats.record_check import literal, problem
from headrace.pipeline.formats.row_parser import parse
from headrace.pipeline.formats.schema import StructOf, quoted, to_ddl
from headrace.pipeline.formats.schema_mismatch import Explanation
from headrace.pipeline.sinks.bad_record_split import (
    COUNT,
    DAMAGED,
    FAILED,
    FILE,
    READ,
    REPORT_DDL,
    SKIPPED,
    STAGED,
    FailedRecord,
    SplitTask,
)
from headrace.pipeline.sinks.data_files import FileTask, described
from headrace.pipeline.sinks.file_stores import is_on_disk, path_of
from headrace.pipeline.sinks.map_in_arrow import map_in_arrow
from headrace.pipeline.sinks.table_sink import SinkError, TaskWriter, WrittenFile
from headrace.pipeline.sinks.topic_delivery import Delivery
from headrace.pipeline.source.options import DAMAGE
from headrace.pipeline.source.ranges import ranges_to_json
from headrace.pipeline.spec.flow import Flow, PythonStep, SqlStep
from headrace.pipeline.spec.sinks import TableSink
from headrace.pipeline.spec.sources import TopicSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NEWEST: Final = "_newest"
_SEES_HEADERS: Final = re.compile(
    rf"headers|{RECORD}\b(?!`?\s*\.\s*`?(?:key|value|topic|partition|offset|timestamp|timestampType)\b)",
    re.IGNORECASE,
)
"""SQL that reads the headers, by their name or as part of the whole record."""


_WANTED: Final = f"{ERROR}.action <> 'skip' OR {ERROR}.class = {literal(BadRecord.DAMAGED_BATCH)}"
"""Records that a table's tasks need. Of other skipped records they only count the errors."""


class BatchResult(NamedTuple):
    """The files that a job wrote, and its bad records."""

    written: tuple[WrittenFile, ...]
    staged: tuple[str, ...]
    """Parquet files of `_record` and `_error`: the batch's dead letters."""
    rows: int
    bad: Mapping[str, int]
    """Bad records by error class, including skipped ones."""
    skipped: int
    dead_letters: int
    failed: FailedRecord | None
    damaged: tuple[str, ...] = ()
    """Damaged batches of the log that were skipped: partition, offsets and reason."""
    record_bytes: float | None = None
    """The average size of a record, if the reading tasks reported it."""


def read_records(
    spark: "SparkSession", flow: Flow, ranges: Sequence[OffsetRange], kafka: Mapping[str, str]
) -> "DataFrame":
    """The records of exactly these ranges."""
    return spark.read.format("headrace").options(**source_options(flow, ranges, kafka)).load()


def source_options(
    flow: Flow, ranges: Sequence[OffsetRange], kafka: Mapping[str, str]
) -> dict[str, str]:
    """The options of `format("headrace")` that read these ranges."""
    options = {
        "headrace.ranges": ranges_to_json(ranges),
        "includeHeaders": str(needs_headers(flow)).lower(),
    }
    if isinstance(flow.source, TopicSource) and flow.source.on_corrupt == "skip":
        options[DAMAGE] = "true"
    return options | {f"kafka.{name}": value for name, value in kafka.items()}


def observed(records: "DataFrame") -> tuple["DataFrame", Callable[[], float | None]]:
    """The records, and a function that returns their average size in bytes after the job.

    The function returns None if Spark does not report it. Spark Connect reports only observations
    of the job's own plan, and the view that an SQL step reads belongs to another plan.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    seen = Observation()
    of = f"{RECORD}." if RECORD in records.columns else ""
    size = F.coalesce(F.octet_length(f"{of}value"), F.lit(0))
    size += F.coalesce(F.octet_length(f"{of}key"), F.lit(0))
    watched = records.observe(seen, F.avg(size).alias("bytes"))

    def average() -> float | None:
        found: float | None = seen.get.get("bytes")
        return found

    return watched, average


def needs_headers(flow: Flow) -> bool:
    """Whether the flow reads headers: for dead letters, in Python, or in SQL that names them.

    Reading headers costs time, so other flows leave them out.
    """
    texts = [rule.sql for rule in flow.expect]
    texts += [step.sql for step in flow.transform if isinstance(step, SqlStep)]
    return (
        flow.dead_letter is not None
        or any(isinstance(step, PythonStep) for step in flow.transform)
        or any(_SEES_HEADERS.search(text) for text in texts)
    )


def output_rows(records: "DataFrame", flow: Flow, schemas: Schemas) -> "DataFrame":
    """The flow's rows with Headrace's own columns; one row per key if the flow merges."""
    rows = shape(parse(records, flow, schemas), flow)
    if isinstance(flow.sink, TableSink) and flow.sink.mode == "merge":
        return _newest_per_key(_mark_missing_keys(rows, flow, flow.sink.key), flow.sink.key)
    return rows


def output_schema(rows: "DataFrame") -> pa.Schema:
    """The columns that the sink gets; raises `SinkError` for columns that no table can have."""
    return _table_schema(rows.schema)


def columns_schema(columns: StructOf) -> pa.Schema:
    """The sink's columns for rows that have exactly the columns of the schema."""
    from pyspark.sql.types import StructType

    found = StructType.fromDDL(to_ddl(columns))
    assert isinstance(found, StructType)
    return _table_schema(found)


def _table_schema(columns: "StructType") -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import NullType, StructType

    fields = [field for field in columns.fields if field.name not in OWN]
    names = Counter(field.name.lower() for field in fields)
    twice = sorted({field.name for field in fields if names[field.name.lower()] > 1})
    if twice:
        raise SinkError(
            f"the output has several columns named {', '.join(twice)}: rename them (to Spark and "
            "to tables, id and Id are one name)"
        )
    for field in fields:
        if isinstance(field.dataType, NullType):
            raise SinkError(f"column {field.name} is always null: give it a type with CAST")
    # Times are UTC in the session and in the table.
    return to_arrow_schema(StructType(fields), timezone="UTC")


def write_rows(
    rows: "DataFrame",
    flow: Flow,
    write: TaskWriter | Delivery,
    staging: str,
    explanation: Explanation | None = None,
) -> BatchResult:
    """Runs the job. Files of good rows go where the sink wants them, bad records into `staging`."""
    if isinstance(write, Delivery):
        job = write.run(_packed(rows, "true"), staging, explanation)
    else:
        merges = isinstance(flow.sink, TableSink) and flow.sink.mode == "merge"
        task = SplitTask(write, staging, merges, explanation)
        job = map_in_arrow(_packed(rows, _WANTED, with_deleted=merges), task, REPORT_DDL)
    result = result_of([row.asDict() for row in job.collect()])
    check_seen([Path(each) for each in result.staged], staging)
    if isinstance(write, FileTask) and is_on_disk(write.location):
        base = Path(path_of(write.location))
        check_seen([base / each.path for each in result.written], write.location)
    return result


def _packed(rows: "DataFrame", keep: str, *, with_deleted: bool = False) -> "DataFrame":
    """The columns that the sink's tasks need: each further column costs Spark time in every row."""
    columns = [quoted(name) for name in rows.columns if name not in OWN]
    own = [packed_record(keep=keep), packed_error(), *([DELETED] if with_deleted else [])]
    return rows.selectExpr(*columns, *own)


def check_seen(files: Sequence[Path], folder: str) -> None:
    """Raises `SinkError` if workers wrote to a disk that the driver does not see.

    A commit of files on another machine would lose their rows silently.
    """
    unseen = [file for file in files if not file.exists()]
    if unseen:
        raise SinkError(
            f"Spark's workers wrote {unseen[0].name} into {folder}, but this machine does not have "
            "the file: on a cluster, the checkpoint and tables on disk must be in directories that "
            "the driver and all workers share under the same path (or put the table in a bucket)"
        )


def result_of(report: Sequence[Mapping[str, object]]) -> BatchResult:
    """The sum of the tasks' reports."""
    by_kind: dict[str, list[Mapping[str, object]]] = {}
    for each in report:
        by_kind.setdefault(str(each["kind"]), []).append(each)
    written = tuple(described(row) for row in by_kind.get(FILE, ()))
    bad: Counter[str] = Counter()
    for row in by_kind.get(COUNT, ()):
        bad[str(row["path"])] += _int(row["rows"])
    failed = [FailedRecord(*json.loads(str(row["stats"]))) for row in by_kind.get(FAILED, ())]
    return BatchResult(
        written=written,
        staged=tuple(sorted(str(row["path"]) for row in by_kind.get(STAGED, ()))),
        rows=sum(file.rows for file in written),
        bad=dict(bad),
        skipped=sum(_int(row["rows"]) for row in by_kind.get(SKIPPED, ())),
        dead_letters=sum(_int(row["rows"]) for row in by_kind.get(STAGED, ())),
        failed=min(failed, default=None),
        damaged=tuple(sorted(f"{row['path']}: {row['stats']}" for row in by_kind.get(DAMAGED, ()))),
        record_bytes=_average_bytes(by_kind.get(READ, ())),
    )


def _average_bytes(read: Sequence[Mapping[str, object]]) -> float | None:
    records = sum(_int(row["rows"]) for row in read)
    return sum(_int(row["size_bytes"]) for row in read) / records if records else None


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _mark_missing_keys(rows: "DataFrame", flow: Flow, key: Sequence[str]) -> "DataFrame":
    """Marks rows without a key as bad: a merge can neither find nor replace them."""
    from pyspark.sql import functions as F  # noqa: N812

    absent_columns = [name for name in key if name not in rows.columns]
    if absent_columns:
        raise SinkError(
            f"the rows have no column {', '.join(absent_columns)}, only "
            f"{', '.join(name for name in rows.columns if name not in OWN)}; correct the key or "
            "the transform"
        )
    absent = " OR ".join(f"{quoted(name)} IS NULL" for name in key)
    message = literal(f"the merge key {', '.join(key)} must not be null")
    found = problem(BadRecord.MISSING_KEY, message, flow.on_error)
    return rows.withColumn(
        ERROR, F.expr(f"CASE WHEN {ERROR} IS NULL AND ({absent}) THEN {found} ELSE {ERROR} END")
    )


def _newest_per_key(rows: "DataFrame", key: Sequence[str]) -> "DataFrame":
    """Keeps the last good row of each key, and all bad rows.

    Records of one key are usually in one partition, where the last has the highest offset. Across
    partitions there is no order; the choice there is arbitrary but always the same.
    """
    position = f"{RECORD}.topic, {RECORD}.partition, {RECORD}.offset"
    slim = (
        "named_struct('key', CAST(NULL AS binary), 'value', CAST(NULL AS binary), "
        f"'topic', {RECORD}.topic, 'partition', {RECORD}.partition, 'offset', {RECORD}.offset, "
        f"'timestamp', {RECORD}.timestamp, 'timestampType', {RECORD}.timestampType, "
        "'headers', CAST(NULL AS array<struct<key: string, value: binary>>))"
    )
    columns = [quoted(name) for name in rows.columns if name not in OWN]
    light = rows.selectExpr(
        *columns,
        f"CASE WHEN {ERROR} IS NULL THEN {slim} ELSE {RECORD} END AS {RECORD}",
        ERROR,
        DELETED,
    )
    by_key = ", ".join(quoted(name) for name in key)
    newest_first = ", ".join(f"{each} DESC" for each in position.split(", "))
    alone = f"CASE WHEN {ERROR} IS NOT NULL THEN struct({position}) END"
    numbered = light.selectExpr(
        "*",
        f"row_number() OVER (PARTITION BY {by_key}, {alone} ORDER BY {newest_first}) AS {_NEWEST}",
    )
    return numbered.where(f"{_NEWEST} = 1").drop(_NEWEST)
