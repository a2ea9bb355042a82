"""Retries that fail for the same reason have one line, and the recovery has their number."""

import logging

import pytest

from headrace.failure_log import FailureLog

LOG = logging.getLogger("headrace.test")


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, object]]:
    return [
        (each.getMessage(), each.__dict__.get("error") or each.__dict__.get("failures"))
        for each in caplog.records
        if each.levelno > logging.DEBUG
    ]


def test_the_first_failure_and_each_new_reason_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    failures = FailureLog(LOG)
    for reason in ("refused", "refused", "refused", "timed out", "timed out"):
        failures.failed(logging.WARNING, "poll failed, retrying in %g s", 0.5, reason=reason)
    failures.succeeded("it works again", leader=2)
    sentence = "poll failed, retrying in 0.5 s"
    assert lines(caplog) == [(sentence, "refused"), (sentence, "timed out"), ("it works again", 5)]
    assert len(caplog.records) == 6  # the others are at DEBUG


def test_a_success_without_failures_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    failures = FailureLog(LOG)
    failures.succeeded("it works again")
    failures.failed(logging.WARNING, "failed", reason="x")
    failures.reset()
    failures.succeeded("it works again")
    assert [each.getMessage() for each in caplog.records] == ["failed"]
