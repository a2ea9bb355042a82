"""Exports spans to an OTLP/HTTP receiver from a thread, and never blocks its caller.

`submit` takes a job that makes spans; the thread runs it and sends the spans. The queue is bounded:
while the receiver is slow or down, further jobs are dropped and counted. The libraries of the extra
`telemetry` are imported by the thread.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from headrace.tracing.span import Span, SpanKind
from headrace.tracing.trace_context import TraceContext

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

log = logging.getLogger(__package__)

MAX_QUEUED: Final = 1_000
"""Jobs, each with a batch of at most 64 KiB."""
MAX_SPANS_PER_REQUEST: Final = 512
EXPORT_INTERVAL_S: Final = 0.5
EXPORT_TIMEOUT_S: Final = 5.0
TRACES_PATH: Final = "/v1/traces"
_EXPORTER_LOGGER: Final = "opentelemetry.exporter.otlp.proto.http"

Job = Callable[[], Iterable[Span]]


class InvalidEndpoint(ValueError):
    """The endpoint is not the URL of an OTLP/HTTP receiver."""


class ExportCounts(NamedTuple):
    """Totals since the start."""

    exported: int
    dropped: int
    """Jobs that found the queue full."""
    failed: int
    """Spans that the receiver did not take."""


def is_exporter_installed() -> bool:
    """Whether the extra `telemetry` is installed; nothing of it is imported."""
    try:
        return find_spec("opentelemetry.sdk") is not None and (
            find_spec("opentelemetry.exporter") is not None
        )
    except ModuleNotFoundError:
        return False


def traces_url(endpoint: str) -> str:
    """The URL for traces: a base URL gets OTLP's usual path."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        msg = f"{endpoint!r} is not an http:// or https:// URL, such as http://127.0.0.1:4318"
        raise InvalidEndpoint(msg)
    return endpoint if parts.path not in ("", "/") else endpoint.rstrip("/") + TRACES_PATH


class SpanExporter:
    """One thread, which starts with the first job."""

    def __init__(self, endpoint: str, resource: Mapping[str, str | int]) -> None:
        self._url = traces_url(endpoint)
        self._resource = dict(resource)
        self._jobs: deque[Job] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._exported = self._dropped = self._failed = 0
        self._is_failing = False

    @property
    def counts(self) -> ExportCounts:
        return ExportCounts(self._exported, self._dropped, self._failed)

    def submit(self, job: Job) -> None:
        """Queues a job; drops it if the queue is full."""
        if len(self._jobs) >= MAX_QUEUED or self._closing:
            self._dropped += 1
            return
        self._jobs.append(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="headrace-spans", daemon=True)
            self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Sends what is queued, within this time."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import SpanExportResult

        # This class logs failures itself, once and not for each request.
        logging.getLogger(_EXPORTER_LOGGER).setLevel(logging.CRITICAL)
        exporter = OTLPSpanExporter(endpoint=self._url, timeout=EXPORT_TIMEOUT_S)
        resource = Resource(self._resource)
        while True:
            closing = self._wake.wait(EXPORT_INTERVAL_S)
            while spans := self._next_spans():
                sent = exporter.export([_readable(span, resource) for span in spans])
                self._count(len(spans), succeeded=sent is SpanExportResult.SUCCESS)
                if self._is_failing:
                    break
            if closing:
                exporter.shutdown()  # type: ignore[no-untyped-call]
                return

    def _next_spans(self) -> list[Span]:
        spans: list[Span] = []
        while self._jobs and len(spans) < MAX_SPANS_PER_REQUEST:
            job = self._jobs.popleft()
            try:
                spans += job()
            except Exception:
                log.exception("a span could not be built")
        return spans

    def _count(self, spans: int, *, succeeded: bool) -> None:
        if succeeded:
            self._exported += spans
        else:
            self._failed += spans
        if succeeded is self._is_failing:
            self._is_failing = not succeeded
            if succeeded:
                log.info("traces are exported again", extra={"url": self._url})
            else:
                log.warning(
                    "traces cannot be exported; spans are dropped until the receiver answers",
                    extra={"url": self._url},
                )


def _readable(span: Span, resource: "Resource") -> "ReadableSpan":
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Link, Status, StatusCode
    from opentelemetry.trace import SpanKind as OtelKind

    parent = None
    if span.parent_span_id is not None:
        parent = _context(TraceContext(span.context.trace_id, span.parent_span_id), remote=True)
    return ReadableSpan(
        span.name,
        context=_context(span.context, remote=False),
        parent=parent,
        resource=resource,
        attributes=dict(span.attributes),
        links=[Link(_context(link, remote=True)) for link in span.links],
        kind=OtelKind[SpanKind(span.kind).name],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
        start_time=span.start_ns,
        end_time=span.end_ns,
    )


def _context(context: TraceContext, *, remote: bool) -> "SpanContext":
    from opentelemetry.trace import SpanContext, TraceFlags

    sampled = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(context.trace_id, context.span_id, is_remote=remote, trace_flags=sampled)
