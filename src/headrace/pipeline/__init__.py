"""Pipelines on Spark: topics into tables, and files into topics, exactly once.

Works against any Kafka: it knows the protocol and the client, nothing of the broker. Needs
`pip install headrace[pipeline]`.

What is exported is a spec in Python: `Pipeline(pipeline="orders", source=TopicSource(...), ...)`
is what a YAML file says, and `load_spec` reads one. Imported on first use, because tasks on Spark
import this package too and need none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.pipeline.spec import (
        Avro,
        Csv,
        DeadLetter,
        Delta,
        DeltaSource,
        Expectation,
        FileSource,
        FlowSpec,
        Iceberg,
        Json,
        Parquet,
        Protobuf,
        PythonStep,
        Raw,
        Registry,
        SpecErrors,
        SqlStep,
        Topic,
        TopicSource,
        load_spec,
    )
    from headrace.pipeline.spec import PipelineSpec as Pipeline

__all__ = [
    "Avro",
    "Csv",
    "DeadLetter",
    "Delta",
    "DeltaSource",
    "Expectation",
    "FileSource",
    "FlowSpec",
    "Iceberg",
    "Json",
    "Parquet",
    "Pipeline",
    "Protobuf",
    "PythonStep",
    "Raw",
    "Registry",
    "SpecErrors",
    "SqlStep",
    "Topic",
    "TopicSource",
    "load_spec",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    spec = import_module("headrace.pipeline.spec")
    return getattr(spec, "PipelineSpec" if name == "Pipeline" else name)
