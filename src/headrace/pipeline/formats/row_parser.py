"""Parses records into rows: the columns of the schema, the record itself, and its error."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.pipeline.core.columns import DELETED, ERROR, RECORD, REPORT, SIMPLE, simple_field
from headrace.pipeline.formats import csv_checks, json_checks
from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.prepared_format import PreparedFormat, Schemas, Side
from headrace.pipeline.formats.record_check import RecordCheck, literal, problem, verdict
from headrace.pipeline.formats.schema import Column, quoted, required_paths, type_text
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.formats import Avro, Csv, Json, Protobuf, Raw
from headrace.pipeline.spec.sinks import TableSink
from headrace.pipeline.spec.sources import TopicSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PARSED: Final = {"value": "_parsed_value", "key": "_parsed_key"}
_NO_HEADERS: Final = "CAST(NULL AS array<struct<key: string, value: binary>>) AS headers"
_RECORD_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
)


class _Plan(NamedTuple):
    """The plan for one side of the records."""

    side: Side
    prepared: PreparedFormat
    limit_bytes: int
    action: str
    absent: str = ""
    """The `_error` of a record without this side. Empty means that it is not an error."""
    simple: bool = False
    """Whether tasks have already read the simple records."""
    of: str = ""
    """The prefix of the column with the bytes, before `_record` is made."""

    @property
    def content(self) -> str:
        return f"{self.of}{self.side}"

    @property
    def parsed(self) -> str:
        return _PARSED[self.side]

    @property
    def prefix(self) -> str:
        return "the key " if self.side == "key" else ""


def parse(records: "DataFrame", flow: Flow, schemas: Schemas) -> "DataFrame":
    """Returns one row per record: the columns, `_record`, `_error` (null = good) and `_deleted`.

    The columns of a row with an error are not valid. There is one pass and no shuffle.
    """
    source = flow.source
    assert isinstance(source, TopicSource)
    limit = source.max_record_bytes
    simple = SIMPLE in records.columns
    absent = _no_value(flow, schemas.value)
    of = f"{RECORD}." if RECORD in records.columns else ""
    plans = [_Plan("value", schemas.value, limit, flow.on_error, absent, simple, of)]
    if schemas.key is not None:
        keyless = _no_key(flow, schemas.key)
        plans.append(_Plan("key", schemas.key, limit, flow.on_error, keyless, of=of))
    decoded = [plan for plan in plans if isinstance(plan.prepared.format, Avro | Protobuf)]
    rows = records
    if decoded:
        from headrace.pipeline.formats.arrow_decoding import decode

        rows = decode(records, [(p.side, p.prepared, p.limit_bytes, p.parsed) for p in decoded])
    damage = ["damage"] if "damage" in records.columns else []
    report = [REPORT] if REPORT in records.columns else []
    known = [SIMPLE] if simple else []
    parsed = (f"{_parsed(plan)} AS {plan.parsed}" for plan in plans)
    rows = rows.selectExpr(_record(records), *parsed, *damage, *report, *known)
    error = _error(plans, flow)
    if damage:
        error = _unless_damaged(error, flow)
    if report:
        error = _unless_reported(error)
    own = (RECORD, f"{error} AS {ERROR}", f"{RECORD}.value IS NULL AS {DELETED}")
    if simple and len(plans) == 1:
        columns = plans[0].prepared.columns.columns
        rows = rows.selectExpr(_made(plans[0]), *own)
        fields = (f"{SIMPLE}.{simple_field(number)}" for number in range(len(columns)))
        named = (f"{at} AS {quoted(each.name)}" for at, each in zip(fields, columns, strict=True))
        return rows.selectExpr(*named, RECORD, ERROR, DELETED)
    return rows.selectExpr(*_columns(plans), *own, *report)


def _record(records: "DataFrame") -> str:
    if RECORD in records.columns:
        return RECORD
    headers = "headers" if "headers" in records.columns else _NO_HEADERS
    return f"struct({', '.join(_RECORD_COLUMNS)}, {headers}) AS {RECORD}"


def _made(plan: _Plan) -> str:
    """Returns the columns as one struct: from the task if it has read them, else from Spark."""
    fields = (
        f"'{simple_field(number)}', {json_checks.field(plan.parsed, each)}"
        for number, each in enumerate(plan.prepared.columns.columns)
    )
    return (
        f"CASE WHEN {SIMPLE} IS NOT NULL THEN {SIMPLE} ELSE named_struct({', '.join(fields)}) END "
        f"AS {SIMPLE}"
    )


def _parsed(plan: _Plan) -> str:
    match plan.prepared.format:
        case Json() as given:
            read = json_checks.parsed(given, plan.prepared.columns, plan.content, plan.limit_bytes)
            return f"CASE WHEN {SIMPLE} IS NULL THEN {read} END" if plan.simple else read
        case Csv() as given:
            return csv_checks.parsed(given, plan.prepared.columns, plan.content, plan.limit_bytes)
        case Raw(type="string"):
            # A string column must not contain invalid UTF-8: Arrow would fail.
            text = f"CAST({plan.content} AS STRING)"
            return f"CASE WHEN is_valid_utf8({text}) THEN {text} END"
        case Raw():
            return plan.content
        case _:
            return plan.parsed


def _field(plan: _Plan, column: Column) -> str:
    match plan.prepared.format:
        case Json():
            found = json_checks.field(plan.parsed, column)
            if not plan.simple:
                return found
            number = plan.prepared.columns.columns.index(column)
            known = f"{SIMPLE}.{simple_field(number)}"
            return f"CASE WHEN {SIMPLE} IS NOT NULL THEN {known} ELSE {found} END"
        case Csv():
            return csv_checks.field(plan.parsed, column)
        case Raw():
            return plan.parsed
        case _:
            return f"{plan.parsed}.columns.{quoted(column.name)}"


def _columns(plans: list[_Plan]) -> list[str]:
    """Returns the columns of the value, and those of the key that the value does not have.

    A tombstone has only a key. There, a column of both is taken from the key, so that a merge finds
    the row to delete.
    """
    value = plans[0]
    names = {each.name: each for each in value.prepared.columns.columns}
    found = {name: _field(value, each) for name, each in names.items()}
    for plan in plans[1:]:
        for each in plan.prepared.columns.columns:
            own = _field(plan, each)
            if each.name in names:
                kind = type_text(names[each.name].type)
                own = f"try_cast({own} AS {kind})" if kind != type_text(each.type) else own
                own = f"CASE WHEN {RECORD}.value IS NULL THEN {own} ELSE {found[each.name]} END"
            found[each.name] = own
    return [f"{sql} AS {quoted(name)}" for name, sql in found.items()]


def _error(plans: list[_Plan], flow: Flow) -> str:
    cases = [*(_side_error(plan) for plan in plans), _tombstone_error(plans, flow)]
    wanted = [each for each in cases if each]
    return wanted[0] if len(wanted) == 1 else f"coalesce({', '.join(wanted)})"


def _unless_reported(error: str) -> str:
    """A row with a report is not a record, so it has no error."""
    return f"CASE WHEN {REPORT} IS NULL THEN {error} END"


def _unless_damaged(error: str, flow: Flow) -> str:
    """A damaged batch is not a record. It becomes a dead letter, or it is skipped."""
    action = "skip" if flow.dead_letter is None else "dead_letter"
    found = problem(BadRecord.DAMAGED_BATCH, "damage", action)
    return f"CASE WHEN damage IS NOT NULL THEN {found} ELSE {error} END"


def _no_value(flow: Flow, prepared: PreparedFormat) -> str:
    """Returns the `_error` of a record without a value.

    It is empty if a null value is allowed: for a merge, which deletes the row, for raw bytes, and
    for `on_null_value: keep`.
    """
    source = flow.source
    assert isinstance(source, TopicSource)
    merges = isinstance(flow.sink, TableSink) and flow.sink.mode == "merge"
    if merges or isinstance(prepared.format, Raw) or source.on_null_value == "keep":
        return ""
    message = literal("has no value (null); see on_null_value")
    action = "skip" if source.on_null_value == "skip" else flow.on_error
    return problem(BadRecord.NO_VALUE, message, action)


def _no_key(flow: Flow, prepared: PreparedFormat) -> str:
    if not any(required_paths(prepared.columns)):
        return ""
    return problem(BadRecord.MISSING_FIELD, literal("there is no key"), flow.on_error)


def _side_error(plan: _Plan) -> str:
    if plan.simple:
        return f"CASE WHEN {SIMPLE} IS NULL THEN {_side_error(plan._replace(simple=False))} END"
    if not plan.absent:
        return _content_error(plan)
    absent = f"{RECORD}.{plan.side} IS NULL"
    return f"CASE WHEN {absent} THEN {plan.absent} ELSE {_content_error(plan)} END"


def _content_error(plan: _Plan) -> str:
    content = f"{RECORD}.{plan.side}"
    given = plan.prepared.format
    if isinstance(given, Avro | Protobuf):
        # The task has set the error class.
        return (
            f"CASE WHEN {plan.parsed}.error IS NOT NULL THEN named_struct("
            f"'class', {plan.parsed}.error, "
            f"'message', concat({literal(plan.prefix)}, {plan.parsed}.message), "
            f"'action', {literal(plan.action)}) "
            f"WHEN {_too_large(plan).condition} THEN {_problem(plan, _too_large(plan))} END"
        )
    return verdict(f"{content} IS NULL", (_too_large(plan), *_checks(plan, content)), plan.action)


def _problem(plan: _Plan, check: RecordCheck) -> str:
    return problem(check.kind, check.message, plan.action)


def _too_large(plan: _Plan) -> RecordCheck:
    size = f"octet_length({RECORD}.{plan.side})"
    has, limit = literal(f"{plan.prefix}has "), plan.limit_bytes
    return RecordCheck(
        f"{size} > {limit}",
        BadRecord.TOO_LARGE,
        f"concat({has}, {size}, ' bytes; max_record_bytes is {limit}')",
    )


def _checks(plan: _Plan, content: str) -> Iterator[RecordCheck]:
    columns = plan.prepared.columns
    match plan.prepared.format:
        case Json() as given:
            yield from json_checks.checks(given, columns, plan.parsed, content, plan.prefix)
        case Csv() as given:
            yield from csv_checks.checks(given, columns, plan.parsed, content, plan.prefix)
        case Raw(type="string"):
            message = literal(f"{plan.prefix}is not UTF-8")
            yield RecordCheck(f"{plan.parsed} IS NULL", BadRecord.INVALID_UTF8, message)


def _tombstone_error(plans: list[_Plan], flow: Flow) -> str:
    """Returns an error for tombstones without the key columns that a merge needs."""
    sink = flow.sink
    if not isinstance(sink, TableSink) or sink.mode != "merge":
        return ""
    known = {
        each.name: _field(plan, each)
        for plan in plans[1:]
        for each in plan.prepared.columns.columns
    }
    known_keys = [known[name] for name in sink.key if name in known]
    if not known or (not flow.transform and len(known_keys) < len(sink.key)):
        absent = "true"
    else:
        absent = " OR ".join(f"{each} IS NULL" for each in known_keys) or f"{RECORD}.key IS NULL"
    message = literal(f"a null value deletes by {', '.join(sink.key)}, which the key does not hold")
    found = problem(BadRecord.MISSING_KEY, message, flow.on_error)
    return f"CASE WHEN {RECORD}.value IS NULL AND ({absent}) THEN {found} END"
