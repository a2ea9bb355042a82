"""Exports a span for each batch of a pipeline, with links to the traces of its records.

A batch has records of many traces, so its span begins a trace of its own and links to theirs. The
links come from a sample: the first records of at most `MAX_SAMPLED_RANGES` partitions, which the
exporter's thread reads again. The flow itself never waits for the trace.
"""

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from random import SystemRandom
from typing import Final

from headrace.pipeline.runner.events import Event, EventKind
from headrace.pipeline.source.first_batch import read_first_batch
from headrace.pipeline.source.settings import ReadFailed, ReadSettings
from headrace.tracing.batch_traces import traces_in
from headrace.tracing.span import Span, SpanKind
from headrace.tracing.span_exporter import SpanExporter
from headrace.tracing.trace_context import TraceContext

log = logging.getLogger(__name__)

MAX_SAMPLED_RANGES: Final = 4
CLOSE_TIMEOUT_S: Final = 10.0
ALL_TRACES: Final = 1.0
"""The writers of the records have sampled already: traces that they do not record have no link."""


class BatchTracing:
    """A listener to the events of a run."""

    def __init__(self, endpoint: str, sources: Mapping[str, ReadSettings]) -> None:
        """`sources` has the settings to read the topics of each flow, by its id."""
        self._sources = sources
        self._begun: dict[str, Event] = {}
        self._random = SystemRandom()
        self.exporter = SpanExporter(endpoint, {"service.name": "headrace-pipeline"})

    def __call__(self, event: Event) -> None:
        if event.kind is EventKind.BEGUN:
            self._begun[event.flow] = event
        elif event.kind is EventKind.BATCH:
            begun = self._begun.pop(event.flow, None)
            self.exporter.submit(partial(self._spans, begun, event))

    def close(self) -> None:
        """Sends the last spans."""
        self.exporter.close(CLOSE_TIMEOUT_S)

    def _spans(self, begun: Event | None, batch: Event) -> Iterator[Span]:
        end_ns = int(batch.time_s * 1e9)
        start_ns = end_ns - int(batch.seconds * 1e9)
        context = TraceContext(self._random.getrandbits(128) | 1, self._new_id())
        attributes: dict[str, str | int | float | bool] = {
            "headrace.pipeline.flow": batch.flow,
            "headrace.pipeline.batch.id": batch.batch_id or 0,
            "headrace.pipeline.batch.offsets": batch.offsets_read,
            "headrace.pipeline.batch.rows": batch.rows,
            "headrace.pipeline.batch.dead_letters": batch.dead_letters,
            "headrace.pipeline.table.version": batch.version,
        }
        yield Span(
            f"{batch.flow} batch",
            SpanKind.CONSUMER,
            context,
            None,
            start_ns,
            end_ns,
            attributes,
            tuple(self._links(begun)),
        )
        for name, seconds in batch.phases.items():
            phase_end_ns = start_ns + int(seconds * 1e9)
            child = TraceContext(context.trace_id, self._new_id())
            kind = SpanKind.INTERNAL
            yield Span(name, kind, child, context.span_id, start_ns, phase_end_ns, {})
            start_ns = phase_end_ns

    def _links(self, begun: Event | None) -> dict[TraceContext, None]:
        """The traces of the sampled records, each once."""
        found: dict[TraceContext, None] = {}
        settings = None if begun is None else self._sources.get(begun.flow)
        if begun is None or settings is None:
            return found
        for wanted in begun.ranges[:MAX_SAMPLED_RANGES]:
            try:
                data = read_first_batch(wanted, settings)
            except ReadFailed as error:
                log.debug("no records for links", extra={"reason": str(error)})
                continue
            if data is not None:
                found.update(dict.fromkeys(traces_in(data, ALL_TRACES)))
        return found

    def _new_id(self) -> int:
        return self._random.randrange(1, 1 << 64)
