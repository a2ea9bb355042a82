"""Runs all flows of a spec in one Spark application, with one thread for each flow."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.client.results import TopicPartition
from headrace.pipeline.application.history import RunHistory
from headrace.pipeline.application.run_facts import run_facts
from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.pipeline.runner.events import Event, EventKind, Report
from headrace.pipeline.runner.failures import failure_of
from headrace.pipeline.runner.first_connection import check_connection
from headrace.pipeline.runner.flow_context import open_flow_context
from headrace.pipeline.runner.flow_loop import FlowLoop
from headrace.pipeline.runner.flow_retries import MAX_RETRIES, FlowFailed
from headrace.pipeline.runner.single_writer_check import check_sole_writer
from headrace.pipeline.spark.session import open_session
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.pipeline import PipelineSpec
from headrace.pipeline.spec.sources import TopicSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S: Final = 0.5
SPARK_LOG: Final = "spark.log"
SHELL_SIGNAL: Final = 128
STOPPING: Final = "the batch that is under way is finished first"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings of a run that are not in its spec."""

    kafka: Mapping[str, str] = field(default_factory=dict)
    """Client settings. They override the spec's."""
    master: str | None = None
    until_caught_up: bool = False
    ends: Mapping[TopicPartition, int] | None = None
    """The end offsets of the run. Records at or after them are not read."""
    max_retries: int = MAX_RETRIES


class Application:
    """One run of a spec."""

    def __init__(
        self,
        spec: PipelineSpec,
        settings: RunSettings,
        listeners: Sequence[Report] = (),
        *,
        flows: Sequence[Flow] | None = None,
        spark: "SparkSession | None" = None,
        before_exit: Callable[[], None] | None = None,
    ) -> None:
        """Initializes a run. `before_exit` is called when a second signal ends the process."""
        self._spec = spec
        self._before_exit = before_exit
        self._flows = tuple(spec.resolved() if flows is None else flows)
        self._settings = settings
        self._listeners = tuple(listeners)
        self._spark = spark
        self._stop = threading.Event()
        self._failed: list[FlowFailed] = []
        self._report_lock = threading.Lock()

    def stop(self) -> None:
        """Asks every flow to finish its current batch and stop."""
        self._stop.set()

    def run(self) -> list[FlowFailed]:
        """Returns the flows that failed, after all flows have ended.

        In a continuous run, a flow that fails stops the others after their current batch. The
        process then exits, so that a supervisor notices the failure. If the flows end by
        themselves, the others continue to their end.
        """
        flows = self._flows
        with ExitStack() as held:
            checkpoints = [Checkpoint(flow.checkpoint) for flow in flows]
            for checkpoint, flow in zip(checkpoints, flows, strict=True):
                held.enter_context(checkpoint.locked(flow.id))
                checkpoint.save_run(run_facts(flow, self._settings.kafka))
            flows = tuple(flow for flow in flows if self._can_connect(flow))
            if not flows or self._stop.is_set():
                return list(self._failed)
            spark = self._spark or self._session(held, checkpoints[0])
            with self._signals():
                threads = [
                    threading.Thread(target=self._flow, args=(flow, spark), name=flow.id)
                    for flow in flows
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    while thread.is_alive():
                        thread.join(LOOK_S)  # a short timeout, so that signals are handled
        return list(self._failed)

    def _can_connect(self, flow: Flow) -> bool:
        """Whether a broker answers now. If not, reports and records the flow's failure."""
        try:
            check_connection(flow, self._settings.kafka)
        except Exception as error:
            failed = FlowFailed(flow.id, failure_of(error))
            with RunHistory(Checkpoint(flow.checkpoint).history) as history:
                self._report_to(history)(Event(flow.id, EventKind.FAILED, message=str(failed)))
            self._record_failure(flow, failed)
            return False
        return True

    def _report_to(self, history: RunHistory) -> Report:
        def report(event: Event) -> None:
            history.add(event)
            self._report_event(event)

        return report

    def _session(self, held: ExitStack, checkpoint: Checkpoint) -> "SparkSession":
        """Opens a session that is stopped with the run.

        An existing session is reused and kept open.
        """
        from pyspark.sql import SparkSession

        borrowed = SparkSession.getActiveSession() is not None
        spark = open_session(
            self._spec.pipeline,
            master=self._settings.master,
            conf=self._spec.spark.resolved(),
            log=checkpoint.path / SPARK_LOG,
        )
        if not borrowed:
            held.callback(spark.stop)
        return spark

    def _flow(self, flow: Flow, spark: "SparkSession") -> None:
        """Runs one flow in its thread. Every failure is reported and recorded."""
        try:
            with RunHistory(Checkpoint(flow.checkpoint).history) as history:
                report = self._report_to(history)
                try:
                    self._run_flow(flow, spark, report)
                except FlowFailed:
                    raise
                except Exception as error:  # an invalid sink or setting, before the loop
                    report(Event(flow.id, EventKind.FAILED, message=failure_of(error).message))
                    raise
        except FlowFailed as error:
            self._record_failure(flow, error)
        except Exception as error:
            self._record_failure(flow, FlowFailed(flow.id, failure_of(error)))

    def _run_flow(self, flow: Flow, spark: "SparkSession", report: Report) -> None:
        settings = self._settings
        if not isinstance(flow.source, TopicSource):
            from headrace.pipeline.inflow.inflow_loop import run_inflow

            run_inflow(
                flow,
                settings.kafka,
                spark,
                report,
                self._stop,
                until_caught_up=settings.until_caught_up,
                max_retries=settings.max_retries,
            )
            return
        with closing(open_flow_context(flow, settings.kafka, settings.ends)) as parts:
            siblings = [each.id for each in self._spec.resolved()]
            shared = check_sole_writer(flow, parts.sink, siblings)
            if shared is not None:
                report(Event(flow.id, EventKind.WARNING, message=shared))
            loop = FlowLoop(
                parts,
                spark,
                report,
                self._stop,
                until_caught_up=settings.until_caught_up,
                max_retries=settings.max_retries,
            )
            loop.run()

    def _record_failure(self, flow: Flow, error: FlowFailed) -> None:
        self._failed.append(error)
        if not self._settings.until_caught_up and flow.trigger_s is not None:
            self._stop.set()

    def _report_event(self, event: Event) -> None:
        with self._report_lock:
            for listener in self._listeners:
                listener(event)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """On SIGTERM or SIGINT, finishes the current batch. A second signal exits immediately.

        An immediate exit is safe: the next run reads from the sink what was committed.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_signal(number: int, frame: object) -> None:
            if self._stop.is_set():
                if self._before_exit is not None:
                    self._before_exit()
                os._exit(SHELL_SIGNAL + number)
            self._stop.set()
            for flow in self._flows:
                self._report_event(Event(flow.id, EventKind.STOPPING, message=STOPPING))

        before = {each: signal.signal(each, on_signal) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
