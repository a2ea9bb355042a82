"""Keys and values between bytes and what people read and write."""

import pytest

from headrace.cli.coding import BadValue, Coding, decode, encode, shown


@pytest.mark.parametrize(
    ("coding", "text", "data"),
    [
        (Coding.TEXT, "wörld", "wörld".encode()),
        (Coding.HEX, "00ff", b"\0\xff"),
        (Coding.BASE64, "AP8=", b"\0\xff"),
        (Coding.INT8, "-1", b"\xff"),
        (Coding.INT16, "258", b"\1\2"),
        (Coding.INT32, "1", b"\0\0\0\1"),
        (Coding.INT64, "-2", b"\xff" * 7 + b"\xfe"),
        (Coding.DOUBLE, "1.5", b"\x3f\xf8" + b"\0" * 6),
        (Coding.FLOAT, "1.5", b"\x3f\xc0\0\0"),
    ],
)
def test_what_is_encoded_is_decoded_to_the_same(coding: Coding, text: str, data: bytes) -> None:
    assert encode(text, coding) == data
    assert str(decode(data, coding)) == text
    assert shown(data, coding).decode() == text


def test_json_keeps_its_structure() -> None:
    assert decode(b'{"a": [1, null]}', Coding.JSON) == {"a": [1, None]}
    assert shown(b'{"a":1}', Coding.JSON) == b'{"a": 1}'
    assert encode('{"a":1}', Coding.JSON) == b'{"a":1}'


def test_bytes_that_are_no_text_are_shown_as_escapes_and_raw_leaves_them_be() -> None:
    assert decode(b"a\xff", Coding.TEXT) == "a\\xff"
    assert shown(b"a\xff", Coding.RAW) == b"a\xff"


def test_null_stays_null() -> None:
    assert decode(None, Coding.INT32) is None
    assert shown(None, Coding.JSON) == b""


@pytest.mark.parametrize(
    ("text", "coding"),
    [
        ("x", Coding.INT32),
        ("300", Coding.INT8),
        ("zz", Coding.HEX),
        ("%", Coding.BASE64),
        ("{", Coding.JSON),
        ("x", Coding.DOUBLE),
    ],
)
def test_a_text_that_is_not_of_the_kind_is_refused(text: str, coding: Coding) -> None:
    with pytest.raises(BadValue, match=coding.value):
        encode(text, coding)


def test_bytes_of_the_wrong_length_are_no_number() -> None:
    with pytest.raises(BadValue, match="3 bytes are no int32"):
        decode(b"abc", Coding.INT32)
    with pytest.raises(BadValue, match="not JSON"):
        decode(b"{", Coding.JSON)
