"""NAME=VALUE pairs, as -X, --set and --config take them."""

import pytest

from headrace.cli.exit_codes import CommandFailed
from headrace.cli.name_value_pairs import parse_name_value_pairs


def test_assignments_are_name_and_value() -> None:
    assert parse_name_value_pairs(["a=1", "b=", "c = d=e"], "--set") == {
        "a": "1",
        "b": "",
        "c": "d=e",
    }


def test_a_later_value_replaces_an_earlier_one() -> None:
    assert parse_name_value_pairs(["a=1", "a=2"], "--set") == {"a": "2"}


@pytest.mark.parametrize("wrong", ["a", "=b", " =b", ""])
def test_a_word_without_a_name_or_a_value_names_its_option(wrong: str) -> None:
    with pytest.raises(CommandFailed, match="-X takes NAME=VALUE"):
        parse_name_value_pairs([wrong], "-X")
