"""The exporter never blocks: its queue is bounded, and what does not fit is counted."""

import threading

import pytest

from headrace.tracing.span_exporter import (
    MAX_QUEUED,
    InvalidEndpoint,
    SpanExporter,
    traces_url,
)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
        ("https://collector/api/traces", "https://collector/api/traces"),
    ],
)
def test_a_base_url_gets_the_usual_path(endpoint: str, url: str) -> None:
    assert traces_url(endpoint) == url


@pytest.mark.parametrize("endpoint", ["", "collector:4318", "grpc://x:4317", "http://"])
def test_an_endpoint_is_an_http_url(endpoint: str) -> None:
    with pytest.raises(InvalidEndpoint):
        traces_url(endpoint)


def test_jobs_that_find_the_queue_full_are_dropped_and_counted() -> None:
    exporter = SpanExporter("http://127.0.0.1:9", {})
    may_run, runs = threading.Event(), threading.Event()

    def blocked() -> tuple[()]:
        runs.set()
        may_run.wait(10)
        return ()

    exporter.submit(blocked)
    assert runs.wait(30)  # the thread imports OpenTelemetry first
    for _ in range(MAX_QUEUED + 3):
        exporter.submit(tuple)
    assert exporter.counts.dropped == 3
    may_run.set()
    exporter.close(10)
    exporter.submit(tuple)
    assert exporter.counts.dropped == 4
