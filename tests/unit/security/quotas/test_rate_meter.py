"""The rate over the last windows, with the figures of Kafka's SampledStat."""

import pytest

from headrace.security.quotas.rate_meter import RateMeter


def test_the_first_value_counts_as_if_all_other_windows_had_passed() -> None:
    meter = RateMeter(11, 1.0)
    meter.record(1000, 100.0)
    assert meter.elapsed_s(100.0) == 10.0
    assert meter.rate(100.0) == 100.0
    assert meter.rate(100.5) == pytest.approx(1000 / 10.5)


def test_a_value_counts_until_it_is_as_old_as_all_windows() -> None:
    meter = RateMeter(11, 1.0)
    meter.record(1000, 100.0)
    assert meter.total(110.9) == 1000
    assert meter.rate(110.9) == pytest.approx(1000 / 10.9)
    assert meter.total(111.0) == 0
    assert meter.is_idle(111.0)


def test_values_within_one_window_share_it() -> None:
    meter = RateMeter(11, 1.0)
    meter.record(10, 100.0)
    meter.record(10, 100.9)  # keeps the window alive for 11 s more
    assert meter.total(111.5) == 20
    assert meter.total(111.9) == 0


def test_a_negative_value_takes_one_back() -> None:
    meter = RateMeter(11, 1.0)
    meter.record(500, 100.0)
    meter.record(-500, 100.0)
    assert meter.rate(100.0) == 0


def test_a_single_window_does_not_divide_by_zero() -> None:
    meter = RateMeter(1, 1.0)
    meter.record(1, 100.0)
    assert meter.rate(100.0) == 1000.0
