"""Bytes per second are written with units, and shown without losing a digit."""

import pytest

from headrace.cli.byte_rates import parse_byte_rate
from headrace.cli.exit_codes import CommandFailed


def test_rates_are_read_as_people_write_them() -> None:
    texts = ("800", "50M", "1.5k", "2MiB", "10MB/s")
    rates = [parse_byte_rate(text, "--throttle") for text in texts]
    assert rates == [800, 50_000_000, 1500, 2 * 2**20, 10_000_000]


@pytest.mark.parametrize("bad", ["", "fast", "0", "-1", "M", "3X", "inf", "1e999"])
def test_other_words_are_refused_with_the_option(bad: str) -> None:
    with pytest.raises(CommandFailed, match="--throttle takes bytes per second, such as 50M"):
        parse_byte_rate(bad, "--throttle")
