"""Ratios are computed within a pair, and a spread names its samples."""

import pytest
from bench.stats import pair_ratios, spread


def test_a_slow_moment_during_a_whole_pair_does_not_change_its_ratio() -> None:
    assert pair_ratios([100.0, 10.0, 100.0], [50.0, 5.0, 50.0]) == [2.0, 2.0, 2.0]


def test_a_pair_without_a_denominator_has_no_ratio() -> None:
    assert pair_ratios([1.0, 1.0], [0.0, 2.0]) == [0.5]


def test_pairs_must_be_complete() -> None:
    with pytest.raises(ValueError, match="zip"):
        pair_ratios([1.0, 2.0], [1.0])


def test_the_spread_of_seven_samples_has_their_extremes_quartiles_and_median() -> None:
    found = spread([7.0, 1.0, 6.0, 2.0, 5.0, 3.0, 4.0])
    assert (found.low, found.median, found.high) == (1.0, 4.0, 7.0)
    assert (found.lower_quartile, found.upper_quartile) == (2.5, 5.5)
    assert found.interquartile_share == 0.75


def test_one_sample_is_its_own_spread() -> None:
    found = spread([3.0])
    assert (found.low, found.median, found.high, found.interquartile_share) == (3.0, 3.0, 3.0, 0.0)


def test_no_samples_have_no_spread() -> None:
    with pytest.raises(ValueError, match="at least one"):
        spread([])
