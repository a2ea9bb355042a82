"""The batches of a pipeline: rates, and a timeline by phase. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

WIDTH: Final = 1000
"""The width of a bar of the longest batch, in units of its drawing."""
PHASES: Final = ("plan", "prepare", "write", "dead_letters", "commit", "group")
OTHER: Final = "other"
RATE_BATCHES: Final = 20


class BatchEvent(NamedTuple):
    """One event of a pipeline's history; the batch fields are 0 or empty for other kinds."""

    time_ms: int
    kind: str
    batch_id: int | None
    rows: int
    offsets_read: int
    dead_letters: int
    skipped: int
    seconds: float
    phases: Mapping[str, float]
    version: str
    offsets: Mapping[str, Mapping[str, int]]
    lag: Mapping[str, Mapping[str, int]]
    message: str

    @property
    def is_batch(self) -> bool:
        return self.kind == "batch"

    @property
    def total_lag(self) -> int:
        return sum(lag for of in self.lag.values() for lag in of.values())


class Segment(NamedTuple):
    """One phase in a bar."""

    phase: str
    x: float
    width: float
    seconds: float


class Bar(NamedTuple):
    """One batch in the timeline."""

    event: BatchEvent
    segments: tuple[Segment, ...]


def bars_of(events: Sequence[BatchEvent], limit: int) -> list[Bar]:
    """The last batches, newest first, all in the scale of the longest."""
    batches = [each for each in events if each.is_batch][-limit:]
    longest = max((_seconds(each) for each in batches), default=0.0)
    return [Bar(each, _segments(each, longest)) for each in reversed(batches)]


def _seconds(event: BatchEvent) -> float:
    return max(event.seconds, sum(event.phases.values()))


def _segments(event: BatchEvent, longest: float) -> tuple[Segment, ...]:
    if not longest:
        return ()
    known = [(name, event.phases[name]) for name in PHASES if event.phases.get(name)]
    rest = sum(spent for name, spent in event.phases.items() if name not in PHASES)
    if rest:
        known.append((OTHER, rest))
    segments, x = [], 0.0
    for name, spent in known:
        width = spent / longest * WIDTH
        segments.append(Segment(name, round(x, 1), round(width, 1), spent))
        x += width
    return tuple(segments)


def rows_per_s(events: Sequence[BatchEvent]) -> float | None:
    """The rows of the last batches over the time from the first one's begin to the last one's end.

    None without a batch.
    """
    batches = [each for each in events if each.is_batch][-RATE_BATCHES:]
    if not batches:
        return None
    span_s = (batches[-1].time_ms - batches[0].time_ms) / 1000 + batches[0].seconds
    return sum(each.rows for each in batches) / span_s if span_s > 0 else None


def positions_of(events: Sequence[BatchEvent]) -> list[tuple[str, str, int, int | None]]:
    """Topic, partition, next offset and lag after the last batch."""
    last = next((each for each in reversed(events) if each.offsets), None)
    if last is None:
        return []
    return [
        (topic, partition, offset, last.lag.get(topic, {}).get(partition))
        for topic, of in sorted(last.offsets.items())
        for partition, offset in sorted(of.items(), key=lambda item: int(item[0]))
    ]
