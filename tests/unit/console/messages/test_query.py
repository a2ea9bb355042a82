"""Searches: filters, needles, windows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.console.messages.decoding import Decoder
from headrace.console.messages.query import (
    BadQuery,
    JsonFilter,
    Position,
    Query,
    header_filter,
    json_spellings,
    time_of,
    windows_backwards,
)
from headrace.records.record import Record

NEWEST = Position("newest")


def record(value: bytes | None, key: bytes | None = None, **headers: bytes) -> Record:
    return Record(0, 0, key, value, tuple(headers.items()))


@pytest.mark.parametrize(
    ("path", "value", "matches"),
    [
        ("$.a.b", {"a": {"b": None}}, True),
        ("$.a.b", {"a": {}}, False),
        ("@.total > 100", {"total": 101}, True),
        ("@.total > 100", {"total": 100}, False),
        ("@.total > 100", ["not", "an", "object"], False),
        ("$[?@.a == 'x' && @.b]", {"a": "x", "b": 1}, True),
        ("$.items[?@.n > 3]", {"items": [{"n": 1}, {"n": 4}]}, True),
        ("$..deep", {"a": [{"deep": 0}]}, True),
    ],
)
def test_json_paths(path: str, value: object, *, matches: bool) -> None:
    assert JsonFilter(path).matches(value) is matches


@pytest.mark.parametrize("path", ["$[", "$.a[?@.b =~ /(a+)+$/ &&", "@.a >", "$." + "a." * 2000])
def test_an_invalid_json_path_says_why(path: str) -> None:
    with pytest.raises(BadQuery):
        JsonFilter(path)


@pytest.mark.parametrize("function", ["match", "search"])
def test_regular_expressions_are_not_run(function: str) -> None:
    """A hostile pattern would hold the interpreter for ever."""
    try:
        found = JsonFilter(f"{function}(@.a, '(a+)+$')")
    except BadQuery:
        return
    assert not found.matches({"a": "a" * 60 + "!"})


def test_text_is_looked_for_in_key_value_and_headers() -> None:
    query = Query(NEWEST, text=b"x1")
    decoder = Decoder()
    assert query.matches(record(b"..x1.."), decoder)
    assert query.matches(record(None, b"x1"), decoder)
    assert query.matches(record(None, h=b"x1"), decoder)
    assert query.matches(record(None, x1=b""), decoder)
    assert not query.matches(record(b"x 1"), decoder)


def test_any_case_holds_for_ascii_letters() -> None:
    query = Query(NEWEST, text=b"AbC", ignores_case=True)
    assert query.matches(record(b"xxaBcxx"), Decoder())
    assert query.may_match(b"xxABCxx")
    assert not query.may_match(b"xxABxx")


@pytest.mark.parametrize(
    "value",
    [
        '{"a": "say \\"gr\u00fc\u00df\\""}',
        r'{"a": "say \"gr\u00fc\u00df\""}',
        r'{"a": "say \"gr\u00FC\u00DF\""}',
        'say "gr\u00fc\u00df"',
    ],
)
def test_text_is_found_however_json_escapes_it(value: str) -> None:
    query = Query(NEWEST, text='"gr\u00fc\u00df"'.encode())
    found = record(value.encode())
    assert query.matches(found, Decoder())
    assert query.may_match(value.encode())
    assert not query.matches(record(b'{"a": "gr"}'), Decoder())


def test_plain_text_is_looked_for_in_one_spelling_only() -> None:
    assert json_spellings(b"plain text") == (b"plain text",)
    assert json_spellings(b"\xff") == (b"\xff",)
    assert json_spellings(b"") == ()


@given(
    st.binary(min_size=1, max_size=4),
    st.binary(max_size=8),
    st.binary(max_size=8),
    st.booleans(),
)
def test_no_needle_hides_a_record_that_matches(
    text: bytes, key: bytes, value: bytes, any_case: bool
) -> None:
    query = Query(NEWEST, text=text, ignores_case=any_case)
    if query.matches(record(value, key), Decoder()):
        assert query.may_match(b"\0" + key + b"\0" + value)


def test_headers_are_compared_by_name_and_value() -> None:
    both, name = header_filter("h=v"), header_filter("h")
    assert both is not None
    assert name is not None
    assert both.matches(record(None, h=b"v"))
    assert not both.matches(record(None, h=b"w"))
    assert name.matches(record(None, h=b"w"))
    assert header_filter("") is None
    with pytest.raises(BadQuery):
        header_filter("=v")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T01:00+01:00", 0),
        ("1700000000", 1_700_000_000_000),
        ("1700000000123", 1_700_000_000_123),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert time_of(text) == ms


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 500))
def test_windows_cover_the_range_once_from_its_end(start: int, length: int, first: int) -> None:
    windows = windows_backwards(start, start + length, first)
    covered = [offset for begin, end in reversed(windows) for offset in range(begin, end)]
    assert covered == list(range(start, start + length))
