"""A result while it is being decided."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.common.result import (
    CancelTimer,
    Completion,
    CoordinatorResult,
    Deferred,
    SetTimer,
)

R = TypeVar("R")


class ResultBuilder:
    """Collects the records, responses, timers and effects of a decision."""

    __slots__ = ("changes", "completions", "effects", "timers", "undo")

    def __init__(self) -> None:
        self.changes: list[RecordChange] = []
        self.completions: list[Completion] = []
        self.timers: list[SetTimer | CancelTimer] = []
        self.effects: list[object] = []
        self.undo: Callable[[CoordinatorError], None] | None = None

    def complete(self, deferred: Deferred[R] | None, outcome: R | CoordinatorError) -> None:
        """Answers a waiting request, if there is one."""
        if deferred is not None:
            self.completions.append(Completion(deferred, outcome))

    def set_timer(self, key: Hashable, delay_ms: int) -> None:
        self.timers.append(SetTimer(key, delay_ms))

    def cancel_timer(self, key: Hashable) -> None:
        self.timers.append(CancelTimer(key))

    def add_undo(self, undo: Callable[[CoordinatorError], None]) -> None:
        """Adds an undo step, which runs after the ones added before."""
        before = self.undo

        def both(error: CoordinatorError) -> None:
            if before is not None:
                before(error)
            undo(error)

        self.undo = both

    def build(self, answer: R | Deferred[R]) -> CoordinatorResult[R]:
        return CoordinatorResult(
            answer,
            changes=self.changes,
            completions=self.completions,
            timers=self.timers,
            effects=self.effects,
            undo=self.undo,
        )
