"""The traceparent header: valid and recorded traces only, and the same share in every process."""

import pytest

from headrace.tracing.trace_context import TraceContext, is_sampled, parse_traceparent

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


def test_a_recorded_trace_is_read() -> None:
    found = parse_traceparent(f"00-{TRACE}-{SPAN}-01".encode())
    assert found == TraceContext(int(TRACE, 16), int(SPAN, 16))


def test_a_later_version_may_have_more_fields() -> None:
    assert parse_traceparent(f"cc-{TRACE}-{SPAN}-01-what-the-future".encode()) is not None


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        f"00-{TRACE}-{SPAN}-00".encode(),  # its writer does not record it
        f"00-{TRACE}-{SPAN}-01-more".encode(),
        f"ff-{TRACE}-{SPAN}-01".encode(),
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"00-{TRACE.upper()}-{SPAN}-01".encode(),
        f"00-{TRACE}-{SPAN}".encode(),
        b"\xff" * 55,
    ],
)
def test_anything_else_is_no_trace(value: bytes | None) -> None:
    assert parse_traceparent(value) is None


def test_the_ratio_chooses_by_the_id_of_the_trace() -> None:
    assert is_sampled((1 << 128) - 1, 1.0)
    assert not is_sampled(0, 0.0)
    ids = [n * (1 << 56) for n in range(256)]
    assert sum(is_sampled(each, 0.25) for each in ids) == 64
