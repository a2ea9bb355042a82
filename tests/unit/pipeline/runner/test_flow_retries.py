"""A flow is retried after errors that may pass, until there are too many in a row."""

import threading
from typing import Final

import pytest

from headrace.pipeline.runner.events import Event, EventKind
from headrace.pipeline.runner.flow_retries import LONGEST_PAUSE_S, FlowFailed, FlowRetries
from headrace.pipeline.source.settings import ReadFailed

PASSING: Final = ReadFailed("orders-0 has no leader")
LASTING: Final = ReadFailed("orders-0 is damaged at offset 5")


class StopWithoutWaiting(threading.Event):
    """Records the pauses and returns at once."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout)
        return False


def test_pauses_grow_up_to_the_longest_and_then_the_flow_fails() -> None:
    stop, events = StopWithoutWaiting(), list[Event]()
    retries = FlowRetries("orders", events.append, stop, max_retries=8)
    for _ in range(8):
        retries.pause_after(PASSING)
    assert stop.pauses == [0.5, 1, 2, 4, 8, 16, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert [each.kind for each in events] == [EventKind.RETRY] * 8
    assert events[0].message == "orders-0 has no leader (again in 0.5 s)"
    with pytest.raises(FlowFailed) as failed:
        retries.pause_after(PASSING)
    assert (failed.value.flow, failed.value.__cause__) == ("orders", PASSING)
    assert events[-1].kind is EventKind.FAILED


def test_progress_resets_the_pauses() -> None:
    stop = StopWithoutWaiting()
    retries = FlowRetries("orders", lambda event: None, stop, max_retries=1)
    for _ in range(5):
        retries.pause_after(PASSING)
        retries.reset()
    assert stop.pauses == [0.5] * 5


def test_an_error_that_lasts_is_not_retried() -> None:
    stop = StopWithoutWaiting()
    retries = FlowRetries("orders", lambda event: None, stop)
    with pytest.raises(FlowFailed):
        retries.pause_after(LASTING)
    assert stop.pauses == []
