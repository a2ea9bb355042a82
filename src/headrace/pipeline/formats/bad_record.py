"""`_error` as SQL: classes of bad records, in one place."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from headrace.pipeline.core.columns import ERROR_TYPE


class BadRecord(StrEnum):
    """Why a record cannot be a row. The names are what people filter dead letters by."""

    NOT_JSON = "NotJson"
    NOT_AVRO = "NotAvro"
    NOT_PROTOBUF = "NotProtobuf"
    NOT_CSV = "NotCsv"
    INVALID_UTF8 = "InvalidUtf8"
    SCHEMA_MISMATCH = "SchemaMismatch"
    MISSING_FIELD = "MissingField"
    OUT_OF_RANGE = "OutOfRange"
    DUPLICATE_KEY = "DuplicateKey"
    TOO_LARGE = "TooLarge"
    UNKNOWN_SCHEMA_ID = "UnknownSchemaId"
    MISSING_KEY = "MissingKey"
    NO_VALUE = "NoValue"
    DAMAGED_BATCH = "DamagedBatch"
    UNFIT_PARTITION = "UnfitPartition"
    EXPECTATION_FAILED = "ExpectationFailed"


def literal(text: str) -> str:
    """As a SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def problem(kind: BadRecord, message: str, action: str) -> str:
    """An `_error` whose message is the SQL expression `message`."""
    return (
        f"named_struct('class', {literal(kind)}, 'message', {message}, 'action', {literal(action)})"
    )


class RecordCheck(NamedTuple):
    """One way to be bad: a condition, and the message as SQL."""

    condition: str
    kind: BadRecord
    message: str


def verdict(good: str, checks: Iterable[RecordCheck], action: str) -> str:
    """`_error` by the first check that finds something; null where `good` holds or none does.

    Higher-order functions would be shorter in places, but Spark interprets them, and every record
    pays for that, good ones too.
    """
    branches = " ".join(
        f"WHEN {each.condition} THEN {problem(each.kind, each.message, action)}" for each in checks
    )
    return f"CASE WHEN {good} THEN CAST(NULL AS {ERROR_TYPE}) {branches} END"
