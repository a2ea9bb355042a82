"""Runs one flow, batch by batch.

The order of steps within a batch makes a crash at any point safe. First, the job writes files that
readers do not see. Second, the dead letters are committed together with the batch's marker. Third,
the table is committed with the batch's id and offsets. Last, the consumer group's offsets are
committed. The next batch is planned from the table and the dead letters, never from memory.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from headrace.client.results import TopicPartition
from headrace.pipeline.batch.batch_job import (
    BatchResult,
    columns_schema,
    observed,
    output_rows,
    output_schema,
    read_records,
    source_options,
    write_rows,
)
from headrace.pipeline.batch.json_read_task import (
    SimpleForm,
    form_of,
    read_and_parse,
    writes_while_reading,
)
from headrace.pipeline.batch.planner import (
    NO_BATCH,
    BatchPlan,
    OnDataLoss,
    Planner,
    SourceBounds,
    StartPosition,
    caught_up,
    with_new_partitions,
)
from headrace.pipeline.core.offsets import limited
from headrace.pipeline.formats.new_fields import FieldWatch, NewFields, found_in
from headrace.pipeline.formats.prepared_format import Schemas, grow
from headrace.pipeline.formats.prepared_format import prepare as prepare_formats
from headrace.pipeline.formats.schema import type_text
from headrace.pipeline.runner.events import Event, EventKind, Report
from headrace.pipeline.runner.flow_context import FlowContext
from headrace.pipeline.runner.flow_retries import MAX_RETRIES
from headrace.pipeline.runner.step_loop import LoopStep, run_steps
from headrace.pipeline.runner.table_maintenance import TableMaintenance
from headrace.pipeline.sinks.data_files import FileTask
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch, TaskWriter
from headrace.pipeline.sinks.topic_delivery import Delivery
from headrace.pipeline.source.byte_limit import RecordsTooLarge
from headrace.pipeline.source.options import read_options
from headrace.pipeline.spark.unmetered_session import (
    UnmeteredSession,
    can_run_unmetered,
    open_unmetered_session,
)
from headrace.pipeline.spec.sinks import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INFERENCE_RECORDS: Final = 10_000
UNKNOWN_SIZE_RECORDS: Final = 10_000
"""The most records in a batch with a limit in bytes, while the size of records is unknown."""
TRANSACTION_BYTES: Final = 256 << 20
"""The default size of a batch for a topic. Readers see the records when the batch ends."""

NOT_WATCHED: Final = (
    "new fields of the values are not noticed with this key format: give the values a schema"
)


class BadRecordFound(Exception):
    """A record is bad, and the flow's `on_error` or an expectation is set to `fail`."""


class AnotherRun(Exception):
    """The table already has a batch with this number from another run."""


@dataclass(slots=True)
class Phases:
    """The duration of each phase of a batch, in seconds."""

    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - began

    @property
    def total(self) -> float:
        return sum(self.spent.values())


class _Job(NamedTuple):
    """A batch that is ready to run."""

    rows: "DataFrame"
    write: TaskWriter | Delivery
    average_bytes: Callable[[], float | None] | None = None
    """Returns the average size of the records. To be called after the job has finished."""


class FlowLoop:
    """Runs one flow until it is stopped, has caught up, or fails."""

    def __init__(
        self,
        parts: FlowContext,
        spark: "SparkSession",
        report: Report,
        stop: threading.Event,
        *,
        until_caught_up: bool = False,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        flow = parts.flow
        self._parts = parts
        self._spark = spark
        self._flow = flow
        self._report = report
        self._stop = stop
        self._until_caught_up = until_caught_up or flow.trigger_s is None
        self._max_retries = max_retries
        self._on_data_loss = OnDataLoss(parts.source.on_data_loss)
        self._maintenance = TableMaintenance(flow, parts.sink, parts.checkpoint)
        self._goal: dict[TopicPartition, int] | None = None
        self._schemas: Schemas | None = None
        self._form: SimpleForm | None = None
        self._unmetered: UnmeteredSession | None = None
        self._sink_ready = False
        self._max_bytes = parts.source.max_bytes_per_batch
        if self._max_bytes is None and isinstance(flow.sink, Topic):
            self._max_bytes = TRANSACTION_BYTES
        self._record_bytes: float | None = None
        self._in_group: Mapping[TopicPartition, int] = {}

    def run(self) -> None:
        """Runs the loop. Raises `FlowFailed`."""
        run_steps(
            self.step,
            self._flow.id,
            self._report,
            self._stop,
            interval_s=0 if self._until_caught_up else self._flow.trigger_s or 0,
            max_retries=self._max_retries,
        )

    # --- one batch ------------------------------------------------------------------------------

    def step(self) -> LoopStep:
        """Plans a batch and runs it, if there are records to read."""
        phases = Phases()
        with phases("plan"):
            log = self._parts.log.read_bounds()
            partitions = list(log.bounds)
            held = self._parts.sink.last_commit(self._flow.id, partitions)
            plan = self._plan(log, held)
        if self._goal is None:
            self._goal = {each: end for each, (_, end) in log.bounds.items()}
        if held is not None:
            self._commit_group_offsets(held.offsets)  # a killed run may have missed this
        if self._until_caught_up and (plan.is_empty or caught_up(self._goal, held)):
            self._report_idle(log, held)
            return LoopStep.CAUGHT_UP
        if plan.is_empty:
            self._report_idle(log, held)
            self._run_maintenance()
            return LoopStep.IDLE
        for each in plan.lost:
            self._report_event(
                EventKind.WARNING,
                message=f"{each.topic_partition}: offsets {each.start} to {each.end} are gone, "
                "unread",
            )
        committed = self._run_batch(plan, log, phases)
        if committed is None:
            return LoopStep.MORE
        self._run_maintenance()
        behind = any(lag for lag in _lag(log, committed.offsets).values())
        return LoopStep.MORE if behind else LoopStep.BATCH

    def _plan(self, log: SourceBounds, held: CommittedBatch | None) -> BatchPlan:
        checkpoint, letters = self._parts.checkpoint, self._parts.dead_letters
        partitions = list(log.bounds)
        marker = letters.last_marker(partitions) if letters is not None else None
        known = checkpoint.beginning()
        if known is None:
            known = self._save_start_position(log, held)
        # Batches that have begun belong to the topics that existed then.
        next_batch = max(each.batch_id if each else NO_BATCH for each in (held, marker)) + 1
        beginning = with_new_partitions(known, log, next_batch, self._on_data_loss)
        if beginning != known:
            checkpoint.save_beginning(beginning)
        planner = Planner(
            beginning=beginning,
            on_data_loss=self._on_data_loss,
            max_records=self._max_records(),
        )
        return planner.next_batch(log, held, marker)

    def _max_records(self) -> int:
        """Returns the largest number of records for the next batch.

        A limit in bytes uses the record size of the previous batch. The first batch is small.
        """
        source = self._parts.source
        if self._max_bytes is None:
            return source.max_records_per_batch
        if self._record_bytes is None:
            return min(source.max_records_per_batch, UNKNOWN_SIZE_RECORDS)
        fitting = int(self._max_bytes / max(1.0, self._record_bytes))
        return max(1, min(source.max_records_per_batch, fitting))

    def _save_start_position(self, log: SourceBounds, held: CommittedBatch | None) -> StartPosition:
        beginning = self._parts.log.begin(log)
        if held is not None:
            # The table has all partitions that existed before. The others are new.
            new = {each: first for each, (first, _) in log.bounds.items()}
            starts = {each: new[each] for each in new if each not in held.offsets}
            beginning = replace(beginning, starts={**beginning.starts, **starts})
            self._report_event(
                EventKind.WARNING,
                message="the checkpoint is new, but the table has batches of this pipeline: "
                "going on behind them",
            )
        self._parts.checkpoint.save_beginning(beginning)
        return beginning

    def _run_batch(
        self, plan: BatchPlan, log: SourceBounds, phases: Phases
    ) -> CommittedBatch | None:
        """Runs a batch. Returns None if the schema has new columns.

        In this case nothing is committed, and the batch must be read again.
        """
        flow, parts = self._flow, self._parts
        offsets = sum(each.size for each in plan.ranges)
        lag = {
            each.topic_partition: log.bounds[each.topic_partition][1] - each.start
            for each in plan.ranges
        }
        begun = Event(
            flow.id,
            EventKind.BEGUN,
            batch_id=plan.batch_id,
            offsets_read=offsets,
            lag=lag,
            ranges=tuple(plan.ranges),
        )
        self._report(begun)
        with phases("prepare"):
            staging = parts.checkpoint.fresh_staging(plan.batch_id)
            schemas = self._prepared_schemas(plan)
            batch = BatchInfo(flow.id, plan.batch_id, plan.ranges, schemas.version)
            job = self._batch_job(plan, batch, schemas)
        with phases("write"):
            try:
                result = write_rows(job.rows, flow, job.write, str(staging), schemas.explanation())
            except Exception as error:
                if self._unmetered is None or RecordsTooLarge.__name__ not in str(error):
                    raise
                self._unmetered = None  # stays off: more large records are likely to follow
                job = self._batch_job(plan, batch, schemas)
                result = write_rows(job.rows, flow, job.write, str(staging), schemas.explanation())
            if self._max_bytes is not None:
                average = result.record_bytes or (job.average_bytes and job.average_bytes())
                average = average or parts.log.record_bytes(plan.ranges)
                self._record_bytes = average or self._record_bytes
        fields = found_in(staging)
        if fields is not None and self._schema_grows(plan, fields):
            return None
        if result.failed is not None:
            raise BadRecordFound(
                f"{result.failed}. Correct the records' producer or the spec; on_error: "
                "dead_letter or skip goes on without such records"
            )
        if result.staged and not plan.dead_letters_done:
            with phases("dead_letters"):
                self._write_dead_letters(batch, result)
        with phases("commit"):
            committed = parts.sink.commit(batch, result.written)
            _check_own_commit(batch, committed)
        with phases("group"):
            self._commit_group_offsets(committed.offsets)
        parts.checkpoint.clear_staging()
        for each in result.damaged:
            self._report_event(EventKind.WARNING, message=each)
        if fields is not None:
            self._report_event(EventKind.WARNING, message=fields.unread())
        self._report_batch(plan, result, committed, log, phases)
        return committed

    def _prepared_schemas(self, plan: BatchPlan) -> Schemas:
        """Returns the schemas of the formats. The first call prepares them."""
        spark, kafka = self._spark, self._parts.kafka
        if self._schemas is None:
            few = limited(plan.ranges, INFERENCE_RECORDS)
            schemas = prepare_formats(
                self._flow, lambda: read_records(spark, self._flow, few, kafka)
            )
            self._use_schemas(schemas)
            if schemas.value.is_inferred and self._form is None:
                self._report_event(EventKind.WARNING, message=NOT_WATCHED)
            if self._form is not None and can_run_unmetered(self._flow):
                self._unmetered = open_unmetered_session(spark)
        assert self._schemas is not None
        return self._schemas

    def _schema_grows(self, plan: BatchPlan, fields: NewFields) -> bool:
        """Whether new fields become columns, for this batch and the following ones.

        They do not if the batch's dead letters are already written, because the existing columns
        determined which records are dead letters.
        """
        schemas = self._schemas
        assert schemas is not None, "records were read by it"
        columns = schemas.value.columns
        grown = fields.grown(columns)
        if plan.dead_letters_done or grown == columns:
            return False
        self._use_schemas(grow(self._flow, schemas, grown))
        self._sink_ready = False
        new = ", ".join(
            f"{each.name} {type_text(each.type)}" for each in grown.columns[len(columns.columns) :]
        )
        self._report_event(EventKind.SCHEMA, message=f"new fields become columns: {new}")
        return True

    def _use_schemas(self, schemas: Schemas) -> None:
        spark = self._spark
        zone = spark.conf.get("spark.sql.session.timeZone") or ""
        self._schemas = schemas
        self._form = form_of(schemas, self._parts.source.max_record_bytes, zone)

    def _field_watch(self, schemas: Schemas, plan: BatchPlan) -> FieldWatch | None:
        if not schemas.value.is_inferred:
            return None
        return FieldWatch(schemas.value.columns, str(self._parts.checkpoint.staging(plan.batch_id)))

    def _batch_job(self, plan: BatchPlan, batch: BatchInfo, schemas: Schemas) -> "_Job":
        flow, kafka, sink = self._flow, self._parts.kafka, self._parts.sink
        if self._form is None:
            records = read_records(self._spark, flow, plan.ranges, kafka)
        else:
            options = read_options(source_options(flow, plan.ranges, kafka), streaming=False)
            watch = self._field_watch(schemas, plan)
            if writes_while_reading(flow, schemas):
                self._prepare_sink(lambda: columns_schema(schemas.value.columns))
                write = sink.write_task(batch)
                assert isinstance(write, FileTask), "tables get files"
                records = read_and_parse(self._spark, options, self._form, write, watch=watch)
                return _Job(output_rows(records, flow, schemas), write)
            spark, bound = self._unmetered or (self._spark, None)
            records = read_and_parse(spark, options, self._form, bound=bound, watch=watch)
        average = None
        if self._max_bytes is not None:
            records, average = observed(records)
        rows = output_rows(records, flow, schemas)
        self._prepare_sink(lambda: output_schema(rows))
        return _Job(rows, sink.write_task(batch), average)

    def _prepare_sink(self, schema: Callable[[], pa.Schema]) -> None:
        if not self._sink_ready:
            self._parts.sink.prepare(schema())
            self._sink_ready = True

    def _write_dead_letters(self, batch: BatchInfo, result: BatchResult) -> None:
        assert self._parts.dead_letters is not None, "the spec names a topic for dead letters"
        self._parts.dead_letters.write(batch, result.staged)

    def _commit_group_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits the group's offsets. A failure is only a warning: the table has the position."""
        if offsets == self._in_group:
            return
        try:
            self._parts.log.commit(self._flow.id, offsets)
            self._in_group = dict(offsets)
        except Exception as error:
            self._report_event(
                EventKind.WARNING, message=f"the group's offsets are not committed: {error}"
            )

    def _run_maintenance(self) -> None:
        for what in self._maintenance.due():
            try:
                self._report_event(EventKind.UPKEEP, message=self._maintenance.perform(what))
            except Exception as error:
                self._report_event(EventKind.WARNING, message=f"{what} failed: {error}")
                return

    # --- events ---------------------------------------------------------------------------------

    def _report_event(self, kind: EventKind, *, message: str = "") -> None:
        self._report(Event(self._flow.id, kind, message=message))

    def _report_idle(self, log: SourceBounds, held: CommittedBatch | None) -> None:
        offsets = held.offsets if held is not None else {}
        version = held.version if held is not None else ""
        batch_id = held.batch_id if held is not None else None
        self._report(
            Event(
                self._flow.id,
                EventKind.IDLE,
                batch_id=batch_id,
                version=version,
                offsets=offsets,
                lag=_lag(log, offsets) if held is not None else {},
            )
        )

    def _report_batch(
        self,
        plan: BatchPlan,
        result: BatchResult,
        committed: CommittedBatch,
        log: SourceBounds,
        phases: Phases,
    ) -> None:
        self._report(
            Event(
                self._flow.id,
                EventKind.BATCH,
                batch_id=plan.batch_id,
                offsets_read=sum(each.size for each in plan.ranges),
                rows=result.rows,
                bad=result.bad,
                dead_letters=0 if plan.dead_letters_done else result.dead_letters,
                skipped=result.skipped,
                seconds=phases.total,
                phases=phases.spent,
                version=committed.version,
                offsets=committed.offsets,
                lag=_lag(log, committed.offsets),
            )
        )


def _check_own_commit(batch: BatchInfo, committed: CommittedBatch) -> None:
    """Raises `AnotherRun` if the batch in the table has other offsets than this one."""
    if any(committed.offsets.get(each) != end for each, end in batch.ends.items()):
        raise AnotherRun(
            f"another run of {batch.pipeline} has committed batch {committed.batch_id} with other "
            "records, and this run's are not in the table. Make sure that the pipeline runs once "
            "only; then start it again: it resumes where the last commit ends"
        )


def _lag(log: SourceBounds, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {
        each: max(0, end - offsets.get(each, first)) for each, (first, end) in log.bounds.items()
    }
