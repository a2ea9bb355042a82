"""The spec of a pipeline: its models, its rules and its errors."""

from headrace.pipeline.spec.flow import (
    DeadLetter,
    Expectation,
    Flow,
    FlowSpec,
    PythonStep,
    SqlStep,
)
from headrace.pipeline.spec.formats import Avro, Csv, Json, Protobuf, Raw, Registry
from headrace.pipeline.spec.json_schema import json_schema
from headrace.pipeline.spec.pipeline import PipelineSpec
from headrace.pipeline.spec.sinks import Delta, Iceberg, Maintenance, Parquet, TableSink, Topic
from headrace.pipeline.spec.sources import (
    DeltaSource,
    FileSource,
    StartOffsets,
    StartTimestamp,
    TopicSource,
)
from headrace.pipeline.spec.spec_errors import SpecError, SpecErrors
from headrace.pipeline.spec.spec_values import Settings, UnsetVariable

__all__ = [
    "Avro",
    "Csv",
    "DeadLetter",
    "Delta",
    "DeltaSource",
    "Expectation",
    "FileSource",
    "Flow",
    "FlowSpec",
    "Iceberg",
    "Json",
    "Maintenance",
    "Parquet",
    "PipelineSpec",
    "Protobuf",
    "PythonStep",
    "Raw",
    "Registry",
    "Settings",
    "SpecError",
    "SpecErrors",
    "SqlStep",
    "StartOffsets",
    "StartTimestamp",
    "TableSink",
    "Topic",
    "TopicSource",
    "UnsetVariable",
    "json_schema",
]
