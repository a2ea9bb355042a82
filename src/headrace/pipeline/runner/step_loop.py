"""Runs the steps of one flow until it has caught up, fails, or is stopped."""

import threading
import time
from collections.abc import Callable
from enum import Enum, auto

from headrace.pipeline.runner.events import Event, EventKind, Report
from headrace.pipeline.runner.flow_retries import FlowRetries


class LoopStep(Enum):
    """The result of one iteration of the loop."""

    BATCH = auto()
    """A batch was committed. When it was planned, there was nothing more to read."""
    MORE = auto()
    """A batch was committed. There is more to read."""
    IDLE = auto()
    CAUGHT_UP = auto()


def run_steps(
    step: Callable[[], LoopStep],
    flow: str,
    report: Report,
    stop: threading.Event,
    *,
    interval_s: float,
    max_retries: int,
) -> None:
    """Runs `step` again and again; raises `FlowFailed`.

    Steps begin `interval_s` apart, unless there is more to read.
    """
    retries = FlowRetries(flow, report, stop, max_retries)
    report(Event(flow, EventKind.STARTED))
    while not stop.is_set():
        began = time.monotonic()
        try:
            result = step()
        except Exception as error:
            retries.pause_after(error)
            continue
        retries.reset()
        if result is LoopStep.CAUGHT_UP:
            report(Event(flow, EventKind.CAUGHT_UP))
            break
        if result is not LoopStep.MORE:
            stop.wait(max(0.0, interval_s - (time.monotonic() - began)))
    report(Event(flow, EventKind.STOPPED))
