"""Places in a partition, as people write them."""

import pytest

from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.position_parser import (
    AtOffset,
    FromBeginning,
    FromEnd,
    LastRecords,
    SinceTime,
    Start,
    UntilTime,
    parse_duration_ms,
    parse_range,
    parse_start,
)

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", FromBeginning()),
        ("start", FromBeginning()),
        ("Earliest", FromBeginning()),
        ("end", FromEnd()),
        ("latest", FromEnd()),
        ("0", AtOffset(0)),
        ("42", AtOffset(42)),
        ("-5", LastRecords(5)),
        ("s@1700000000000", SinceTime(1_700_000_000_000)),
        ("@1700000000000", SinceTime(1_700_000_000_000)),
        ("s@2026-01-31T12:00:00Z", SinceTime(1_769_860_800_000)),
        ("s@2026-01-31T13:00:00+01:00", SinceTime(1_769_860_800_000)),
        ("s@2026-01-31", SinceTime(1_769_817_600_000)),
        ("s@-2h", SinceTime(NOW_MS - 7_200_000)),
        ("s@now", SinceTime(NOW_MS)),
    ],
)
def test_a_place_is_read_as_people_write_it(text: str, place: Start) -> None:
    assert parse_start(text, NOW_MS) == place


@pytest.mark.parametrize(
    "text", ["", "middle", "1.5", "--5", "-", "s@", "s@soon", "5-", "٣", "s@-2y"]
)
def test_anything_else_is_a_mistake_that_says_what_is_possible(text: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        parse_start(text, NOW_MS)
    assert caught.value.code is ExitCode.USAGE
    assert "-o" in str(caught.value)


def test_a_range_has_one_start_and_one_end() -> None:
    assert parse_range([], NOW_MS, FromBeginning()) == (FromBeginning(), None)
    assert parse_range(["e@5", "s@1"], NOW_MS, FromEnd()) == (SinceTime(1), UntilTime(5))
    for twice in (["1", "2"], ["e@1", "e@2"]):
        with pytest.raises(CommandFailed, match="two"):
            parse_range(twice, NOW_MS, FromEnd())


def test_where_only_a_start_makes_sense_an_end_is_refused() -> None:
    with pytest.raises(CommandFailed, match="end position"):
        parse_start("e@5", NOW_MS, flag="--to")


def test_durations_have_units() -> None:
    assert parse_duration_ms("90s", "--x") == parse_duration_ms("90", "--x") == 90_000
    assert parse_duration_ms("15m", "--x") == 900_000
    with pytest.raises(CommandFailed, match="--x"):
        parse_duration_ms("soon", "--x")
