"""Pipelines on Spark: topics into tables and files into topics, each record exactly once.

Works with any Kafka: it uses the protocol and the client, not the broker. Needs
`pip install headrace[pipeline]`.

`Pipeline(pipeline="orders", source=..., sink=...)` is a pipeline in Python, with the names of the
YAML spec. `Pipeline.load` reads a YAML file, `run` runs the pipeline. `open_session` opens a Spark
session for your own queries. Each name is imported at first use, because tasks on Spark import
this package, too, and need none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.pipeline.application.pipeline_api import Pipeline, PipelineFailed
    from headrace.pipeline.spark.session import NoSpark, open_session
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
        Maintenance,
        Parquet,
        Protobuf,
        PythonStep,
        Raw,
        Registry,
        SpecErrors,
        SqlStep,
        Topic,
        TopicSource,
    )

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
    "Maintenance",
    "NoSpark",
    "Parquet",
    "Pipeline",
    "PipelineFailed",
    "Protobuf",
    "PythonStep",
    "Raw",
    "Registry",
    "SpecErrors",
    "SqlStep",
    "Topic",
    "TopicSource",
    "open_session",
]
_ELSEWHERE = {
    "Pipeline": "application.pipeline_api",
    "PipelineFailed": "application.pipeline_api",
    "NoSpark": "spark.session",
    "open_session": "spark.session",
}
"""What is not in `spec`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"headrace.pipeline.{_ELSEWHERE.get(name, 'spec')}"), name)
