"""Events become lines with their fields."""

import logging

import pytest

from headrace.log_event import LogEvent, examples, write_events


def test_an_event_is_a_line_with_its_level_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    events = [LogEvent(logging.WARNING, "100% full", {"dir": "/data"})]
    write_events(logging.getLogger("headrace.test"), events)
    (record,) = caplog.records
    assert (record.levelname, record.getMessage(), record.__dict__["dir"]) == (
        "WARNING",
        "100% full",
        "/data",
    )


def test_a_few_examples_stand_for_many() -> None:
    assert examples([]) == ""
    assert examples(["a", "b"]) == "a, b"
    assert examples([str(number) for number in range(7)]) == "0, 1, 2, 3, 4 and 2 more"
