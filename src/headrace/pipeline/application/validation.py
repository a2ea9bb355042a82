"""Checks the steps of a spec by running them on an empty DataFrame.

Spark resolves SQL against the columns without a job. This checks every name and type. A Python step
is called with an empty DataFrame. Nothing is written.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.pipeline.batch.batch_job import output_schema
from headrace.pipeline.batch.transform import CrossRowStep, TransformError, load_function, run_step
from headrace.pipeline.core.columns import OWN
from headrace.pipeline.core.partition_types import problems
from headrace.pipeline.formats import pinned_schemas
from headrace.pipeline.formats.errors import FormatError
from headrace.pipeline.formats.prepared_format import PreparedFormat, Schemas, Side, reader_schema
from headrace.pipeline.formats.row_parser import parse
from headrace.pipeline.formats.schema import Column, Primitive, StructOf, parse_ddl, read_schema
from headrace.pipeline.runner.failures import failure_of
from headrace.pipeline.sinks.table_sink import SinkError
from headrace.pipeline.source.rows import schema as source_schema
from headrace.pipeline.spec.flow import Flow, PythonStep, SqlStep
from headrace.pipeline.spec.formats import Avro, Csv, Format, Json, Protobuf, Raw
from headrace.pipeline.spec.pipeline import PipelineSpec
from headrace.pipeline.spec.sinks import TableSink
from headrace.pipeline.spec.sources import TopicSource
from headrace.pipeline.spec.spec_rules import Path, Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BOOLEAN: Final = "boolean"


def needs_spark(spec: PipelineSpec) -> bool:
    """Whether the spec has a part that only Spark can check."""
    return any(
        isinstance(flow.source, TopicSource) and (flow.transform or flow.expect)
        for flow in spec.resolved()
    )


def function_problems(spec: PipelineSpec) -> list[Problem]:
    """Returns errors for Python steps that do not exist or cannot be imported."""
    found = []
    for at, flow in _flows(spec):
        for i, step in enumerate(flow.transform):
            if isinstance(step, PythonStep):
                try:
                    load_function(step.python)
                except TransformError as error:
                    found.append(Problem((*at, "transform", i, "python"), str(error), _FUNCTION))
    return found


_FUNCTION: Final = "module:function, or file.py:function with a path that starts at the spec"


def plan_problems(spec: PipelineSpec, spark: "SparkSession") -> list[Problem]:
    """Returns errors for SQL that does not match the columns, invalid rules, and failing steps."""
    return [
        problem
        for at, flow in _flows(spec)
        if isinstance(flow.source, TopicSource)
        for problem in _of_flow(at, flow, spark)
    ]


def _flows(spec: PipelineSpec) -> Iterator[tuple[Path, Flow]]:
    for i, flow in enumerate(spec.resolved()):
        yield (() if spec.source is not None else ("flows", i)), flow


def _of_flow(at: Path, flow: Flow, spark: "SparkSession") -> Iterator[Problem]:
    try:
        schemas = _schemas(flow)
    except FormatError as error:
        yield Problem((*at, "source"), str(error))
        return
    if schemas is None:
        return  # the columns are only known when the first records are read
    records = spark.createDataFrame([], source_schema(with_headers=True))
    rows = parse(records, flow, schemas)
    for i, step in enumerate(flow.transform):
        kind = "sql" if isinstance(step, SqlStep) else "python"
        made = _tried(partial(run_step, rows, flow, i), (*at, "transform", i, kind))
        if isinstance(made, Problem):
            yield made
            return
        rows = made
    yield from _rules(at, flow, rows)
    yield from _output(at, flow, rows)


def _tried(work: Callable[[], "DataFrame"], at: Path) -> "DataFrame | Problem":
    try:
        return work()
    except CrossRowStep as error:
        return Problem(at, error.reason, error.fix)
    except TransformError as error:
        return Problem(at, str(error))
    except Exception as error:  # Spark and the user's function may raise any exception
        name = type(error).__name__
        message = failure_of(error).message
        return Problem(at, message if message.startswith("[") else f"{name}: {message}")


def _rules(at: Path, flow: Flow, rows: "DataFrame") -> Iterator[Problem]:
    for i, rule in enumerate(flow.expect):
        place = (*at, "expect", i, "sql")
        made = _tried(partial(rows.selectExpr, f"({rule.sql}\n) AS rule"), place)
        if isinstance(made, Problem):
            yield made
            continue
        kind = made.schema["rule"].dataType.simpleString()
        if kind != _BOOLEAN:
            yield Problem(
                place,
                f"is not a condition: its type is {kind}",
                "write a comparison, e.g. amount > 0",
            )


def _output(at: Path, flow: Flow, rows: "DataFrame") -> Iterator[Problem]:
    try:
        columns = output_schema(rows)
    except SinkError as error:
        yield Problem((*at, "transform"), str(error))
        return
    if not isinstance(flow.sink, TableSink):
        return
    names = [name for name in rows.columns if name not in OWN]
    for part, named in (("key", flow.sink.key), ("partition_by", flow.sink.partition_by)):
        for i, column in enumerate(named):
            if column not in names:
                fix = f"the rows have {', '.join(names)}"
                yield Problem((*at, "sink", part, i), f"there is no column {column}", fix)
    kinds = {field.name: str(field.type) for field in columns}
    for i, message in problems(kinds, flow.sink.partition_by, flow.sink.format):
        yield Problem((*at, "sink", "partition_by", i), message)


def _schemas(flow: Flow) -> Schemas | None:
    """Returns the schemas as a run does, but asks no registry and pins nothing."""
    assert isinstance(flow.source, TopicSource)
    value = _prepared(flow, "value", flow.source.value)
    key = None if flow.source.key is None else _prepared(flow, "key", flow.source.key)
    if value is None or (flow.source.key is not None and key is None):
        return None
    return Schemas(value, key, 0)


def _prepared(flow: Flow, side: Side, given: Format) -> PreparedFormat | None:
    match given:
        case Raw():
            return PreparedFormat(
                given, StructOf((Column(given.column or side, Primitive(given.type)),)), ""
            )
        case Json(schema_=None):
            pinned = pinned_schemas.latest(flow.checkpoint, side)
            return None if pinned is None else PreparedFormat(given, parse_ddl(pinned.text), "")
        case Json() | Csv():
            return PreparedFormat(given, read_schema(given.schema_ or ""), "")
        case Avro(schema_=str()) | Protobuf(schema_=str()):
            text, columns = reader_schema(given, side, flow)
            return PreparedFormat(given, columns, text)
        case _:
            return None
