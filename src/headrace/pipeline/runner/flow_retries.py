"""Retries a flow after an error that may pass, with growing pauses."""

import threading
from typing import Final

from headrace.pipeline.runner.events import Event, EventKind, Report
from headrace.pipeline.runner.failures import BatchFailure, failure_of

MAX_RETRIES: Final = 12
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0


class FlowFailed(Exception):
    """The flow cannot continue. The message is written for the user."""

    def __init__(self, flow: str, failure: BatchFailure) -> None:
        super().__init__(failure.message)
        self.flow = flow
        self.failure = failure


class FlowRetries:
    """Counts the failures of one flow in a row, and reports each."""

    def __init__(
        self, flow: str, report: Report, stop: threading.Event, max_retries: int = MAX_RETRIES
    ) -> None:
        self._flow = flow
        self._report = report
        self._stop = stop
        self._max_retries = max_retries
        self._failures = 0

    def reset(self) -> None:
        """Forgets earlier failures, because the flow made progress."""
        self._failures = 0

    def pause_after(self, error: Exception) -> None:
        """Waits before the next attempt. Raises `FlowFailed` if a retry cannot help."""
        self._failures += 1
        failure = failure_of(error)
        if not failure.retriable or self._failures > self._max_retries:
            self._report(Event(self._flow, EventKind.FAILED, message=failure.message))
            raise FlowFailed(self._flow, failure) from error
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (self._failures - 1))
        message = f"{failure.message} (again in {pause:g} s)"
        self._report(Event(self._flow, EventKind.RETRY, message=message))
        self._stop.wait(pause)
