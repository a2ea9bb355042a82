"""Distinguished names in the form that Kafka's principals have: RFC 2253, as Java writes it.

The last attribute comes first, there are no blanks after commas, and an attribute without a name
in RFC 2253 is its object identifier with the encoded value in hex: `1.2.840.113549.1.9.1=#1603...`.
A name that is written in another way is another principal, and ACLs would not match it.
"""

from typing import Final

from headrace.security.tls.der import (
    SEQUENCE,
    SET,
    Element,
    InvalidDer,
    children,
    object_identifier,
)

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ENCODINGS: Final = {
    0x0C: "utf-8",  # UTF8String
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # T61String
    0x16: "ascii",  # IA5String
    0x1B: "ascii",  # GeneralString
    0x1E: "utf-16-be",  # BMPString
}
"""The types of strings that Java shows as text, by their tags."""

_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"


def distinguished_name(name: Element) -> str:
    """The text of an encoded name, e.g. `CN=alice,O=Example`."""
    relative_names = children(name, SEQUENCE)
    return ",".join(_relative_name(each) for each in reversed(relative_names))


def _relative_name(relative_name: Element) -> str:
    attributes = children(relative_name, SET)
    if not attributes:
        raise InvalidDer("a relative distinguished name is empty")
    return "+".join(map(_attribute, attributes))


def _attribute(attribute: Element) -> str:
    parts = children(attribute, SEQUENCE)
    if len(parts) != 2:
        raise InvalidDer("an attribute of a name is not a type and a value")
    identifier = object_identifier(parts[0])
    keyword, value = _KEYWORDS.get(identifier), parts[1]
    encoding = _ENCODINGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or identifier}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.contents.decode(encoding, 'replace'))}"


def _escaped(value: str) -> str:
    text = "".join(_escaped_character(character) for character in value)
    blanks_before = len(text) - len(text.lstrip(_BLANKS))
    if blanks_before == len(text):
        return "".join(f"\\{character}" for character in text)
    end = len(text.rstrip(_BLANKS))
    return (
        "".join(f"\\{character}" for character in text[:blanks_before])
        + text[blanks_before:end]
        + "".join(f"\\{character}" for character in text[end:])
    )


def _escaped_character(character: str) -> str:
    if character == "\0":
        return "\\00"
    return f"\\{character}" if character in _ESCAPED else character
