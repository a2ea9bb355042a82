"""Numbers and times on the pages."""

import pytest

from headrace.console.web import formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (10 * 2**30, "10.0 GiB")],
)
def test_sizes(value: float | None, text: str) -> None:
    assert formatting.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0, "0"), (999, "999"), (12_345, "12.3k"), (0.25, "0.25")]
)
def test_short_numbers(value: float | None, text: str) -> None:
    assert formatting.short(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "250 ms"), (5, "5 s"), (65, "1 min 5 s"), (7500, "2 h 5 min"), (90_000, "1 d 1 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "1970-01-01 00:00:00.000"), (-1, "–"), (None, "–"), (2**62, str(2**62))],
)
def test_times_of_hostile_records_do_not_fail(ms: int | None, text: str) -> None:
    assert formatting.timestamp(ms) == text
    assert formatting.iso(2**62) == ""


def test_a_name_is_one_segment_of_a_path() -> None:
    assert formatting.path_segment("a/b?c#d") == "a%2Fb%3Fc%23d"
