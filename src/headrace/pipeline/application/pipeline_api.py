"""A pipeline in Python: the spec as a value that checks and runs itself.

`Pipeline(...)` takes what a YAML file says, by the same names; `Pipeline.load` reads one. `run` is
what `headrace pipeline run` does, for scripts and notebooks.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self

from headrace.pipeline.application.summary import RunSummary
from headrace.pipeline.formats.spec_schema_rules import schema_problems
from headrace.pipeline.runner.events import Event, Report
from headrace.pipeline.spec.pipeline import PipelineSpec
from headrace.pipeline.spec.spec_errors import SpecError, SpecErrors
from headrace.pipeline.spec.spec_loader import load_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PipelineFailed(Exception):
    """A flow could not go on; `summary` has what was done before."""

    def __init__(self, message: str, summary: RunSummary) -> None:
        super().__init__(message)
        self.summary = summary


class Pipeline(PipelineSpec):
    """A whole pipeline. What it is made of is checked at once; relative paths start here."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """From a YAML file; raises `SpecErrors`. Relative paths start at the file."""
        spec = load_spec(path)
        checked = {name: getattr(spec, name) for name in type(spec).model_fields}
        return cls.model_construct(_fields_set=set(spec.model_fields_set), **checked)

    def validate(self) -> None:  # type: ignore[override]
        """Reads the schemas too and compares columns with them; raises `SpecErrors`."""
        problems = schema_problems(self)
        if problems:
            raise SpecErrors([SpecError(0, 0, *each) for each in problems])

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
        """Runs every flow until all has landed or, without `until_caught_up`, until it is stopped.

        `bootstrap` and `kafka` (client settings by Kafka's names) win over the spec. With `spark`
        the pipeline runs in that session, which stays open; else in one of its own, on `master`.
        SIGTERM and Ctrl-C, a notebook's stop button too, finish the batch and return. `on_event`
        is told of each batch as it lands, from a thread of the run.

        Raises `PipelineFailed` if a flow cannot go on, `NoSpark` if Spark cannot be started.
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
