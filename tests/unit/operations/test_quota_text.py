"""Quotas in words: rates are shown without losing a digit."""

import pytest

from headrace.operations.quota_text import read_byte_rate, show_byte_rate


@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        (1_000_000, "1MB/s"),
        (2 * 2**20, "2MiB/s"),
        (1500, "1500B/s"),
        (3_000, "3kB/s"),
        (10**9, "1GB/s"),
        (1, "1B/s"),
    ],
)
def test_a_shown_rate_has_every_digit(rate: int, shown: str) -> None:
    assert show_byte_rate(rate) == shown
    assert read_byte_rate(shown) == rate
