"""Exposes a run's events as Prometheus metrics."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from headrace.pipeline.runner.events import Event, EventKind

PREFIX: Final = "headrace_pipeline"
SECONDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """A listener that turns events into metrics. `serve` opens the port."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        kept = self.registry
        self._rows = Counter(f"{PREFIX}_rows", "Rows that landed.", ["flow"], registry=kept)
        self._offsets = Counter(
            f"{PREFIX}_offsets_read", "Offsets that were read.", ["flow"], registry=kept
        )
        self._bad = Counter(
            f"{PREFIX}_bad_records", "Bad records.", ["flow", "error"], registry=kept
        )
        self._letters = Counter(
            f"{PREFIX}_dead_letters",
            "Records written to the dead-letter topic.",
            ["flow"],
            registry=kept,
        )
        self._batches = Counter(
            f"{PREFIX}_batches", "Batches that were committed.", ["flow"], registry=kept
        )
        self._retries = Counter(
            f"{PREFIX}_retries", "Batches that were tried again.", ["flow"], registry=kept
        )
        self._failures = Counter(
            f"{PREFIX}_failures", "Flows that could not go on.", ["flow"], registry=kept
        )
        self._batch = Gauge(
            f"{PREFIX}_last_batch", "Id of the last batch in the table.", ["flow"], registry=kept
        )
        self._committed = Gauge(
            f"{PREFIX}_last_commit_timestamp_seconds",
            "When the table was last committed.",
            ["flow"],
            registry=kept,
        )
        self._lag = Gauge(
            f"{PREFIX}_lag",
            "Offsets that have not landed.",
            ["flow", "topic", "partition"],
            registry=kept,
        )
        self._position = Gauge(
            f"{PREFIX}_offset",
            "The next offset to read.",
            ["flow", "topic", "partition"],
            registry=kept,
        )
        self._phases = Histogram(
            f"{PREFIX}_batch_seconds",
            "Time of a batch.",
            ["flow", "phase"],
            buckets=SECONDS,
            registry=kept,
        )

    def serve(self, port: int) -> int:
        """Serves the metrics in a separate thread until the process ends. Returns the port."""
        server, _ = start_http_server(port, registry=self.registry)
        return int(server.server_port)

    def __call__(self, event: Event) -> None:
        flow = event.flow
        for each, lag in event.lag.items():
            self._lag.labels(flow, each.topic, str(each.partition)).set(lag)
        for each, offset in event.offsets.items():
            self._position.labels(flow, each.topic, str(each.partition)).set(offset)
        if event.kind is EventKind.RETRY:
            self._retries.labels(flow).inc()
        elif event.kind is EventKind.FAILED:
            self._failures.labels(flow).inc()
        elif event.kind is EventKind.BATCH:
            self._count_batch(event)

    def _count_batch(self, event: Event) -> None:
        flow = event.flow
        self._batches.labels(flow).inc()
        self._rows.labels(flow).inc(event.rows)
        self._offsets.labels(flow).inc(event.offsets_read)
        self._letters.labels(flow).inc(event.dead_letters)
        self._batch.labels(flow).set(event.batch_id or 0)
        self._committed.labels(flow).set(event.time_s)
        for error, count in event.bad.items():
            self._bad.labels(flow, error).inc(count)
        for phase, spent in event.phases.items():
            self._phases.labels(flow, phase).observe(spent)
