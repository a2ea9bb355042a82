"""The `traceparent` header (W3C Trace Context), as instrumented clients add it to records. Pure."""

import re
from typing import Final, NamedTuple

TRACEPARENT: Final = "traceparent"
_FORMAT: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1
_LOW_64_BITS: Final = (1 << 64) - 1


class TraceContext(NamedTuple):
    """A trace, and the span in it that wrote the record."""

    trace_id: int
    span_id: int


def parse_traceparent(value: bytes | None) -> TraceContext | None:
    """The context; None if the value is invalid, or its writer does not record the trace."""
    found = _FORMAT.fullmatch(value or b"")
    if found is None:
        return None
    version, trace, span, flags, rest = found.groups()
    # Version ff is invalid; version 00 ends after the flags.
    if version == b"ff" or (version == b"00" and rest):
        return None
    context = TraceContext(int(trace, 16), int(span, 16))
    if not context.trace_id or not context.span_id or not int(flags, 16) & _SAMPLED:
        return None
    return context


def is_sampled(trace_id: int, ratio: float) -> bool:
    """Whether the trace is among this share of all traces; the same in every process."""
    return (trace_id & _LOW_64_BITS) < ratio * (1 << 64)
