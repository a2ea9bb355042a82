"""What became of the spans, for `/metrics`."""

from collections.abc import Iterator

from headrace.broker.tracing.request_tracing import RequestTracing
from headrace.metrics.family import MetricFamily


class TracingCollector:
    """Reads the exporter of one broker."""

    def __init__(self, tracing: RequestTracing) -> None:
        self._tracing = tracing

    def collect(self) -> Iterator[MetricFamily]:
        counts = self._tracing.exporter.counts
        yield MetricFamily(
            "headrace_tracing_spans_total",
            "counter",
            "Spans that were exported to the receiver of traces, or that it did not take.",
            ("result",),
            ((("exported",), float(counts.exported)), (("failed",), float(counts.failed))),
        )
        yield MetricFamily(
            "headrace_tracing_dropped_batches_total",
            "counter",
            "Batches that were not looked at, because the queue of the exporter was full.",
            (),
            (((), float(counts.dropped)),),
        )
