"""Hostile bytes become harmless text."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.console.messages.decoding import (
    SUMMARISED_BYTES,
    Coding,
    Decoder,
    from_text,
    hex_dump,
    preview,
    visible,
)

DECODER = Decoder()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (None, "null"),
        (b"", "empty"),
        (b'{"a": 1}', "JSON"),
        (b"12", "JSON"),
        (b"plain", "text"),
        (b"true story", "text"),
        (b"\xff\xfe", "binary"),
        (b"\x00\x01\x02\x03", "binary"),
        ("gr\u00fc\u00dfe".encode(), "text"),
    ],
)
def test_the_kind_is_recognised(data: bytes | None, kind: str) -> None:
    assert DECODER.decode(data, Coding.AUTO).kind == kind


def test_what_cannot_be_decoded_as_asked_for_is_shown_with_a_note() -> None:
    assert DECODER.decode(b"{", Coding.JSON).note == "it is not JSON"
    assert "--registry" in DECODER.decode(b"\0\0\0\0\1x", Coding.REGISTRY).note


@given(st.binary(max_size=300), st.sampled_from(list(Coding)))
def test_no_control_or_direction_character_leaves_the_decoder(data: bytes, coding: Coding) -> None:
    decoded = DECODER.decode(data, coding)
    for text in (decoded.text, preview(decoded, data)):
        bad = [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t"]
        # A soft hyphen and tags of other scripts are format characters without effect on order.
        assert not [c for c in bad if ord(c) < 0xA0 or 0x200B <= ord(c) <= 0x206F]


def test_escapes_and_overrides_are_visible() -> None:
    assert visible("\x1b[2J\u202eexe") == "\u27e8U+001B\u27e9[2J\u27e8U+202E\u27e9exe"


def test_deeply_nested_json_does_not_fail() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert DECODER.decode(deep, Coding.AUTO).kind in ("text", "JSON")
    assert DECODER.object_of(deep, Coding.AUTO)[0] in (False, True)


def test_a_preview_is_one_short_line() -> None:
    data = json.dumps({"text": "x\n" * 10_000}).encode()
    line = preview(DECODER.decode(data, Coding.AUTO), data)
    assert "\n" not in line
    assert len(line) < 500


def test_a_large_value_is_summarised_by_its_beginning() -> None:
    text = "\u00fc" * SUMMARISED_BYTES
    assert DECODER.summarise(f'x{{"a": "{text}"}}'.encode(), Coding.AUTO).kind == "text"
    for value in (f'{{"a": "{text}"}}\n', f' ["{text}"]'):
        found = DECODER.summarise(value.encode(), Coding.AUTO)
        assert found.kind == "JSON"
        assert found.object is None, "it must not be parsed as a whole"
        assert preview(found, value.encode()).lstrip().startswith(value.strip()[:5])
    assert DECODER.summarise(b"\x00\xff" * SUMMARISED_BYTES, Coding.AUTO).kind == "binary"


def test_a_hex_dump_is_bounded() -> None:
    assert hex_dump(b"AB\x00").startswith("00000000  41 42 00")
    assert len(hex_dump(b"x" * 10_000_000)) < 25_000


@pytest.mark.parametrize(
    ("text", "coding", "data"),
    [
        ("00 ff", Coding.HEX, b"\x00\xff"),
        ("AP8=", Coding.BASE64, b"\x00\xff"),
        ('{"a":1}', Coding.JSON, b'{"a":1}'),
        ("\u00fc", Coding.TEXT, b"\xc3\xbc"),
    ],
)
def test_typed_text_becomes_bytes(text: str, coding: Coding, data: bytes) -> None:
    assert from_text(text, coding) == data


@pytest.mark.parametrize(
    ("text", "coding"), [("0", Coding.HEX), ("?", Coding.BASE64), ("{", Coding.JSON)]
)
def test_invalid_text_is_refused(text: str, coding: Coding) -> None:
    with pytest.raises(ValueError, match="this is not"):
        from_text(text, coding)
