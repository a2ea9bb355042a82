"""Pipelines on Spark: topics into tables, and files into topics, exactly once.

Works against any Kafka: it knows the protocol and the client, nothing of the broker. Needs
`pip install headrace[pipeline]`.

What is exported is a pipeline in Python: `Pipeline(pipeline="orders", source=..., sink=...)` is
what a YAML file says, `Pipeline.load` reads one, `run` runs it. `open_session` opens the Spark that
it runs on, for those who write their own queries. Imported on first use: tasks on Spark import this
package too and need none of it.
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
