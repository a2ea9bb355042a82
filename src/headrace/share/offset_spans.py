"""The offsets of a share partition's window, as runs that share a state.

The runs touch each other and are sorted: every offset of the window is in exactly one of them.
A window of thousands of records that are all in one state is one run.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from headrace.share.record_state import RecordState
from headrace.share.state_write import StateWrite


@dataclass(slots=True)
class Span:
    """A run of offsets, `last` included."""

    first: int
    last: int
    state: RecordState
    deliveries: int
    width: int
    """Records of the batch that the run was split from: throttling halves that number."""
    member: str = ""
    deadline_ms: int = 0
    """When the lock of an acquired run expires."""
    write: StateWrite | None = None
    """The write that will set the run's `next_state`; until then the run cannot change."""
    next_state: RecordState = RecordState.AVAILABLE
    rejected: bool = False
    handed_over: bool = False
    """An archiving run whose dead letters are being written."""

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def is_free(self) -> bool:
        return self.state is RecordState.AVAILABLE

    def continues(self, earlier: "Span") -> bool:
        """Whether both can be one run: their states will never differ again."""
        return self.state is earlier.state and self.state.is_final


def _first(span: Span) -> int:
    return span.first


class Spans:
    """The runs of one window."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[Span] = []

    def __iter__(self) -> Iterator[Span]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def append(self, span: Span) -> None:
        """Adds a run right after the last one."""
        self._runs.append(span)

    def clear(self) -> None:
        self._runs.clear()

    def overlapping(self, first: int, last: int) -> list[Span]:
        """The runs that hold some offset from `first` to `last`, uncut."""
        runs = self._runs
        index = max(0, bisect_right(runs, first, key=_first) - 1)
        found = []
        for place in range(index, len(runs)):
            span = runs[place]
            if span.first > last:
                break
            if span.last >= first:
                found.append(span)
        return found

    def cut(self, first: int, last: int) -> list[Span]:
        """The runs from `first` to `last`, split so that they end exactly there."""
        self._cut_before(first)
        self._cut_before(last + 1)
        return self.overlapping(first, last)

    def _cut_before(self, offset: int) -> None:
        runs = self._runs
        index = bisect_right(runs, offset, key=_first) - 1
        if index < 0:
            return
        span = runs[index]
        if span.first < offset <= span.last:
            runs.insert(index + 1, replace(span, first=offset))
            span.last = offset - 1

    def drop_before(self, offset: int) -> None:
        """Removes everything below `offset`."""
        self._cut_before(offset)
        del self._runs[: bisect_right(self._runs, offset - 1, key=_first)]

    def drop_final(self) -> int | None:
        """Removes the finished runs at the front; returns the offset after them, None if there are
        none."""
        done = 0
        for span in self._runs:
            if not span.state.is_final:
                break
            done += 1
        if not done:
            return None
        end = self._runs[done - 1].last + 1
        del self._runs[:done]
        return end

    def merge(self) -> None:
        """Joins finished neighbours, so that a window with one stuck record stays small."""
        merged: list[Span] = []
        for span in self._runs:
            if merged and span.continues(merged[-1]):
                merged[-1].last = span.last
            else:
                merged.append(span)
        self._runs = merged
