"""`_error` as SQL: classes of bad records, in one place."""

from enum import StrEnum

from headrace.pipeline.columns import ERROR_TYPE


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


def no_problem() -> str:
    return f"CAST(NULL AS {ERROR_TYPE})"
