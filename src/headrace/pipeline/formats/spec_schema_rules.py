"""Checks that the columns in a spec exist, if its schema is known without a run."""

from collections.abc import Iterator

from headrace.pipeline.core.partition_types import problems
from headrace.pipeline.formats import avro, protobuf
from headrace.pipeline.formats.errors import FormatError
from headrace.pipeline.formats.schema import (
    Column,
    Primitive,
    StructOf,
    Type,
    check_names,
    read_schema,
    type_text,
)
from headrace.pipeline.spec.flow import Step
from headrace.pipeline.spec.formats import Avro, Csv, Format, Json, Protobuf, Raw
from headrace.pipeline.spec.pipeline import PipelineSpec
from headrace.pipeline.spec.sinks import Sink, TableSink
from headrace.pipeline.spec.sources import Source, TopicSource
from headrace.pipeline.spec.spec_rules import Path, Problem, column_paths


def schema_problems(spec: PipelineSpec) -> list[Problem]:
    """Returns errors for unknown columns, and for schema files that cannot be read or parsed."""
    if spec.source is not None and spec.sink is not None:
        return list(_of_flow((), spec.source, spec.transform, spec.sink))
    return [
        problem
        for i, flow in enumerate(spec.flows)
        for problem in _of_flow(("flows", i), flow.source, flow.transform, flow.sink)
    ]


def _of_flow(
    at: Path, source: Source, transform: tuple[Step, ...], sink: Sink
) -> Iterator[Problem]:
    if not isinstance(source, TopicSource):
        return
    known: dict[str, Type] = {}
    complete = True
    for side, given in (("value", source.value), ("key", source.key)):
        if given is None:
            continue
        try:
            columns = _columns(given, side)
            if columns is not None:
                check_names(columns)
        except FormatError as error:
            yield Problem((*at, "source", side, "schema"), str(error))
            columns = None
        if columns is None:
            complete = False
        else:
            known = {each.name: each.type for each in columns.columns} | known
    if complete and not transform and isinstance(sink, TableSink):
        found = [
            *_unknown_columns((*at, "sink"), sink, list(known)),
            *_no_partitions((*at, "sink", "partition_by"), sink, known),
        ]
        yield from (each._replace(depends_on=column_paths(at)) for each in found)


def _columns(given: Format, side: str) -> StructOf | None:
    """Returns the columns. None means that they are not known before the pipeline runs."""
    match given:
        case Raw():
            return StructOf((Column(given.column or side, Primitive(given.type)),))
        case Json(schema_=None):
            return None
        case Json(schema_=str(text)) | Csv(schema_=str(text)):
            return read_schema(text)
        case Avro(schema_=str()):
            return avro.reader_schema(given, "")[1]
        case Protobuf(schema_=str()):
            return protobuf.reader_schema(given, "")[1]
        case _:
            return None


def _unknown_columns(at: Path, sink: TableSink, known: list[str]) -> Iterator[Problem]:
    for name, columns in (("key", sink.key), ("partition_by", sink.partition_by)):
        for i, column in enumerate(columns):
            if column not in known:
                fix = f"the schema has {', '.join(known)}"
                yield Problem((*at, name, i), f"there is no column {column}", fix)


def _no_partitions(at: Path, sink: TableSink, known: dict[str, Type]) -> Iterator[Problem]:
    columns = {name: type_text(kind) for name, kind in known.items()}
    for i, message in problems(columns, sink.partition_by, getattr(sink, "format", "")):
        yield Problem((*at, i), message)
