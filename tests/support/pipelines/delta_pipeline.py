"""A pipeline into a Delta table, and ways to run it in a test."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from headrace.pipeline.application.application import Application, RunSettings
from headrace.pipeline.runner.events import Event, EventKind
from headrace.pipeline.runner.flow_context import FlowContext, open_flow_context
from headrace.pipeline.runner.flow_loop import FlowLoop
from headrace.pipeline.runner.flow_retries import FlowFailed
from headrace.pipeline.runner.source_topics import SourceTopics
from headrace.pipeline.spec.pipeline import PipelineSpec
from headrace.pipeline.spec.sources import TopicSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
Record = tuple[int, bytes | None, bytes | None]
"""Partition, key, value."""
Send = Callable[[str, Sequence[Record]], None]


class Pipeline:
    """A spec of one flow into a Delta table, and ways to run it."""

    def __init__(
        self, spec: PipelineSpec, table: Path, bootstrap: str, spark: "SparkSession"
    ) -> None:
        self.spec = spec
        self.flow = spec.resolved()[0]
        self.table = table
        self.events: list[Event] = []
        self._kafka = {"bootstrap.servers": bootstrap}
        self._spark = spark
        self._opened: list[FlowContext] = []

    def close(self) -> None:
        for parts in self._opened:
            parts.close()

    def application(self, *, until_caught_up: bool = True) -> Application:
        settings = RunSettings(kafka=self._kafka, until_caught_up=until_caught_up)
        return Application(self.spec, settings, [self.events.append], spark=self._spark)

    def run(self) -> list[FlowFailed]:
        """Runs until all existing records are in the table."""
        return self.application().run()

    def loop(self) -> FlowLoop:
        """A loop as in a new process: it knows only the state on disk."""
        parts = open_flow_context(self.flow, self._kafka)
        self._opened.append(parts)
        return FlowLoop(
            parts, self._spark, self.events.append, threading.Event(), until_caught_up=True
        )

    @property
    def log(self) -> SourceTopics:
        assert isinstance(self.flow.source, TopicSource)
        return SourceTopics(self.flow.source, self._kafka)

    def rows(self) -> list[Row]:
        found: list[Row] = DeltaTable(str(self.table)).to_pyarrow_table().to_pylist()
        return found

    def places(self) -> list[tuple[int, int]]:
        """(partition, offset) of every row, in order, including duplicates."""
        return sorted((row["p"], row["o"]) for row in self.rows())

    def batches(self) -> list[Event]:
        return [event for event in self.events if event.kind is EventKind.BATCH]


MakePipeline = Callable[..., Pipeline]
