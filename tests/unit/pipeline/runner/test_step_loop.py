"""The steps of a flow run one after another, with pauses only when there is nothing to read."""

import threading
from collections.abc import Callable, Iterable

import pytest

from headrace.pipeline.runner.events import Event, EventKind
from headrace.pipeline.runner.flow_retries import FlowFailed
from headrace.pipeline.runner.step_loop import LoopStep, run_steps
from headrace.pipeline.source.settings import ReadFailed

INTERVAL_S = 1000.0


class StopWithoutWaiting(threading.Event):
    """Records the pauses and returns at once; set after the last expected pause."""

    def __init__(self, pauses: int) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._expected = pauses

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        if len(self.pauses) == self._expected:
            self.set()
        return False


def steps(results: Iterable[LoopStep | Exception]) -> Callable[[], LoopStep]:
    left = iter(results)

    def step() -> LoopStep:
        result = next(left)
        if isinstance(result, Exception):
            raise result
        return result

    return step


def run(stop: threading.Event, *results: LoopStep | Exception) -> list[EventKind]:
    events: list[Event] = []
    step = steps(results)
    run_steps(step, "orders", events.append, stop, interval_s=INTERVAL_S, max_retries=1)
    return [each.kind for each in events]


def test_a_flow_that_has_caught_up_ends_without_a_pause() -> None:
    stop = StopWithoutWaiting(pauses=1)
    kinds = run(stop, LoopStep.MORE, LoopStep.MORE, LoopStep.CAUGHT_UP)
    assert kinds == [EventKind.STARTED, EventKind.CAUGHT_UP, EventKind.STOPPED]
    assert stop.pauses == []


def test_a_stopped_flow_ends_after_its_step() -> None:
    stop = StopWithoutWaiting(pauses=2)
    assert run(stop, LoopStep.BATCH, LoopStep.IDLE) == [EventKind.STARTED, EventKind.STOPPED]
    assert [INTERVAL_S - 100 < pause <= INTERVAL_S for pause in stop.pauses] == [True, True]


def test_a_step_that_succeeds_ends_a_row_of_failures() -> None:
    stop, failure = StopWithoutWaiting(pauses=9), ReadFailed("no leader")
    kinds = run(stop, failure, LoopStep.MORE, failure, LoopStep.CAUGHT_UP)
    assert kinds[1:3] == [EventKind.RETRY, EventKind.RETRY]
    with pytest.raises(FlowFailed):
        run(stop, failure, failure)
