"""`_error` as SQL: classes of bad records, in one place."""

from enum import StrEnum
from typing import NamedTuple


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


class Checks(NamedTuple):
    """How bad records are found: first whether one is worth a look, then what is wrong with it."""

    suspicious: str
    """True for every bad record and for few others; looked at for each record, so it is cheap."""
    branches: str
    """The WHEN ... THEN ... of a CASE that names the problem."""


def verdict(suspicious: str, branches: str) -> str:
    """`_error`, null for good records.

    The CASE stands in a lambda function, which Spark interprets: as generated code it would be too
    large for the JVM to compile, and slow down the good records as well.
    """
    case = f"CASE {branches} END"
    return f"CASE WHEN {suspicious} THEN element_at(transform(array(0), zero -> {case}), 1) END"
