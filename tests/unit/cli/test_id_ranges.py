"""Ids and ranges as people write them."""

import pytest

from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.id_ranges import parse_ids


def test_ids_and_ranges_are_read_each_once() -> None:
    assert parse_ids(None, "partitions") is None
    assert parse_ids("0, 2-4,3,7-7", "partitions") == [0, 2, 3, 4, 7]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "numbers and ranges such as 0,2-4"),
        ("1,,2", "numbers and ranges such as 0,2-4"),
        ("-1", "numbers and ranges such as 0,2-4"),
        ("1-2-3", "numbers and ranges such as 0,2-4"),
        ("4-2", "goes backwards; write 2-4"),
        ("0-99999999999999", "more than"),
    ],
)
def test_what_is_no_range_is_refused_and_not_taken_for_nothing(text: str, words: str) -> None:
    """A range that goes backwards was an empty one: the command did nothing and said so to nobody;
    one that never ends filled the memory."""
    with pytest.raises(CommandFailed, match=words) as refused:
        parse_ids(text, "partitions")
    assert refused.value.code is ExitCode.USAGE
