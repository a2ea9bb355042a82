"""Pipelines on Spark: topics into tables and files into topics, each record exactly once.

Pipelines work with any Kafka cluster: they use the protocol and the client, not the broker. They
need `pip install 'headrace[pipeline]'`.

`Pipeline(pipeline="orders", source=..., sink=...)` is a pipeline in Python, with the names of the
YAML spec. `Pipeline.load` reads a YAML file, and `run` runs the pipeline. `open_session` opens a
Spark session for your own queries. Each name is imported at first use, because Spark's tasks also
import this package and need none of the names.
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
"""The modules of the names that are not in `spec`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"headrace.pipeline.{_ELSEWHERE.get(name, 'spec')}"), name)
