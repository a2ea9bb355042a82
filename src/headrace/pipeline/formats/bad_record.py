"""The classes of bad records."""

from enum import StrEnum


class BadRecord(StrEnum):
    """The reason why a record cannot become a row. Users filter dead letters by these names."""

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
