"""Sizes and durations as people read them."""

import pytest

from headrace.cli.units import byte_size, duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.9, "59 s"), (60, "1 min 0 s"), (3725, "1 h 2 min"), (180_000, "2 d 2 h")],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2 * 10**12, "2.0 TB")]
)
def test_a_size_has_one_unit(size: int, text: str) -> None:
    assert byte_size(size) == text
