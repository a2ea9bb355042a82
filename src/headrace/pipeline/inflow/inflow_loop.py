"""Runs one flow from files or a table into a topic, in batches.

The loop saves the intent of a batch and runs the batch. The topic sink's transaction commits its
rows and its dead letters. The topic's last marker determines the next batch: it is the batch after
the marker, with the saved intent if there is one, or else with a new intent.
"""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.pipeline.batch.batch_job import output_schema, result_of, write_rows
from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.pipeline.batch.transform import shape
from headrace.pipeline.inflow.batch_intent import NO_BATCH, BatchIntent, BatchIntents
from headrace.pipeline.inflow.file_rows import NO_NUMBER
from headrace.pipeline.inflow.inflow_dead_letters import RowOrigin, line_letters
from headrace.pipeline.inflow.inputs import TO_DO, Input, open_input
from headrace.pipeline.inflow.line_numbers import path_of_uri
from headrace.pipeline.runner.events import Event, EventKind, Report
from headrace.pipeline.runner.flow_factory import open_sink
from headrace.pipeline.runner.flow_loop import BadRecordFound
from headrace.pipeline.runner.flow_retries import MAX_RETRIES
from headrace.pipeline.runner.step_loop import LoopStep, run_steps
from headrace.pipeline.sinks.bad_record_split import FailedRecord
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch
from headrace.pipeline.sinks.topic_sink import TopicSink
from headrace.pipeline.spec.flow import Flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


GO_ON: Final = "on_error: dead_letter or skip continues without such lines"
NOTHING: Final = result_of([])


class InflowLoop:
    """Runs one flow until it is stopped, has caught up, or fails."""

    def __init__(
        self,
        flow: Flow,
        inputs: Input,
        sink: TopicSink,
        spark: "SparkSession",
        report: Report,
        stop: threading.Event,
        *,
        until_caught_up: bool = False,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        self._flow = flow
        self._inputs = inputs
        self._sink = sink
        self._spark = spark
        self._report = report
        self._stop = stop
        self._until_caught_up = until_caught_up or flow.trigger_s is None
        self._max_retries = max_retries
        self._checkpoint = Checkpoint(flow.checkpoint)
        self._intents = BatchIntents(Path(self._checkpoint.path))

    def run(self) -> None:
        """Runs batches until the flow ends; raises `FlowFailed`."""
        run_steps(
            self._step,
            self._flow.id,
            self._report,
            self._stop,
            interval_s=self._flow.trigger_s or 0,
            max_retries=self._max_retries,
        )

    def _step(self) -> LoopStep:
        if self.run_next_batch() is not None:
            return LoopStep.MORE  # the next step finds out whether there is more input
        return LoopStep.CAUGHT_UP if self._until_caught_up else LoopStep.IDLE

    def run_next_batch(self) -> CommittedBatch | None:
        """Runs the next batch; returns None if there is no new input."""
        held = self._sink.last_commit(self._flow.id, [])
        last = held.batch_id if held is not None else NO_BATCH
        intent = self._intents.get(last + 1)
        if intent is None:
            intent = self._inputs.next_intent(last + 1, self._intents.until(last))
            if intent is None:
                return None
            self._intents.save(intent)
        try:
            return self._run_batch(intent)
        except Exception as error:
            explained = self._inputs.clearer_error(error)
            if explained is error:
                raise
            raise explained from error

    def _run_batch(self, intent: BatchIntent) -> CommittedBatch:
        began = time.perf_counter()
        batch = BatchInfo(self._flow.id, intent.batch_id, ())
        result = NOTHING
        shaped, explanation = None, None
        if intent.files:
            # Spark may read the files here, so this comes before the transaction's timeout starts.
            rows, explanation = self._inputs.read(self._spark, intent, self._flow)
            shaped = shape(rows, self._flow)
            self._sink.prepare(output_schema(shaped))
        write = self._sink.write_task(batch)
        if shaped is not None:
            staging = self._checkpoint.fresh_staging(intent.batch_id)
            result = write_rows(shaped, self._flow, write, str(staging), explanation)
            origin = RowOrigin(intent, self._inputs.storage_options)
            if result.failed is not None:
                raise BadRecordFound(f"{_failed_row_text(result.failed, origin)}. {TO_DO}. {GO_ON}")
            if result.staged:
                now_ms = time.time_ns() // 1_000_000
                self._sink.write_dead_letters(line_letters(batch, result.staged, origin, now_ms))
        committed = self._sink.commit(batch, result.written)
        self._checkpoint.clear_staging()
        self._report(
            Event(
                self._flow.id,
                EventKind.BATCH,
                batch_id=intent.batch_id,
                offsets_read=len(intent.files),
                rows=result.rows,
                bad=result.bad,
                dead_letters=result.dead_letters,
                skipped=result.skipped,
                seconds=time.perf_counter() - began,
                version=committed.version,
            )
        )
        return committed


def _failed_row_text(failed: FailedRecord, origin: RowOrigin) -> str:
    """The error, with the file and the number of the line or row, if it is known."""
    path = path_of_uri(failed.topic)
    if failed.offset != NO_NUMBER:
        place = f"{path}, row {failed.offset}"
    elif not failed.digest:
        place = f"a row of {path}"
    else:
        digest = bytes.fromhex(failed.digest)
        numbers = origin.numbers(path, {digest}).get(digest)
        place = f"{path}, line {numbers[0]}" if numbers else f"a line of {path}"
    return f"{place if path else 'a row'}: {failed.error}: {failed.message}"


def run_inflow(
    flow: Flow,
    kafka: Mapping[str, str],
    spark: "SparkSession",
    report: Report,
    stop: threading.Event,
    *,
    until_caught_up: bool,
    max_retries: int = MAX_RETRIES,
) -> None:
    """Opens the flow's input and sink, and runs the flow; raises `FlowFailed`."""
    sink = open_sink(flow, kafka)
    assert isinstance(sink, TopicSink), "files and tables are streamed into a topic"
    try:
        InflowLoop(
            flow,
            open_input(flow.source),
            sink,
            spark,
            report,
            stop,
            until_caught_up=until_caught_up,
            max_retries=max_retries,
        ).run()
    finally:
        sink.close()
