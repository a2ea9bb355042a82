"""What is known about a cluster at one moment, and the rates between two moments. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.cli.cluster.status import Overview
from headrace.cli.top.scrape import Scrape
from headrace.client.results import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupSample:
    """One group. Without metrics, its members and its lag in seconds are not known."""

    kind: str
    state: str
    lag: int | None
    position: int | None
    """The sum of its committed offsets."""
    members: int | None = None
    lag_s: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment."""

    at: float
    """In seconds of the monotonic clock."""
    overview: Overview
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The bytes of the leaders' logs, from brokers without metrics."""
    groups: Mapping[str, GroupSample] = field(default_factory=dict)
    scrapes: Mapping[int, Scrape] = field(default_factory=dict)
    """By broker; a broker without a reachable HTTP port is missing."""
    refused: Mapping[int, str] = field(default_factory=dict)
    """Why HTTP ports that answer send no metrics, by broker."""


def rate(before: float | None, now: float | None, seconds: float) -> float | None:
    """The rate of a counter; None if it is not known, or was reset in between."""
    if before is None or now is None or seconds <= 0 or now < before:
        return None
    return (now - before) / seconds
