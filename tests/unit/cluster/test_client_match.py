"""The patterns of `match`: the whole attribute, and never slow."""

import time

import pytest

from headrace.cluster.client_match import InvalidMatch, matches, parse_match


def test_an_empty_match_applies_to_all_clients() -> None:
    assert parse_match("") == parse_match(" , ") == ()
    assert matches((), {})


@pytest.mark.parametrize("value", ["client_id", "client_id=", "=x", "x=y", "client_id=a=b", "a"])
def test_an_entry_is_one_attribute_and_one_pattern(value: str) -> None:
    with pytest.raises(InvalidMatch, match="Illegal client matching pattern: "):
        parse_match(value)


def test_a_client_cannot_make_a_pattern_slow() -> None:
    match = parse_match("client_id=(a+)+$")
    started = time.monotonic()
    assert not matches(match, {"client_id": "a" * 1000 + "b"})
    # A pattern that backtracks would need years.
    assert time.monotonic() - started < 1.0


def test_an_unknown_attribute_is_empty() -> None:
    assert not matches(parse_match("client_software_name=.+"), {})
