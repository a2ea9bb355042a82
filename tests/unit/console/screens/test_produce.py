"""Headers as a visitor types them."""

import pytest

from headrace.console.screens.produce import _header_line, headers_of


def test_headers_are_text_null_or_bytes() -> None:
    assert headers_of("a=1=2\n\nb\nc:=AP8=\n") == (("a", b"1=2"), ("b", None), ("c", b"\x00\xff"))


@pytest.mark.parametrize("text", ["=v", "a:=?", "\n".join(["h=1"] * 201)])
def test_invalid_headers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"headers|base64"):
        headers_of(text)


@pytest.mark.parametrize("data", [None, b"text", b"\x00\xff", b"two\nlines", b""])
def test_a_copied_header_has_the_same_bytes(data: bytes | None) -> None:
    assert headers_of(_header_line("h", data)) == (("h", data),)
