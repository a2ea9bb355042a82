"""Formats of keys and values: JSON, Avro, Protobuf, CSV and raw bytes.

`prepare` reads, fetches or infers the schemas once per run. `parse` turns records into rows.
"""

from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.errors import FormatError, RegistryUnreachable
from headrace.pipeline.formats.prepared_format import Schemas, prepare
from headrace.pipeline.formats.row_parser import parse

__all__ = ["BadRecord", "FormatError", "RegistryUnreachable", "Schemas", "parse", "prepare"]
