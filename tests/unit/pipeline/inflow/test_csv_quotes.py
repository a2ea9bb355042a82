"""Which CSV files have quoted values that span lines, however the bytes arrive."""

import csv
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.inflow.csv_quotes import (
    NotUtf8,
    QuotedLines,
    Quoting,
    UnclosedQuote,
    chunks_of,
    scan_quotes,
    utf8,
)

VALUES = st.lists(st.sampled_from(['"', "\n", "\r\n", ",", " ", "a"]), max_size=6).map("".join)


def pieces(text: bytes, size: int) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@given(
    st.lists(st.lists(VALUES, min_size=1, max_size=3), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from([1, 2, 3, 5, 1000]),
)
def test_multi_line_values_are_found(
    rows: list[list[str]], end: str, ended: bool, size: int
) -> None:
    written = io.StringIO()
    csv.writer(written, lineterminator=end).writerows(rows)
    text = written.getvalue().encode()
    found = scan_quotes(pieces(text if ended else text.removesuffix(end.encode()), size), Quoting())
    assert found.spans_lines == any("\n" in value or "\r" in value for row in rows for value in row)
    assert not found.spans_lines or found.ends <= {end.encode()}


@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize(
    ("text", "line"),
    [(b'1,"a\n2,b\n', 1), (b'1,2\n"', 2), (b'1,"a\nb"\n3,"x', 3), (b'1,"a""\n', 1)],
)
def test_an_unclosed_value_is_reported_with_its_line(text: bytes, line: int, size: int) -> None:
    with pytest.raises(UnclosedQuote) as caught:
        scan_quotes(pieces(text, size), Quoting())
    assert caught.value.line == line


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    "text", [b"", b'5" pipe,3\n4,5\n', b'1,"abc"x,5\n2,3\n', b'"a","b"', b'a "b\nc" d\n', b'""\n']
)
def test_quotes_that_do_not_open_a_value_are_ignored(text: bytes, size: int) -> None:
    assert not scan_quotes(pieces(text, size), Quoting()).spans_lines


def test_every_kind_of_line_ending_is_reported() -> None:
    text = b'a,b\r\n1,"x\ny"\r\n2,z\n'
    assert scan_quotes([text], Quoting()) == QuotedLines(True, frozenset({b"\n", b"\r\n"}))


@pytest.mark.parametrize(
    ("options", "text", "spans"),
    [
        ({"escape": "\\"}, b'1,"a\\"\nb",2\n', True),
        ({"escape": "\\"}, b'1,"a\\"b",2\n', False),
        ({"sep": ";"}, b'1,"a;2\n3;4\n', False),
        ({"delimiter": "||"}, b'1||"a\nb"||2\n', True),
        ({"quote": "'"}, b"1,'a\nb'\n", True),
        ({"quote": ""}, b'1,"a\nb"\n', False),
        ({"comment": "#"}, b'# a,"b\n1,2\n', False),
        ({"ignoreLeadingWhiteSpace": "true"}, b'1, "a\nb"\n', True),
        ({}, b'1, "a\nb"\n', False),
    ],
)
def test_the_readers_options_are_applied(options: dict[str, str], text: bytes, spans: bool) -> None:
    assert scan_quotes([text], Quoting.from_options(options)).spans_lines == spans


@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"a\nb,\xff\nc\n", 2),
        ("a\n".encode("utf-16"), 1),
        ("ü\nü".encode() + "ü".encode()[:1], 2),
        ("ü\r\nü\n".encode("latin-1"), 1),
    ],
)
def test_invalid_utf8_is_reported_with_its_line(text: bytes, line: int, size: int) -> None:
    for quoting in (Quoting(), Quoting(quote=b"")):
        with pytest.raises(NotUtf8) as caught:
            scan_quotes(utf8(pieces(text, size)), quoting)
        assert caught.value.line == line
    good = "\ufeffü,日本,🎉\n".encode()
    assert b"".join(utf8(pieces(good, size))) == good


def test_a_compressed_file_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b'1,"a\nb"\n'))
    assert scan_quotes(chunks_of(str(path), None), Quoting()).spans_lines
