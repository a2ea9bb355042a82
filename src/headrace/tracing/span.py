"""A finished span, as a plain value. Pure."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from headrace.tracing.trace_context import TraceContext


class SpanKind(IntEnum):
    """OpenTelemetry's kinds."""

    INTERNAL = 0
    SERVER = 1
    CLIENT = 2
    PRODUCER = 3
    CONSUMER = 4


class Span(NamedTuple):
    """One operation in a trace."""

    name: str
    kind: SpanKind
    context: TraceContext
    parent_span_id: int | None
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str | int | float | bool]
    links: tuple[TraceContext, ...] = ()
    error: str = ""
