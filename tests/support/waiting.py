"""Waits for a condition with a deadline, instead of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 20.0
PAUSE_S = 0.01


def wait_for(condition: Callable[[], T | None], what: str, *, deadline_s: float = DEADLINE_S) -> T:
    """The first true value of `condition`; fails with `what` when the deadline passes."""
    give_up = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(PAUSE_S)
