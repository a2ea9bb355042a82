"""Durations: exact counts and sums, quantiles of a window."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.metrics.durations import FOLD_AT, QUANTILES, Durations, summary_samples

ERROR = 1 / 16
"""Buckets are a sixteenth of a power of two wide."""


def summary(*parts: Durations, **options: object) -> dict[str, float]:
    samples = summary_samples(parts, (), **options)  # type: ignore[arg-type]
    return {name: value for (name,), value in samples}


@given(st.lists(st.floats(1e-7, 1000), min_size=1, max_size=200))
def test_count_and_sum_are_exact_and_quantiles_are_near(values: list[float]) -> None:
    durations = Durations()
    for value in values:
        durations.add(value)
    found = summary(durations)
    assert found["count"] == len(values)
    assert found["sum"] == pytest.approx(sum(values))
    ordered = sorted(values)
    for quantile in QUANTILES:
        rank = next(i for i in range(len(ordered)) if i + 1 >= quantile * len(ordered))
        assert found[str(quantile)] == pytest.approx(ordered[rank], rel=ERROR)


def test_the_buffer_is_folded_and_memory_is_bounded() -> None:
    durations = Durations()
    source = random.Random(1)
    for _ in range(20 * FOLD_AT):
        durations.add(source.expovariate(100))
    assert len(durations.buffer) < FOLD_AT
    assert len(durations._current) < 1000
    assert summary(durations)["count"] == 20 * FOLD_AT


def test_quantiles_forget_after_two_windows_and_counts_do_not() -> None:
    durations = Durations()
    durations.add(5.0)
    durations.rotate()
    assert summary(durations)["0.5"] == pytest.approx(5.0, rel=ERROR)
    durations.rotate()
    found = summary(durations)
    assert (found["0.5"], found["count"], found["sum"]) == (0, 1, 5.0)


def test_a_duration_of_zero_counts() -> None:
    durations = Durations()
    durations.add(0.0)
    assert summary(durations) == dict.fromkeys(map(str, QUANTILES), 0) | {"sum": 0, "count": 1}


def test_events_without_a_wait_count_as_zero() -> None:
    """Of a hundred requests, one waits for two seconds: the median wait is 0."""
    total, remote = Durations(), Durations()
    total.add_many(0.001, 99)
    total.add(2.0)
    remote.add(2.0)
    found = summary(remote, among=(total,))
    assert (found["0.5"], found["count"], found["sum"]) == (0, 100, 2.0)
    assert found["0.999"] == pytest.approx(2.0, rel=ERROR)


def test_several_kinds_of_events_are_one_summary() -> None:
    one, two = Durations(), Durations()
    one.add_many(1.0, 3)
    two.add(3.0)
    found = summary(one, two, scale=1000.0)
    assert (found["count"], found["sum"]) == (4, 6000)
    assert found["0.5"] == pytest.approx(1000, rel=ERROR)
    assert found["0.999"] == pytest.approx(3000, rel=ERROR)
