"""Keys and values between bytes and what people read and write."""

import pytest

from headrace.cli.records.value_encoding import BadValue, ValueEncoding, decode, encode, shown


@pytest.mark.parametrize(
    ("coding", "text", "data"),
    [
        (ValueEncoding.TEXT, "wörld", "wörld".encode()),
        (ValueEncoding.HEX, "00ff", b"\0\xff"),
        (ValueEncoding.BASE64, "AP8=", b"\0\xff"),
        (ValueEncoding.INT8, "-1", b"\xff"),
        (ValueEncoding.INT16, "258", b"\1\2"),
        (ValueEncoding.INT32, "1", b"\0\0\0\1"),
        (ValueEncoding.INT64, "-2", b"\xff" * 7 + b"\xfe"),
        (ValueEncoding.DOUBLE, "1.5", b"\x3f\xf8" + b"\0" * 6),
        (ValueEncoding.FLOAT, "1.5", b"\x3f\xc0\0\0"),
    ],
)
def test_what_is_encoded_is_decoded_to_the_same(
    coding: ValueEncoding, text: str, data: bytes
) -> None:
    assert encode(text, coding) == data
    assert str(decode(data, coding)) == text
    assert shown(data, coding).decode() == text


def test_json_keeps_its_structure() -> None:
    assert decode(b'{"a": [1, null]}', ValueEncoding.JSON) == {"a": [1, None]}
    assert shown(b'{"a":1}', ValueEncoding.JSON) == b'{"a": 1}'
    assert encode('{"a":1}', ValueEncoding.JSON) == b'{"a":1}'


def test_bytes_that_are_no_text_are_shown_as_escapes_and_raw_leaves_them_be() -> None:
    assert decode(b"a\xff", ValueEncoding.TEXT) == "a\\xff"
    assert shown(b"a\xff", ValueEncoding.RAW) == b"a\xff"


def test_text_goes_to_a_pipe_byte_for_byte_and_to_a_terminal_without_control_characters() -> None:
    data = b"\x1b[2J\xff a\tb\n" + "\x9b\u202eö".encode()
    assert shown(data, ValueEncoding.TEXT) == data
    safe = "\\x1b[2J\\xff a\tb\n\\u009b\\u202eö"
    assert shown(data, ValueEncoding.TEXT, for_terminal=True).decode() == safe
    assert shown(b'"\xc2\x9b"', ValueEncoding.JSON, for_terminal=True) == b'"\\u009b"'
    assert shown(b"\x1b", ValueEncoding.RAW, for_terminal=True) == b"\x1b"


def test_null_stays_null() -> None:
    assert decode(None, ValueEncoding.INT32) is None
    assert shown(None, ValueEncoding.JSON) == b""


@pytest.mark.parametrize(
    ("text", "coding"),
    [
        ("x", ValueEncoding.INT32),
        ("300", ValueEncoding.INT8),
        ("zz", ValueEncoding.HEX),
        ("%", ValueEncoding.BASE64),
        ("{", ValueEncoding.JSON),
        ("x", ValueEncoding.DOUBLE),
    ],
)
def test_a_text_that_is_not_of_the_kind_is_refused(text: str, coding: ValueEncoding) -> None:
    with pytest.raises(BadValue, match=coding.value):
        encode(text, coding)


def test_bytes_of_the_wrong_length_are_no_number() -> None:
    with pytest.raises(BadValue, match="int32 needs 4 bytes, not 3"):
        decode(b"abc", ValueEncoding.INT32)
    with pytest.raises(BadValue, match="invalid JSON"):
        decode(b"{", ValueEncoding.JSON)
