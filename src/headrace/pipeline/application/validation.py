"""Checks the steps of a spec by running them on an empty DataFrame.

Spark resolves SQL against the columns without a job. This checks every name and type. A Python step
is called with an empty DataFrame. Nothing is written.
"""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from headrace.pipeline.batch.batch_job import output_schema
from headrace.pipeline.batch.stateful_plan import StatefulStep
from headrace.pipeline.batch.transform import load_function, run_step
from headrace.pipeline.batch.transform_error import TransformError
from headrace.pipeline.core.columns import OWN
from headrace.pipeline.core.partition_types import problems
from headrace.pipeline.formats import pinned_schemas
from headrace.pipeline.formats.errors import FormatError
from headrace.pipeline.formats.prepared_format import PreparedFormat, Schemas, Side, reader_schema
from headrace.pipeline.formats.row_parser import parse
from headrace.pipeline.formats.schema import (
    Column,
    Primitive,
    StructOf,
    parse_ddl,
    quoted,
    read_schema,
)
from headrace.pipeline.runner.failures import failure_of
from headrace.pipeline.sinks.table_sink import SinkError
from headrace.pipeline.source.row_schema import schema as source_schema
from headrace.pipeline.spec.flow import Flow, PythonStep, SqlStep
from headrace.pipeline.spec.formats import Avro, Csv, Format, Json, Protobuf, Raw
from headrace.pipeline.spec.pipeline import PipelineSpec
from headrace.pipeline.spec.select import NotASelect
from headrace.pipeline.spec.sinks import TableSink
from headrace.pipeline.spec.sources import TopicSource
from headrace.pipeline.spec.spec_rules import Path, Problem, column_paths

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField

_BOOLEAN: Final = "boolean"
_VOID: Final = "void"
MAX_MISSING_COLUMNS: Final = 20
"""The missing columns that are reported of one step or rule."""


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


def step_problems(spec: PipelineSpec, spark: "SparkSession | None") -> list[Problem]:
    """Returns the errors of functions and, with Spark, of plans; one error per failing step."""
    found = function_problems(spec)
    reported = {each.path for each in found}
    planned = [] if spark is None else plan_problems(spec, spark)
    return [*found, *(each for each in planned if each.path not in reported)]


def plan_problems(spec: PipelineSpec, spark: "SparkSession") -> list[Problem]:
    """Returns errors for SQL that does not match the columns, invalid rules, and failing steps."""
    return [
        problem
        for at, flow in _flows(spec)
        if isinstance(flow.source, TopicSource)
        for problem in _FlowCheck(at, flow, spark).problems()
    ]


def _flows(spec: PipelineSpec) -> Iterator[tuple[Path, Flow]]:
    for i, flow in enumerate(spec.resolved()):
        yield (() if spec.source is not None else ("flows", i)), flow


class _FlowCheck:
    """Runs the steps and rules of one flow without rows.

    After a step that fails, the columns are not known. Then only the syntax of SQL is checked.
    """

    def __init__(self, at: Path, flow: Flow, spark: "SparkSession") -> None:
        self._at, self._flow = at, flow
        self._problems: list[Problem] = []
        self._added_columns: set[str] = set()
        self._hidden_columns: set[str] = set()
        records = spark.createDataFrame([], source_schema(with_headers=True))
        schemas = self._find_schemas()
        self._columns_known = schemas is not None
        self._rows = records if schemas is None else parse(records, flow, schemas)

    def _find_schemas(self) -> Schemas | None:
        """The schemas as in a run, but without a registry; None if they are not known yet."""
        source = self._flow.source
        assert isinstance(source, TopicSource)
        value = self._prepare("value", source.value)
        key = None if source.key is None else self._prepare("key", source.key)
        if value is None or (source.key is not None and key is None):
            return None
        return Schemas(value, key, 0)

    def _prepare(self, side: Side, given: Format) -> PreparedFormat | None:
        try:
            return _prepared(self._flow, side, given)
        except FormatError as error:
            self._problems.append(Problem((*self._at, "source", side, "schema"), str(error)))
            return None

    def problems(self) -> list[Problem]:
        for number, step in enumerate(self._flow.transform):
            if self._columns_known or isinstance(step, SqlStep):
                self._check_step(number)
        for i, rule in enumerate(self._flow.expect):
            self._check_rule((*self._at, "expect", i, "sql"), rule.sql)
        if self._columns_known:
            self._check_output()
        return self._problems

    def _check_step(self, number: int) -> None:
        kind = "sql" if isinstance(self._flow.transform[number], SqlStep) else "python"
        place = (*self._at, "transform", number, kind)

        def run(rows: "DataFrame") -> "DataFrame":
            try:
                return run_step(rows, self._flow, number)
            except StatefulStep as error:
                self._problems.append(Problem(place, error.reason, error.fix))
                return run_step(rows, _with_batch_scope(self._flow, number), number)

        added = len(self._added_columns)
        made = self._run(run, place, number)
        if len(self._added_columns) > added:
            # A later step may miss a column only because it is misspelled in this one.
            self._hidden_columns.update(self._rows.columns)
        if made is None:
            self._columns_known = False
        elif self._columns_known:
            self._rows = made

    def _check_rule(self, place: Path, sql: str) -> None:
        made = self._run(
            lambda rows: rows.selectExpr(f"({sql}\n) AS rule"), place, len(self._flow.transform)
        )
        if made is None or not self._columns_known:
            return
        kind = made.schema["rule"].dataType.simpleString()
        if kind not in (_BOOLEAN, _VOID if self._added_columns else _BOOLEAN):
            self._problems.append(
                Problem(
                    place,
                    f"is not a condition: its type is {kind}",
                    "write a comparison, e.g. amount > 0",
                    self._depends_on(len(self._flow.transform)),
                )
            )

    def _run(
        self, work: Callable[["DataFrame"], "DataFrame"], place: Path, steps: int
    ) -> "DataFrame | None":
        """Runs `work`, whose columns depend on that number of steps; None if it fails.

        A missing column is reported and added, so that the next missing one is found, too.
        """
        rows = self._rows
        missing: set[str] = set()
        while len(missing) < MAX_MISSING_COLUMNS:
            try:
                return work(rows)
            except Exception as error:  # Spark and the user's function may raise any exception
                name = _missing_column(error)
                if name in missing or not (self._columns_known or _is_syntax_error(error)):
                    return None
                if name not in self._hidden_columns:
                    needs = () if _is_syntax_error(error) else self._depends_on(steps)
                    self._problems.append(Problem(place, _message(error), depends_on=needs))
                if name is None:
                    return None
                missing.add(name)
                self._added_columns.add(name)
                rows = rows.selectExpr("*", f"NULL AS {quoted(name)}")
        return None

    def _depends_on(self, steps: int) -> tuple[Path, ...]:
        return (
            *column_paths(self._at),
            *((*self._at, "transform", number) for number in range(steps)),
        )

    def _check_output(self) -> None:
        at, flow, rows = self._at, self._flow, self._rows
        needs = self._depends_on(len(flow.transform))
        if self._added_columns:  # they have no type, which no table can store
            rows = rows.selectExpr(*(_typed(field) for field in rows.schema))
        try:
            columns = output_schema(rows)
        except SinkError as error:
            self._problems.append(Problem((*at, "transform"), str(error), depends_on=needs))
            return
        if not isinstance(flow.sink, TableSink):
            return
        names = [name for name in rows.columns if name not in OWN]
        for part, named in (("key", flow.sink.key), ("partition_by", flow.sink.partition_by)):
            for i, column in enumerate(named):
                if column not in names and column not in self._hidden_columns:
                    fix = f"the rows have {', '.join(names)}"
                    message = f"there is no column {column}"
                    self._problems.append(Problem((*at, "sink", part, i), message, fix, needs))
        kinds = {field.name: str(field.type) for field in columns}
        for i, message in problems(kinds, flow.sink.partition_by, flow.sink.format):
            where = (*at, "sink", "partition_by", i)
            self._problems.append(Problem(where, message, depends_on=needs))


def _with_batch_scope(flow: Flow, number: int) -> Flow:
    steps = list(flow.transform)
    steps[number] = steps[number].model_copy(update={"scope": "batch"})
    return flow.model_copy(update={"transform": tuple(steps)})


def _message(error: Exception) -> str:
    if isinstance(error, TransformError | NotASelect):
        return str(error)
    message = failure_of(error).message
    return message if message.startswith("[") else f"{type(error).__name__}: {message}"


def _is_syntax_error(error: Exception) -> bool:
    from pyspark.errors import ParseException

    return isinstance(error, ParseException | NotASelect)


def _missing_column(error: Exception) -> str | None:
    """The column that Spark did not find; None for another error."""
    from pyspark.errors import AnalysisException

    if not isinstance(error, AnalysisException):
        return None
    if not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN."):
        return None
    parts = re.findall(r"`((?:[^`]|``)+)`", (error.getMessageParameters() or {})["objectName"])
    return str(parts[-1]).replace("``", "`") if parts else None


def _typed(field: "StructField") -> str:
    name = quoted(field.name)
    is_void = field.dataType.simpleString() == _VOID
    return f"CAST({name} AS STRING) AS {name}" if is_void else name


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
