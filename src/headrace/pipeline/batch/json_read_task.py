"""Tasks that turn JSON records into rows while they read them.

Most records have a simple form, which `formats.simple_json` reads ten times as fast as Spark. The
task that fetched them parses them at once. The next step depends on the flow. If the flow only
appends rows to a table, the task writes them itself and reports only the names of its files. If
there is SQL between, the rows go to Spark with their columns. In both cases, records that are not
simple go to Spark unchanged. `formats.row_parser` parses them and explains the bad ones.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.client.results import TopicPartition
from headrace.pipeline.core.columns import RECORD, RECORD_TYPE, REPORT, SIMPLE, simple_field
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.formats.new_fields import FieldWatch
from headrace.pipeline.formats.prepared_format import PreparedFormat, Schemas
from headrace.pipeline.formats.schema import Primitive, StructOf, leaf_types, type_text
from headrace.pipeline.formats.simple_json.layout import Unsupported, layout
from headrace.pipeline.formats.simple_json.reader import SimpleReader
from headrace.pipeline.sinks.bad_record_split import FILE, READ, line
from headrace.pipeline.sinks.data_files import FileTask, Writing, describe
from headrace.pipeline.sinks.partition_values import suspect_partition_values
from headrace.pipeline.sinks.schema_evolution import conform
from headrace.pipeline.source import row_schema
from headrace.pipeline.source.byte_limit import ByteLimit, ByteLimitWatch
from headrace.pipeline.source.datasource import records_of
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.read_plan import tasks
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.formats import Avro, Json, Protobuf
from headrace.pipeline.spec.sinks import TableSink
from headrace.records.arrow.columns import RecordArrays

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UTC: Final = "UTC"


@dataclass(frozen=True, slots=True)
class SimpleForm:
    """The form of simple records; picklable."""

    columns: StructOf
    limit_bytes: int
    zoneless: bool
    """Whether times may be without a zone: the session's is UTC."""
    unknown_names: bool
    """Whether records may have fields that the schema does not name."""

    def reader(self) -> SimpleReader:
        return SimpleReader(
            self.columns,
            limit_bytes=self.limit_bytes,
            zoneless=self.zoneless,
            unknown_names=self.unknown_names,
        )


def simple_form(prepared: PreparedFormat, limit_bytes: int, timezone: str) -> SimpleForm | None:
    """None where Spark has to read every record."""
    given = prepared.format
    if not isinstance(given, Json):
        return None
    types = set(leaf_types(prepared.columns))
    timed = {Primitive("timestamp"), Primitive("timestamp_ntz")}
    if given.timestamp_format is not None and types & timed:
        return None
    if given.date_format is not None and Primitive("date") in types:
        return None
    try:
        layout(prepared.columns)
    except Unsupported:
        return None
    return SimpleForm(
        prepared.columns,
        limit_bytes,
        zoneless=timezone == UTC,
        # To know whether a key is there twice, one has to know it. Where the schema is inferred,
        # other names may be new columns.
        unknown_names=given.duplicate_keys != "error" and given.schema_ is not None,
    )


def form_of(schemas: Schemas, limit_bytes: int, timezone: str) -> SimpleForm | None:
    """Of a flow's records. Keys that tasks decode are made into columns before there are rows."""
    if schemas.key is not None and isinstance(schemas.key.format, Avro | Protobuf):
        return None
    return simple_form(schemas.value, limit_bytes, timezone)


def writes_while_reading(flow: Flow, schemas: Schemas) -> bool:
    """Whether records of the simple form go to the table without any step between."""
    sink = flow.sink
    appends = isinstance(sink, TableSink) and sink.mode == "append"
    return appends and not flow.transform and not flow.expect and schemas.key is None


def read_and_parse(
    spark: "SparkSession",
    options: SourceOptions,
    form: SimpleForm,
    write: FileTask | None = None,
    bound: ByteLimit | None = None,
    watch: FieldWatch | None = None,
) -> "DataFrame":
    """The records of the options' ranges.

    With `write`, simple records go into its files, and rows with a `_report` describe these files.
    Without it, the result has all records, the simple ones with their columns, within `bound`.
    `watch` finds fields that the columns lack.
    """
    planned = tasks(options.ranges, options)
    task = ReadTask(tuple(planned), options, form, write, bound, watch)
    count = max(1, len(planned))
    return spark.range(0, count, 1, count).mapInArrow(task, task.ddl)


@dataclass(frozen=True)
class ReadTask:
    """Picklable: Spark sends it to its workers. Its input is the number of the task."""

    ranges: tuple[tuple[OffsetRange, ...], ...]
    """The ranges of each task."""
    options: SourceOptions
    form: SimpleForm
    write: FileTask | None
    bound: ByteLimit | None = None
    watch: FieldWatch | None = None

    @property
    def ddl(self) -> str:
        read = self.options.read
        if self.write is not None:
            records = row_schema.schema(
                with_headers=read.with_headers, with_damage=read.with_damage
            )
            return f"{records}, {REPORT} string"
        fields = ", ".join(
            f"{simple_field(number)}: {type_text(each.type)}"
            for number, each in enumerate(self.form.columns.columns)
        )
        damage = row_schema.DAMAGE if read.with_damage else ""
        return f"{RECORD} {RECORD_TYPE}{damage}, {SIMPLE} struct<{fields}>"

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = tuple(
            each
            for batch in numbers
            for number in batch.column(0).to_pylist()
            if number < len(self.ranges)
            for each in self.ranges[number]
        )
        if self.write is None:
            yield from self._with_columns(wanted)
            return
        writing = self.write.open()
        try:
            yield from self._write_files(wanted, self.write, writing)
        except BaseException:
            writing.abandon()
            raise

    def _with_columns(self, wanted: tuple[OffsetRange, ...]) -> Iterator[pa.RecordBatch]:
        reader, read = self.form.reader(), self.options.read
        watch = None if self.bound is None else ByteLimitWatch(self.bound)
        fields = None if self.watch is None else self.watch.open()
        names = [RECORD, *([row_schema.DAMAGE_COLUMN] if read.with_damage else []), SIMPLE]
        for each, records in records_of(wanted, self.options):
            if watch is not None:
                watch.add_chunk(records)
            batch = self._record_batch(records, each)
            parsed, simple = _parse_values(reader, records)
            columns, mask = parsed.columns, None
            if not simple.all():
                if fields is not None:
                    fields.add_records(records.value.filter(pa.array(~simple)))
                places = np.cumsum(simple) - 1
                taken = pa.array(places, pa.int64(), mask=~simple)
                columns = [column.take(taken) for column in columns]
                mask = pa.array(~simple)
            named = [simple_field(number) for number in range(len(columns))]
            made = pa.StructArray.from_arrays(columns, names=named, mask=mask)
            damage = [batch.column(row_schema.DAMAGE_COLUMN)] if read.with_damage else []
            yield pa.RecordBatch.from_arrays(
                [row_schema.as_structs(batch), *damage, made], names=names
            )
        if fields is not None:
            fields.close()

    def _write_files(
        self, wanted: tuple[OffsetRange, ...], write: FileTask, writing: Writing
    ) -> Iterator[pa.RecordBatch]:
        reader = self.form.reader()
        fields = None if self.watch is None else self.watch.open()
        count = size_bytes = 0
        for each, records in records_of(wanted, self.options):
            parsed, simple = _without_suspect_partitions(
                *_parse_values(reader, records), write.partition_by
            )
            writing.add(conform(parsed, write.schema))
            count += len(records)
            size_bytes += records.key_bytes + records.value_bytes
            if not simple.all():
                if fields is not None:
                    fields.add_records(records.value.filter(pa.array(~simple)))
                rest = self._record_batch(records, each).filter(pa.array(~simple))
                yield rest.append_column(REPORT, pa.nulls(rest.num_rows, pa.string()))
        writing.close()
        if fields is not None:
            fields.close()
        reports = [
            {**described, "kind": FILE} for described in describe(writing.written).to_pylist()
        ]
        reports.append(line(READ, rows=count, size=size_bytes))
        yield self._report_rows(reports)

    def _record_batch(self, records: RecordArrays, of: TopicPartition) -> pa.RecordBatch:
        damage = self.options.read.with_damage
        return row_schema.to_batch(records, of.topic, of.partition, with_damage=damage)

    def _report_rows(self, reports: list[dict[str, object]]) -> pa.RecordBatch:
        """Rows that carry reports instead of records."""
        read = self.options.read
        schema = row_schema.arrow_schema(
            with_headers=read.with_headers, with_damage=read.with_damage
        )
        texts = pa.array([json.dumps(each) for each in reports], pa.string())
        columns = [pa.nulls(len(texts), field.type) for field in schema]
        return pa.RecordBatch.from_arrays([*columns, texts], names=[*schema.names, REPORT])


def _without_suspect_partitions(
    parsed: pa.RecordBatch, simple: np.ndarray, partition_by: Sequence[str]
) -> tuple[pa.RecordBatch, np.ndarray]:
    """Without rows that may not fit the table's partitions; Spark checks those by their records."""
    suspects = suspect_partition_values(parsed, partition_by)
    if not pc.any(suspects).as_py():
        return parsed, simple
    kept = ~suspects.to_numpy(zero_copy_only=False)
    simple = simple.copy()
    simple[simple] = kept
    return parsed.filter(pa.array(kept)), simple


def _parse_values(reader: SimpleReader, records: RecordArrays) -> tuple[pa.RecordBatch, np.ndarray]:
    """Parses the values; a damaged batch has none."""
    values = records.value if records.damage is None else pa.nulls(len(records), pa.binary())
    return reader.read(values)
