"""The records of a share partition's window that are in flight: locks with their holders, totals.

Locks are not stored. Only the leader of the partition knows them, and it tells them to operators.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.share.offset_spans import Span
from headrace.share.record_state import RecordState

BEING_STORED: Final = -1


class AcquisitionLock(NamedTuple):
    """Consecutive offsets that one member holds until one deadline."""

    first: int
    last: int
    member: str
    deliveries: int
    expires_ms: int
    """The time that is left; `BEING_STORED` while an acknowledgement is being stored, because a
    lock does not expire then."""

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class UnheldRecords(NamedTuple):
    """The offsets of a window that no member holds."""

    available: int
    """Released, or their locks have expired: the next ones to be delivered again."""
    acknowledged: int
    archiving: int
    """Waiting for their copies in the dead-letter topic."""
    archived: int


class InFlightRecords(NamedTuple):
    """One window at one moment."""

    acquired: int = 0
    locks: tuple[AcquisitionLock, ...] = ()
    """The first ones; they hold back the start offset."""
    omitted_locks: int = 0
    others: UnheldRecords | None = None
    """None if the window is not loaded: its stored state has them."""

    def limited(self, max_locks: int) -> "InFlightRecords":
        """With at most that many locks."""
        omitted = len(self.locks) - max_locks
        if omitted <= 0:
            return self
        return self._replace(
            locks=self.locks[:max_locks], omitted_locks=self.omitted_locks + omitted
        )


NOTHING_LOADED: Final = InFlightRecords()
"""A window that is not loaded has no locks."""


def in_flight_records(spans: Iterable[Span], now_ms: int, max_locks: int) -> InFlightRecords:
    """The totals of the runs, and their first `max_locks` locks."""
    sizes: Counter[RecordState] = Counter()
    locks: list[AcquisitionLock] = []
    for span in spans:
        sizes[span.state] += span.size
        if span.state is not RecordState.ACQUIRED:
            continue
        lock = _lock_of(span, now_ms)
        last = locks[-1] if locks else None
        if last is not None and last.last + 1 == lock.first and last[2:] == lock[2:]:
            locks[-1] = last._replace(last=lock.last)
        else:
            locks.append(lock)
    others = UnheldRecords(
        sizes[RecordState.AVAILABLE],
        sizes[RecordState.ACKNOWLEDGED],
        sizes[RecordState.ARCHIVING],
        sizes[RecordState.ARCHIVED],
    )
    found = InFlightRecords(sizes[RecordState.ACQUIRED], tuple(locks), 0, others)
    return found.limited(max_locks)


def _lock_of(span: Span, now_ms: int) -> AcquisitionLock:
    left_ms = max(0, span.deadline_ms - now_ms) if span.write is None else BEING_STORED
    return AcquisitionLock(span.first, span.last, span.member, span.deliveries, left_ms)
