"""Rates of topics from two snapshots, and the history that the charts show. Pure."""

from collections import deque
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from headrace.console.cluster.snapshot import ClusterSnapshot, TopicState

MAX_POINTS: Final = 360
"""Half an hour at one point each 5 s."""
MIN_INTERVAL_S: Final = 0.5
SMOOTHING_S: Final = 10.0
"""The time over which a rate follows a change; a rate of one interval alone jumps."""


class HistoryPoint(NamedTuple):
    """One point of every chart of the overview."""

    at_ms: int
    records_per_s: float | None
    bytes_per_s: float | None
    lag: int
    under_replicated: int
    brokers: int


def with_rates(snapshot: ClusterSnapshot, before: ClusterSnapshot | None) -> ClusterSnapshot:
    """The snapshot with the rates of its topics since the one before."""
    if before is None:
        return snapshot
    elapsed_s = snapshot.taken_s - before.taken_s
    if elapsed_s <= 0:
        return snapshot
    topics = {
        name: _with_rate(topic, before.topics.get(name), elapsed_s)
        for name, topic in snapshot.topics.items()
    }
    return replace(snapshot, topics=topics)


def _with_rate(topic: TopicState, before: TopicState | None, elapsed_s: float) -> TopicState:
    if before is None or before.topic_id != topic.topic_id or topic.records is None:
        return topic
    if before.records_per_s is None and elapsed_s < MIN_INTERVAL_S:
        return topic  # too short for a first rate
    appended = max(0, topic.end_sum - before.end_sum)
    weight = min(1.0, elapsed_s / SMOOTHING_S)
    records_per_s = _smoothed(before.records_per_s, appended / elapsed_s, weight)
    written = _written_bytes(topic, before, appended)
    bytes_per_s = None
    if written is not None:
        bytes_per_s = _smoothed(before.bytes_per_s, written / elapsed_s, weight)
    return replace(topic, records_per_s=records_per_s, bytes_per_s=bytes_per_s)


def _smoothed(before: float | None, now: float, weight: float) -> float:
    if before is None:
        return now
    smoothed = before + (now - before) * weight
    return 0.0 if not now and smoothed < 0.01 else smoothed  # below what is shown


def _written_bytes(topic: TopicState, before: TopicState, appended: int) -> float | None:
    """The growth of the log; where retention shortened it, the average size times the records."""
    if topic.bytes is None or before.bytes is None:
        return None
    if topic.bytes >= before.bytes:
        return topic.bytes - before.bytes
    return appended * topic.bytes / topic.records if topic.records else None


@dataclass(slots=True)
class History:
    """The latest points, oldest first."""

    points: deque[HistoryPoint]

    @classmethod
    def empty(cls) -> "History":
        return cls(deque(maxlen=MAX_POINTS))

    def add(self, snapshot: ClusterSnapshot) -> None:
        self.points.append(
            HistoryPoint(
                snapshot.taken_ms,
                snapshot.records_per_s,
                snapshot.bytes_per_s,
                snapshot.total_lag,
                snapshot.under_replicated,
                sum(not each.fenced and each.problem is None for each in snapshot.brokers),
            )
        )
