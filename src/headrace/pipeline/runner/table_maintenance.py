"""Joins small files and removes old ones, between batches, on a schedule."""

import time
from typing import Final

from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.pipeline.sinks.table_sink import TableSink
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.sinks import TableSink as TableSpec

COMPACT: Final = "compact"
VACUUM: Final = "vacuum"


class TableMaintenance:
    """The maintenance schedule of one table. It survives restarts of the run."""

    def __init__(self, flow: Flow, sink: TableSink, checkpoint: Checkpoint) -> None:
        self._sink = sink
        self._checkpoint = checkpoint
        self._every: dict[str, float] = {}
        self._retain_hours = 0.0
        self._times: dict[str, float] | None = None
        if isinstance(flow.sink, TableSpec):
            wanted = flow.sink.maintenance
            self._retain_hours = wanted.retain / 3600
            for what, every in ((COMPACT, wanted.compact_every), (VACUUM, wanted.vacuum_every)):
                if every is not None:
                    self._every[what] = every

    def due(self) -> list[str]:
        """Returns the tasks that are due.

        For a new table, the first one is due after one interval.
        """
        if not self._every:
            return []
        now = time.time()
        if self._times is None:
            self._times = self._checkpoint.upkeep()
        missing = [what for what in self._every if what not in self._times]
        if missing:
            self._times.update(dict.fromkeys(missing, now))
            self._checkpoint.save_upkeep(self._times)
        return [what for what, every in self._every.items() if now - self._times[what] >= every]

    def perform(self, what: str) -> str:
        """Runs the task. Returns a description of the result."""
        assert self._times is not None
        done = self._sink.compact() if what == COMPACT else self._sink.vacuum(self._retain_hours)
        self._times[what] = time.time()
        self._checkpoint.save_upkeep(self._times)
        return f"{what}: {done.files_removed} files removed, {done.files_added} added"
