"""Keys and values of records: JSON, Avro, Protobuf, CSV, raw bytes.

`prepare` reads, fetches or infers the schemas once a run; `parse` makes rows of records.
"""

from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.errors import FormatError, RegistryUnreachable
from headrace.pipeline.formats.prepared_format import Schemas, prepare
from headrace.pipeline.formats.row_parser import parse

__all__ = ["BadRecord", "FormatError", "RegistryUnreachable", "Schemas", "parse", "prepare"]
