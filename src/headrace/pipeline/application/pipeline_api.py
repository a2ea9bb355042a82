"""The Python API: a pipeline as an object that validates and runs a spec.

`Pipeline(...)` takes the keys of a YAML spec as arguments. `Pipeline.load` reads a YAML file. `run`
does the same as `headrace pipeline run`, for scripts and notebooks.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self

from headrace.pipeline.application.spec_loader import load_spec
from headrace.pipeline.application.summary import RunSummary
from headrace.pipeline.formats.spec_schema_rules import schema_problems
from headrace.pipeline.runner.events import Event, Report
from headrace.pipeline.spec.pipeline import PipelineSpec
from headrace.pipeline.spec.spec_errors import SpecError, SpecErrors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PipelineFailed(Exception):
    """A flow failed. `summary` describes what was done before."""

    def __init__(self, message: str, summary: RunSummary) -> None:
        super().__init__(message)
        self.summary = summary


class Pipeline(PipelineSpec):
    """A pipeline. The constructor checks the spec and raises pydantic's `ValidationError`.

    Relative paths start at the current directory.
    """

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a YAML file; raises `SpecErrors`. Relative paths start at the file's directory."""
        spec = load_spec(path)
        checked = {name: getattr(spec, name) for name in type(spec).model_fields}
        return cls.model_construct(_fields_set=set(spec.model_fields_set), **checked)

    def validate(self) -> None:  # type: ignore[override]
        """Also reads the schema files and compares columns with them; raises `SpecErrors`."""
        problems = schema_problems(self)
        if problems:
            raise SpecErrors(
                [SpecError(0, 0, each.path, each.message, each.fix) for each in problems]
            )

    def run(
        self,
        bootstrap: str | None = None,
        *,
        until_caught_up: bool = False,
        master: str | None = None,
        spark: "SparkSession | None" = None,
        kafka: Mapping[str, str] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> RunSummary:
        """Runs every flow until it is stopped or, with `until_caught_up`, has caught up.

        SIGTERM and Ctrl-C (also the stop button of a notebook) finish the batch and return.

        Args:
            bootstrap: The brokers; overrides the spec.
            until_caught_up: Whether to stop after the records that exist at the start.
            master: The Spark master of a session that this call opens and closes.
            spark: A session to use instead; it stays open.
            kafka: Client settings by Kafka's names; they override the spec.
            on_event: Called for each batch, in a thread of the run.

        Raises:
            PipelineFailed: A flow failed.
            NoSpark: Spark cannot be started.
        """
        from headrace.pipeline.application.application import Application, RunSettings

        self.validate()
        given = dict(kafka or {})
        if bootstrap is not None:
            given["bootstrap.servers"] = bootstrap
        summary = RunSummary()
        listeners: list[Report] = [summary]
        if on_event is not None:
            listeners.append(on_event)
        settings = RunSettings(given, master, until_caught_up=until_caught_up)
        failed = Application(self, settings, listeners, spark=spark).run()
        if failed:
            raise PipelineFailed("; ".join(f"{each.flow}: {each}" for each in failed), summary)
        return summary
