"""A client cannot flood a log, hide other clients in it, or hide how much it sent."""

import logging

import pytest

from headrace import limited_log
from headrace.limited_log import (
    BURST_LINES,
    MAX_SOURCES,
    TOTAL_BURST_LINES,
    LimitedLog,
    LineLimit,
)

A = ("User:a", "10.0.0.1")


def test_a_limited_logger_adds_the_number_of_lines_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    now_s = 0.0
    log = LimitedLog(logging.getLogger("headrace.test"), lambda: now_s, LineLimit(0.0, burst=2))
    for _ in range(5):
        log.warning("refused", about="10.0.0.1", port=1)
    log.error("refused", about="10.0.0.2")
    now_s = 1.0
    log.info("refused", about="10.0.0.1")
    found = [(each.levelname, each.__dict__.get("left_out")) for each in caplog.records]
    assert found == [("WARNING", None)] * 2 + [("ERROR", None), ("INFO", 3)]


def test_lines_left_out_are_reported_when_no_other_follows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    log = LimitedLog(logging.getLogger("headrace.test"), lambda: 0.0, LineLimit(0.0, burst=1))
    for _ in range(3):
        log.warning("refused", about="10.0.0.1")
    log.report_left_out()
    log.report_left_out()
    reported = [vars(each) for each in caplog.records if each.msg == "log lines were left out"]
    (line,) = reported
    assert (line["line"], line["about"], line["left_out"]) == ("refused", "10.0.0.1", 2)


def test_what_a_line_is_about_is_cut_before_it_is_remembered() -> None:
    """Clients choose their ids, which may have 32 kB."""
    log = LimitedLog(logging.getLogger("headrace.test"), lambda: 0.0)
    for number in range(3):
        log.warning("slow", about=f"{'x' * 30_000}{number}")
    ((_, about),) = log._limit._sources
    assert len(about) == limited_log.MAX_ABOUT_CHARS


def test_a_level_that_is_off_uses_no_lines_of_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR")
    log = LimitedLog(logging.getLogger("headrace.test"), lambda: 0.0, LineLimit(0.0, burst=1))
    for _ in range(3):
        log.info("refused", about="10.0.0.1")
    caplog.set_level("INFO")
    log.info("refused", about="10.0.0.1")
    assert [each.__dict__.get("left_out") for each in caplog.records] == [None]


def numbered(number: int) -> tuple[str, str]:
    return f"User:u{number}", "10.0.0.2"


def test_a_source_gets_its_burst_and_then_a_line_per_second_with_the_number_left_out() -> None:
    limit = LineLimit(0.0)
    assert [limit.admit(A, 0.0) for _ in range(BURST_LINES)] == [0] * BURST_LINES
    assert [limit.admit(A, 0.0) for _ in range(7)] == [None] * 7
    assert limit.admit(A, 1.0) == 7
    assert limit.admit(A, 1.5) is None
    assert limit.admit(A, 2.0) == 1


def test_a_flood_of_one_source_does_not_silence_another() -> None:
    limit = LineLimit(0.0)
    for _ in range(10 * TOTAL_BURST_LINES):
        limit.admit(("User:hostile", "10.0.0.6"), 0.0)
    assert limit.admit(("User:other", "10.0.0.7"), 0.0) == 0


def test_all_sources_together_are_limited() -> None:
    limit = LineLimit(0.0)
    admitted = sum(
        limit.admit(numbered(each), 0.0) is not None for each in range(3 * TOTAL_BURST_LINES)
    )
    assert admitted == TOTAL_BURST_LINES


def test_what_was_left_out_is_reported_once() -> None:
    limit = LineLimit(0.0)
    for _ in range(BURST_LINES + 3):
        limit.admit(A, 0.0)
    assert list(limit.take_left_out()) == [(A, 3)]
    assert list(limit.take_left_out()) == []
    assert limit.admit(A, 1.0) == 0


def test_the_lines_of_a_forgotten_source_are_still_counted() -> None:
    limit = LineLimit(0.0)
    for _ in range(BURST_LINES + 3):
        limit.admit(A, 0.0)
    for number in range(MAX_SOURCES):
        limit.admit(numbered(number), 1e6)
    assert (None, 3) in list(limit.take_left_out())


def test_the_memory_for_sources_is_bounded() -> None:
    limit = LineLimit(0.0)
    for number in range(3 * MAX_SOURCES):
        limit.admit(numbered(number), 0.0)
    reported = list(limit.take_left_out())
    assert len(reported) <= limited_log.MAX_SOURCES + 1
    assert sum(number for _, number in reported) == 3 * MAX_SOURCES - TOTAL_BURST_LINES
