"""Rates between two snapshots."""

from dataclasses import replace

import pytest

from headrace.client.results import TopicPartition
from headrace.console.cluster.rates import SMOOTHING_S, with_rates
from headrace.console.cluster.snapshot import (
    ClusterSnapshot,
    PartitionState,
    TopicState,
    lag_of,
    topic_state,
)


def topic(end: int, size: int, *, start: int = 0, topic_id: bytes = b"1") -> TopicState:
    state = PartitionState(0, 1, 0, (1,), (1,), start, end, size)
    return topic_state("t", topic_id, False, (state,))


def snapshot(at_s: float, one: TopicState) -> ClusterSnapshot:
    return ClusterSnapshot(0, at_s, 0.0, "c", 1, (), {"t": one}, {})


def rates(before: ClusterSnapshot, after: ClusterSnapshot) -> tuple[float | None, float | None]:
    found = with_rates(after, before).topics["t"]
    return found.records_per_s, found.bytes_per_s


def test_the_first_rate_is_that_of_the_interval() -> None:
    assert rates(snapshot(0, topic(0, 0)), snapshot(10, topic(50, 1000))) == (5.0, 100.0)


def test_a_rate_follows_a_change_smoothly() -> None:
    before = snapshot(0, replace(topic(0, 0), records_per_s=0.0, bytes_per_s=0.0))
    found, _ = rates(before, snapshot(SMOOTHING_S / 2, topic(100, 0)))
    assert found == pytest.approx(10.0)


def test_a_refresh_shortly_after_another_keeps_the_rate() -> None:
    """A change refreshes the snapshot at once."""
    before = snapshot(0, replace(topic(0, 0), records_per_s=50.0, bytes_per_s=0.0))
    found, _ = rates(before, snapshot(0.01, topic(0, 0)))
    assert found == pytest.approx(50.0, rel=0.01)


def test_a_first_rate_needs_some_time() -> None:
    assert rates(snapshot(0, topic(0, 0)), snapshot(0.01, topic(5, 5))) == (None, None)


def test_retention_does_not_make_a_rate_negative() -> None:
    _, size = rates(snapshot(0, topic(100, 5000)), snapshot(10, topic(110, 500, start=100)))
    assert size == pytest.approx(10 * 50 / 10)


def test_a_topic_that_was_made_again_begins_anew() -> None:
    after = snapshot(10, topic(5, 5, topic_id=b"2"))
    assert rates(snapshot(0, topic(100, 100)), after) == (None, None)


def test_lag_counts_records_that_still_exist() -> None:
    """Retention may have passed the committed offset; a gone topic has no lag."""
    topics = {"t": topic(100, 1, start=40)}
    assert lag_of({TopicPartition("t", 0): 10}, topics) == {"t": 60}
    assert lag_of({TopicPartition("t", 0): 100}, topics) == {"t": 0}
    assert lag_of({TopicPartition("t", 0): 150}, topics) == {"t": 0}
    assert lag_of({TopicPartition("gone", 0): 1, TopicPartition("t", 9): 1}, topics) == {}
